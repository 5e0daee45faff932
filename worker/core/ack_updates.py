"""Updates from one run loop to the ackers, and their split by shard.

A tree's ack value is the xor of everything reported for its root, in any order and grouping (docs/protocol.md). So
consecutive acks of one root, for example those of the words of a sentence, are merged into one. An ack of a tree that
was begun here since the last flush is merged into the tree's init. This init usually follows, or is, the init of the
previous ack. Otherwise a small table is consulted, which maps the lowest bits of roots (random) to the newest init with
these bits. If the table does not have the init, the acker gets one more update. No other acks are merged: adding them
up costs the acker less than a dictionary would cost here.
"""

from __future__ import annotations  # pure

from array import array
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tupletree._wire import reason_messages
from tupletree._wire.fail_reasons import MAX_PER_FLUSH, FailReason
from tupletree._wire.fail_reasons import encode as encode_reason
from tupletree._wire.packed import pack_u32, pack_u64
from tupletree.v1 import acker_pb2

from .id_columns import IdColumns

Ids: TypeAlias = "array[int]"
Columns: TypeAlias = tuple[Ids, Ids, Ids, Ids, Ids, Ids, Ids]
"""Roots, values and tasks of inits; roots and values of acks; roots of fails; roots of resets."""

NEWEST_MASK = 16_383


class AckUpdates:
    """Ledger updates that wait for a flush.

    ``acks``: roots, each with a value to xor into the root's ack value. ``inits``: roots and values of new trees.
    ``init_tasks``: the spout task of each init.
    """

    __slots__ = ("_at", "_newest", "acks", "fails", "init_tasks", "inits", "reasons", "resets")

    def __init__(self) -> None:
        self.acks = IdColumns()
        self.inits = IdColumns()
        self.init_tasks: list[int] = []
        self.fails: set[int] = set()
        self.resets: set[int] = set()
        self.reasons: dict[int, bytes] = {}  # by root, for some of ``fails``
        self._newest: Ids | None = None
        self._at = 0  # the init that the last merged ack belonged to

    def successor(self) -> AckUpdates:
        """Return empty updates to use after these. They take over the table of newest inits, to save memory."""
        fresh = AckUpdates()
        fresh._newest, self._newest = self._newest, None  # old entries do no harm: add_at compares roots
        return fresh

    @staticmethod
    def of(acks: Iterable[tuple[int, int]] = (), fails: Iterable[int] = ()) -> AckUpdates:
        """Return updates made of acks as (root, value) and of the roots of failed trees."""
        updates = AckUpdates()
        for root, value in acks:
            updates.add_ack(root, value)
        updates.fails.update(fails)
        return updates

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        """Number of updates."""
        return self.acks.count + self.inits.count + len(self.fails) + len(self.resets)

    def fail(self, roots: Iterable[int], reason: FailReason) -> None:
        """Report that a bolt failed these trees."""
        encoded = encode_reason(reason) if len(self.reasons) < MAX_PER_FLUSH else b""
        for root in roots:
            self.fails.add(root)
            if encoded and len(self.reasons) < MAX_PER_FLUSH:
                self.reasons[root] = encoded

    def add_ack(self, root: int, value: int) -> None:
        """Report that ``value`` is to be xored into the ack value of ``root``."""
        acks, inits, at = self.acks, self.inits, self._at
        if inits.add_at(at, root, value):
            return
        if inits.add_at(at + 1, root, value):
            self._at = at + 1
            return
        if acks.add_at(acks.count - 1, root, value):
            return
        if self._newest is not None:
            at = self._newest[root & NEWEST_MASK]
            if inits.add_at(at, root, value):
                self._at = at
                return
        acks.append(root, value)

    def add_acks(self, other: AckUpdates) -> None:
        """Add the acks of other updates, which were held back until now."""
        roots, values = other.acks.columns()
        for at in range(len(roots)):
            self.add_ack(roots[at], values[at])

    def add_init(self, root: int, value: int, task: int) -> None:
        """Report a new tree of a spout task."""
        if self._newest is None:
            self._newest = array("H", bytes(2 * (NEWEST_MASK + 1)))
        self._newest[root & NEWEST_MASK] = self.inits.count & 0xFFFF  # beyond 65,536 inits, only the first are found
        self.add_lone_init(root, value, task)

    def add_lone_init(self, root: int, value: int, task: int) -> None:
        """Report a tree without an entry in the table: later acks of the tree are reported separately."""
        self.inits.append(root, value)
        self.init_tasks.append(task)

    def columns(self) -> Columns:
        """Return copies of all columns, in the order of ``Ledger.apply``."""
        tasks = array("I", self.init_tasks)
        return *self.inits.columns(), tasks, *self.acks.columns(), array("Q", self.fails), array("Q", self.resets)

    def roots(self) -> set[int]:
        """Return every root that has an update."""
        return self.fails.union(self.resets, self.acks.columns()[0], self.inits.columns()[0])


def split(updates: AckUpdates, shards: int) -> dict[int, AckUpdates]:
    """Split updates by shard. A root belongs to shard ``root mod shards``; shards without updates are left out."""
    if shards == 1:
        return {0: updates}
    parts = [AckUpdates() for _ in range(shards)]
    roots, values = updates.acks.columns()
    for at in range(len(roots)):
        part = parts[roots[at] % shards]
        part.add_ack(roots[at], values[at])
    roots, values = updates.inits.columns()
    for at in range(len(roots)):
        part = parts[roots[at] % shards]
        part.add_lone_init(roots[at], values[at], updates.init_tasks[at])
    for root in updates.fails:
        part = parts[root % shards]
        part.fails.add(root)
        if root in updates.reasons:
            part.reasons[root] = updates.reasons[root]
    for root in updates.resets:
        part = parts[root % shards]
        part.resets.add(root)
    return {shard: part for shard, part in enumerate(parts) if part}


def encode(shard: int, parts: Iterable[AckUpdates]) -> acker_pb2.ShardUpdate:
    """Encode all these updates of one shard as one message."""
    parts = list(parts)
    init_roots, init_values, init_tasks, ack_roots, ack_values, fails, resets = map(
        _joined, zip(*(part.columns() for part in parts), strict=True)
    )
    return acker_pb2.ShardUpdate(
        shard=shard,
        init_roots=pack_u64(init_roots),
        init_values=pack_u64(init_values),
        init_tasks=pack_u32(init_tasks),
        ack_roots=pack_u64(ack_roots),
        ack_values=pack_u64(ack_values),
        fail_roots=pack_u64(fails),
        reset_roots=pack_u64(resets),
        fail_reasons=reason_messages.packed(part.reasons for part in parts),
    )


def _joined(columns: Sequence[Ids]) -> Ids:
    first, *others = columns
    for column in others:
        first.extend(column)
    return first
