"""Opaque spouts: a replayed batch may be another one, and still every tuple is in exactly one committed batch.

A *position* of a partition is (txid, attempt, metadata): where that attempt's batch ended. Emitting a batch moves from
one position, its *base*, to the next one. Positions are remembered when they are reached, and written down in the
commit phase of their attempt.

**Invariants**, for each partition:

O1  A position is written down only if its base is the latest of an earlier transaction that is written down at that
    very moment, and it replaces only a position of the same transaction with the same base and an older attempt. (The
    write names the version of the node, partition_states.py, so nothing comes between the look and the write.)
O2  When a transaction is recorded as committed with an attempt, the positions of that attempt are written down, and
    stay: no later attempt of it is ever made, and an older one is refused.

So the committed positions form a chain, p(1), p(2), …, each reached from the one before by exactly the batch that was
committed: the tuples counted downstream under an attempt are those that its emitters emitted under it (counting.py), in
the one call that began at the base and ended at the position. As a batch begins where its base is, no tuple is skipped
and none repeated. What failed attempts emitted has no part in the chain, and the opaque rule takes its effects back.

Where something fails, either O1 refuses the commit or the replay begins at the same base:

* *The emitter dies between emission and commit.* The new incarnation remembers nothing and fails the commit tuple. What
  it has emitted for later transactions in the meantime began at a wrong base; it falls with the replay.
* *It dies when the position is written down, before the commit tuple is acked;* or another committer fails the commit.
  The transaction is replayed from the same base, which is kept until the next transaction commits, that is, until this
  one is recorded. The new position replaces the old one.
* *The reply of the store is lost.* The same; and if the same attempt is told to commit again, its position is there.
* *The batch tuple of txid is lost on the way to one emitter, that of txid + 1 arrives.* The emitter begins the second
  batch at the wrong base, but the first is never complete; both are replayed.
* *A deposed coordinator's commit tuple arrives late.* The write checks the epoch and fails.
* *Two incarnations of an emitter in one epoch,* one of which should be dead. Say it commits txid after the other one
  has begun txid + 1 at the base that it saw: the base of txid + 1 is not the latest at its commit, and O1 refuses it. A
  commit of the dead one that is late is refused by the version or by the newer attempt.
* *A write that the store carries out after its reply was given up for lost* is a commit of the dead one as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tupletree._wire.codec import decode_value
from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.errors import FailedException
from tupletree.transactional.bolts import BatchCollector, Committer
from tupletree.transactional.checksum import CountingCollector
from tupletree.transactional.partition_states import Partitions, PartitionStates
from tupletree.transactional.partitioned import PartitionsAdapter, check_metadata, encode_metadata
from tupletree.transactional.spouts import (
    CommittingEmitter,
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    checked_part,
)

KIND = "opaque"


class OpaqueSpoutAdapter(PartitionsAdapter, Committer):
    """An OpaquePartitionedTransactionalSpout as the TransactionalSpout that it amounts to; its emitters commit."""

    kind = KIND
    spout: OpaquePartitionedTransactionalSpout

    @staticmethod
    def metadata(state: Any) -> Any:
        return decode_value(state[1])

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> CommittingEmitter:
        emitter = checked_part(OpaquePartitionEmitter, self.spout.emitter(conf, context), self.spout, context)
        tasks = len(context.component_tasks(context.component_id))
        return OpaqueEmitter(context.component_id, emitter, self._partitions(conf), context.task_index, tasks)


class Position(NamedTuple):
    """Where the batch of an attempt ended in one partition: where the next one begins."""

    txid: int
    attempt: int
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Emitted:
    """A batch that was emitted here: for each partition where it began, None for its beginning, and where it ended."""

    attempt: TransactionAttempt
    moves: Mapping[int, tuple[Position | None, Position]]


class OpaqueEmitter(CommittingEmitter):
    """Emits the batches of partitions ``index``, ``index + tasks``, … and writes down where they ended."""

    def __init__(
        self, component_id: str, source: OpaquePartitionEmitter, partitions: Partitions, index: int, tasks: int
    ) -> None:
        self._component_id = component_id
        self._source = source
        self._partitions = partitions
        self._index = index
        self._tasks = tasks
        self._emitted: dict[int, Emitted] = {}  # by txid

    def cleanup_before(self, txid: int) -> None:
        self._emitted = {other: emitted for other, emitted in self._emitted.items() if other >= txid}

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: BatchCollector) -> None:
        # What was emitted for later transactions began where this one ended: it is over.
        self._emitted = {txid: emitted for txid, emitted in self._emitted.items() if txid < attempt.txid}
        moves = {}
        for partition in range(self._index, metadata, self._tasks):
            base = self._base(attempt.txid, partition)
            previous = None if base is None else decode_value(base.metadata)
            emitted = CountingCollector(collector)
            reached = self._source.emit_partition_batch(attempt, emitted, partition, previous)
            check_metadata(self._component_id, partition, reached, emitted.rows)
            moves[partition] = base, Position(*attempt, encode_metadata(self._component_id, partition, reached))
        self._emitted[attempt.txid] = Emitted(attempt, moves)

    def commit(self, attempt: TransactionAttempt) -> None:
        try:
            changed = self._committed(attempt)
            if changed:
                self._partitions.write(attempt, changed)
        except FailedException:  # whatever the reason: the replay looks at what is stored
            self._partitions.forget()
            self._emitted = {}
            raise

    def close(self) -> None:
        self._source.close()
        self._partitions.close()

    def _base(self, txid: int, partition: int) -> Position | None:
        """Where a batch begins: where the last one ended that was emitted here, else that was written down."""
        last = self._emitted.get(txid - 1)
        if last is not None and partition in last.moves:
            return last.moves[partition][1]
        return _before(self._partitions[partition], txid)

    def _committed(self, attempt: TransactionAttempt) -> dict[int, dict[int, Any]]:
        """The states of each partition once an attempt is committed. FailedException if it must not be (O1)."""
        emitted = self._emitted.get(attempt.txid)
        if emitted is None or emitted.attempt != attempt:
            raise FailedException(f"{attempt}: its batch was not emitted by this incarnation of the emitter")
        changed = {}
        for partition, (base, reached) in emitted.moves.items():
            stored = self._partitions[partition]
            same = _at(stored, attempt.txid)
            if stored.has_later(attempt.txid) or (same is not None and same.attempt > attempt.attempt):
                raise FailedException(f"{attempt}: a later one has written down partition {partition}")
            if _before(stored, attempt.txid) != base:
                raise FailedException(f"{attempt}: its batch of partition {partition} began at a position that is over")
            positions = (reached,) if base is None else (base, reached)
            changed[partition] = {txid: [number, metadata] for txid, number, metadata in positions}
        return changed


def _at(known: PartitionStates, txid: int) -> Position | None:
    return Position(txid, *known.states[txid]) if txid in known.states else None


def _before(known: PartitionStates, txid: int) -> Position | None:
    before = known.newest_before(txid)
    return None if before is None else _at(known, before)
