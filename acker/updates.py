"""Validation of the messages on a Track stream, and their conversion into batches for the ledgers.

A message is validated as a whole before any part is applied, so a malformed message leaves every ledger unchanged. All
errors here are ProtocolErrors: no correct worker sends such a message, so the stream ends.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tupletree._wire import reason_messages
from tupletree._wire.fail_reasons import MAX_BYTES
from tupletree._wire.names import TREES_PREFIX
from tupletree._wire.packed import unpack_u32, unpack_u64
from tupletree.errors import ProtocolError
from tupletree.v1 import acker_pb2 as pb

MAX_SHARDS = 1 << 16
MAX_TASKS = 1 << 20
MAX_NAME = 1024


@dataclass(frozen=True, slots=True)
class Hello:
    """The worker at the other end of a stream. ``timeout_s`` 0: the topology has no message timeouts."""

    topology_id: str
    worker_id: str
    tasks: frozenset[int]
    timeout_s: float
    shards: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Updates for one shard, ready for ``Ledger.apply``: arrays of one kind have the same length."""

    shard: int
    init_roots: Sequence[int]
    init_values: Sequence[int]
    init_tasks: Sequence[int]
    ack_roots: Sequence[int]
    ack_values: Sequence[int]
    fail_roots: Sequence[int]
    reset_roots: Sequence[int]
    fail_reasons: Mapping[int, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.init_roots) + len(self.ack_roots) + len(self.fail_roots) + len(self.reset_roots)

    def inits(self) -> Batch:
        """Return a batch of the inits only."""
        return Batch(self.shard, self.init_roots, self.init_values, self.init_tasks, (), (), (), ())

    def others(self) -> Batch:
        """Return a batch of all updates except the inits."""
        return Batch(self.shard, (), (), (), self.ack_roots, self.ack_values, self.fail_roots, self.reset_roots,
                     self.fail_reasons)  # fmt: skip

    def parts(self, size: int) -> Iterator[Batch]:
        """Split into batches of at most ``size`` updates of each kind. The order of updates does not matter."""
        longest = max(len(self.init_roots), len(self.ack_roots), len(self.fail_roots), len(self.reset_roots))
        if longest <= size:
            yield self
            return
        for start in range(0, longest, size):
            cut = slice(start, start + size)
            yield Batch(
                self.shard,
                self.init_roots[cut],
                self.init_values[cut],
                self.init_tasks[cut],
                self.ack_roots[cut],
                self.ack_values[cut],
                self.fail_roots[cut],
                self.reset_roots[cut],
                self.fail_reasons if start == 0 else {},
            )


def check_hello(request: pb.TrackRequest) -> Hello:
    """Validate the first message of a stream. Raises ProtocolError."""
    if request.WhichOneof("kind") != "hello":
        raise ProtocolError("a Track stream begins with a hello")
    hello = request.hello
    for name, text in (("topology_id", hello.topology_id), ("worker_id", hello.worker_id)):
        if not 0 < len(text) <= MAX_NAME:
            raise ProtocolError(f"hello: {name} has {len(text)} characters, expected 1 to {MAX_NAME}")
    if hello.topology_id.startswith(TREES_PREFIX):
        raise ProtocolError(f"hello: '{hello.topology_id}' is a namespace of trees, which TrackTrees serves")
    if not 0 < hello.shards <= MAX_SHARDS:
        raise ProtocolError(f"hello: shards is {hello.shards}, expected 1 to {MAX_SHARDS}")
    if not (math.isfinite(hello.message_timeout_s) and hello.message_timeout_s >= 0):
        raise ProtocolError(f"hello: message_timeout_s is {hello.message_timeout_s}, expected 0 or more seconds")
    tasks = frozenset(hello.tasks)
    if 0 in tasks:
        raise ProtocolError("hello: tasks holds task 0, but tasks are numbered from 1")
    if len(hello.tasks) > MAX_TASKS:
        raise ProtocolError(f"hello: {len(hello.tasks)} tasks, expected at most {MAX_TASKS}")
    return Hello(hello.topology_id, hello.worker_id, tasks, hello.message_timeout_s, hello.shards)


def check_updates(request: pb.TrackRequest | pb.TrackTreesRequest, hello: Hello, sequence: int) -> list[Batch]:
    """Validate a later message with the expected ``sequence``. Raises ProtocolError."""
    if request.WhichOneof("kind") != "updates":
        raise ProtocolError("after its hello a Track stream carries updates only")
    updates = request.updates
    if updates.sequence != sequence:
        raise ProtocolError(f"updates came with sequence {updates.sequence}, expected {sequence}")
    return [_check_shard(shard, hello) for shard in updates.shards]


def _check_shard(update: pb.ShardUpdate, hello: Hello) -> Batch:
    shard = update.shard
    if shard >= hello.shards:
        raise ProtocolError(f"updates for shard {shard}, but {hello.topology_id} has {hello.shards} shards")
    try:
        batch = Batch(
            shard,
            unpack_u64(update.init_roots),
            unpack_u64(update.init_values),
            unpack_u32(update.init_tasks),
            unpack_u64(update.ack_roots),
            unpack_u64(update.ack_values),
            unpack_u64(update.fail_roots),
            unpack_u64(update.reset_roots),
            reason_messages.unpacked(update.fail_reasons),
        )
    except ProtocolError as error:
        raise ProtocolError(f"updates for shard {shard}: {error}") from None
    inits, values, tasks = len(batch.init_roots), len(batch.init_values), len(batch.init_tasks)
    if not inits == values == tasks:
        raise ProtocolError(f"updates for shard {shard}: {inits} init roots, {values} values, {tasks} tasks")
    if len(batch.ack_roots) != len(batch.ack_values):
        acks = f"{len(batch.ack_roots)} ack roots, {len(batch.ack_values)} values"
        raise ProtocolError(f"updates for shard {shard}: {acks}")
    if any(len(reason) > MAX_BYTES for reason in update.fail_reasons.reasons):
        raise ProtocolError(f"updates for shard {shard}: a fail reason has more than {MAX_BYTES} bytes")
    if not hello.tasks.issuperset(batch.init_tasks):
        unknown = min(set(batch.init_tasks) - hello.tasks)
        raise ProtocolError(f"updates for shard {shard}: task {unknown} is not a spout task of {hello.worker_id}")
    return batch
