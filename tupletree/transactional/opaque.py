"""Opaque spouts: a replayed batch can differ, and still every tuple is in exactly one committed batch.

A *position* of a partition is (txid, attempt, metadata): the end of that attempt's batch. Emitting a batch moves from
one position, its *base*, to the next position. Positions are kept in memory when they are reached, and stored in the
commit phase of their attempt.

**Invariants**, for each partition:

O1  A position is stored only if its base is, at that moment, the latest stored position of an earlier transaction. It
    replaces only a position of the same transaction with the same base and an older attempt. (The write names the
    version of the node, partition_states.py, so nothing can change between read and write.)
O2  When a transaction is recorded as committed with an attempt, the positions of that attempt are stored and stay: no
    later attempt of the transaction is ever made, and older attempts are refused.

So the committed positions form a chain p(1), p(2), … Each is reached from its predecessor by exactly the committed
batch: the tuples counted downstream under an attempt are those that its emitters emitted under it (counting.py), in the
single call that began at the base and ended at the position. Because a batch begins at its base, no tuple is skipped or
repeated. Emissions of failed attempts are not part of the chain, and the opaque rule undoes their effects.

After a failure, either O1 refuses the commit or the replay begins at the same base:

* *The emitter dies between emission and commit.* The new incarnation has no position in memory and fails the commit
  tuple. Batches that it has meanwhile emitted for later transactions began at a wrong base; they fail with the replay.
* *The emitter dies after the position was stored and before the commit tuple is acked,* or another committer fails the
  commit. The transaction is replayed from the same base. The base is kept until the next transaction commits, and this
  transaction is recorded as committed by then. The new position replaces the old position.
* *The reply of the store is lost.* As in the preceding case, the transaction is replayed from the same base. If the
  same attempt must commit again, its position is stored again.
* *The batch tuple of txid is lost on the way to one emitter, but the batch tuple of txid + 1 arrives.* The emitter
  begins the second batch at the wrong base, but the first batch is never complete. Both are replayed.
* *A deposed coordinator's commit tuple arrives late.* The write checks the epoch and fails.
* *Two incarnations of an emitter exist in one epoch,* an old and a new incarnation. Suppose the old incarnation commits
  txid after the new incarnation has begun txid + 1 at the base visible by then. At the commit of txid + 1 this base is
  not the latest, and O1 refuses the commit. A late commit of the old incarnation is refused by the version check or
  because a newer attempt is stored.
* *The store executes a write whose reply was given up for lost.* This is the same as a late commit of an old
  incarnation.
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
    """Adapter from OpaquePartitionedTransactionalSpout to TransactionalSpout. Its emitters take part in commits."""

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
    """The end of an attempt's batch in one partition, where the next batch begins."""

    txid: int
    attempt: int
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Emitted:
    """A batch emitted by this object. ``moves``: base (None for the start of the partition) and end, by partition."""

    attempt: TransactionAttempt
    moves: Mapping[int, tuple[Position | None, Position]]


class OpaqueEmitter(CommittingEmitter):
    """Emits the batches of partitions ``index``, ``index + tasks``, … and stores their end positions."""

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
        # Batches of later transactions began at the end of this batch, so they are over.
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
        except FailedException:  # for any reason: the replay must read the stored positions
            self._partitions.forget()
            self._emitted = {}
            raise

    def close(self) -> None:
        self._source.close()
        self._partitions.close()

    def _base(self, txid: int, partition: int) -> Position | None:
        """Return the base of a batch: the end of the preceding batch if emitted here, else the stored position."""
        last = self._emitted.get(txid - 1)
        if last is not None and partition in last.moves:
            return last.moves[partition][1]
        return _before(self._partitions[partition], txid)

    def _committed(self, attempt: TransactionAttempt) -> dict[int, dict[int, Any]]:
        """Return the states of each partition after the commit of an attempt. FailedException if O1 forbids it."""
        emitted = self._emitted.get(attempt.txid)
        if emitted is None or emitted.attempt != attempt:
            raise FailedException(f"{attempt}: its batch was not emitted by this incarnation of the emitter")
        changed = {}
        for partition, (base, reached) in emitted.moves.items():
            stored = self._partitions[partition]
            same = _at(stored, attempt.txid)
            if stored.has_later(attempt.txid) or (same is not None and same.attempt > attempt.attempt):
                raise FailedException(f"{attempt}: a later attempt has recorded partition {partition}")
            if _before(stored, attempt.txid) != base:
                raise FailedException(f"{attempt}: its batch of partition {partition} began at an outdated position")
            positions = (reached,) if base is None else (base, reached)
            changed[partition] = {txid: [number, metadata] for txid, number, metadata in positions}
        return changed


def _at(known: PartitionStates, txid: int) -> Position | None:
    return Position(txid, *known.states[txid]) if txid in known.states else None


def _before(known: PartitionStates, txid: int) -> Position | None:
    before = known.newest_before(txid)
    return None if before is None else _at(known, before)
