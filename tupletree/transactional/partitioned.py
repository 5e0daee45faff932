"""Spouts that read partitions: the bookkeeping that makes a replayed batch the same batch.

For each partition and transaction the metadata of the batch, the number of its tuples and their checksum are written
down when it is first emitted. The argument that replays are identical and that no tuple is skipped or repeated:

**Invariants**, for each partition:

P1  The states that were ever written form a chain: the batch of each began where that of the one before ended. For a
    batch is emitted anew from the latest state only, and written down only if that is the latest still
    (partition_states.py), also when two incarnations of the emitter are at work.
P2  The tuples of an attempt are those of the state of its transaction: an emitter reports a batch as emitted only when
    the state is stored, and emits from the state if there is one. So a transaction that was reported once, by whomever,
    is the same batch ever after. If the write fails, the attempt fails, and what was emitted for it is dropped.

What comes of it where something fails:

* *The emitter dies, or the reply of the store is lost, between emission and report.* The attempt is never reported. Its
  state is stored, and the replay is the same; or it is not, and the replay may differ from what nobody has counted.
* *The batch tuple of txid is lost on the way to one emitter, that of a later one arrives.* The later batch begins where
  the last stored one ended, so the partition has nothing left for txid: its replay emits nothing here. ("A later
  transaction is stored, this one is not" stays true until txid is committed, so every replay finds the same.)
* *A deposed coordinator asks for a batch.* Its epoch is over: nothing is written, and the attempt fails. A replay needs
  no write and succeeds: the batch is the right one, but this coordinator cannot record that it is committed.

States below the last committed transaction are left out of the next write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from tupletree._wire.codec import decode_value, encode_value
from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.errors import ReportedFailedException, UnregisteredTypeError, UsageError
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.checksum import ChecksumCollector
from tupletree.transactional.partition_states import Partitions
from tupletree.transactional.spouts import (
    OpaquePartitionedTransactionalSpout,
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    PartitionEmitter,
    TransactionalSpout,
    TransactionCoordinator,
    TransactionEmitter,
    checked_part,
)
from tupletree.transactional.store import StateStore
from tupletree.transactional.zookeeper import open_store

KIND = "partitioned"
PAUSE_S = 0.05
"""How long no partition is looked at again when none had more."""


class PartitionsAdapter(TransactionalSpout):
    """A spout with partitions, of either kind, as the TransactionalSpout that it amounts to: what both kinds share.

    ``open_store`` is there for tests and the simulation.
    """

    kind: ClassVar[str]

    def __init__(
        self,
        transactional_id: str,
        spout: PartitionedTransactionalSpout | OpaquePartitionedTransactionalSpout,
        *,
        open_store: Callable[[Mapping[str, Any]], StateStore] = open_store,
    ) -> None:
        self.transactional_id = transactional_id
        self.spout = spout
        self._open_store = open_store

    @staticmethod
    def metadata(state: Any) -> Any:
        """That of a partition's batch, out of its state."""
        raise NotImplementedError

    def declare_output_fields(self, declarer: Any) -> None:
        self.spout.declare_output_fields(declarer)

    def component_configuration(self) -> Mapping[str, Any]:
        return self.spout.component_configuration()

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionCoordinator:
        source = checked_part(PartitionCoordinator, self.spout.coordinator(conf, context), self.spout, context)
        return PartitionsCoordinator(context.component_id, source, self._partitions(conf), self.metadata)

    def _partitions(self, conf: Mapping[str, Any]) -> Partitions:
        return Partitions(self._open_store(conf), self.transactional_id, self.kind)


class PartitionedSpoutAdapter(PartitionsAdapter):
    """A PartitionedTransactionalSpout as the TransactionalSpout that it amounts to."""

    kind = KIND
    spout: PartitionedTransactionalSpout

    @staticmethod
    def metadata(state: list[Any]) -> Any:
        return _metadata(state)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionEmitter:
        emitter = checked_part(PartitionEmitter, self.spout.emitter(conf, context), self.spout, context)
        tasks = len(context.component_tasks(context.component_id))
        return PartitionedEmitter(context.component_id, emitter, self._partitions(conf), context.task_index, tasks)


class PartitionsCoordinator(TransactionCoordinator):
    """The coordinator of a spout with partitions: the metadata of a transaction is how many there are.

    ``metadata``: that of a partition's batch, out of its state.
    """

    def __init__(
        self,
        component_id: str,
        source: PartitionCoordinator,
        partitions: Partitions,
        metadata: Callable[[Any], Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._component_id = component_id
        self._source = source
        self._partitions = partitions
        self._metadata = metadata
        self._clock = clock
        self._ask_at_s = 0.0
        self._first = -1  # the partition that was asked about first, the last time
        # Whether there is more is looked up in the store, for each batch: only for a source that wants to know.
        self._asks = type(source).has_more is not PartitionCoordinator.has_more

    def is_ready(self) -> bool:
        if self._clock() < self._ask_at_s or not self._said("is_ready", self._source.is_ready()):
            return False
        if not self._asks or any(map(self._has_more, self._in_turn())):
            return True
        self._ask_at_s = self._clock() + PAUSE_S
        return False

    def initialize_transaction(self, txid: int, previous: Any) -> int:
        count = self._count()
        if previous is not None and count < previous:
            raise ReportedFailedException(
                f"component {self._component_id!r}: the source has {count} partitions, and had {previous}; "
                f"the number may grow, but never shrink"
            )
        return count

    def lag(self) -> Mapping[str, Any] | None:
        return self._source.lag()

    def close(self) -> None:
        self._source.close()
        self._partitions.close()

    def _count(self) -> int:
        count = self._source.num_partitions()
        if type(count) is not int or count < 0:
            raise ReportedFailedException(
                f"component {self._component_id!r}: num_partitions returned {count!r}; a number from 0 was expected"
            )
        return count

    def _in_turn(self) -> Iterator[int]:
        """All partitions, each time from another one on: a source hears of each of them, however much one has."""
        count = self._count()
        self._first += 1
        return ((self._first + further) % count for further in range(count))

    def _has_more(self, partition: int) -> bool:
        states = self._partitions.load(partition).states
        newest = self._metadata(states[max(states)]) if states else None
        return self._said("has_more", self._source.has_more(partition, newest))

    def _said(self, method: str, answer: bool | None) -> bool:
        """Refuse None, a ``return`` forgotten: the topology would stand still without a word."""
        if answer is None:
            raise ReportedFailedException(
                f"component {self._component_id!r}: {method} returned None; True or False was expected"
            )
        return answer


class PartitionedEmitter(TransactionEmitter):
    """Emits the batches of partitions ``index``, ``index + tasks``, … A state is [metadata, rows, checksum]."""

    def __init__(
        self, component_id: str, source: PartitionEmitter, partitions: Partitions, index: int, tasks: int
    ) -> None:
        self._component_id = component_id
        self._source = source
        self._partitions = partitions
        self._index = index
        self._tasks = tasks
        self._committed = 0

    def cleanup_before(self, txid: int) -> None:
        self._committed = max(self._committed, txid)

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: BatchCollector) -> None:
        changed = {}
        for partition in range(self._index, metadata, self._tasks):
            known = self._partitions[partition]
            state = known.states.get(attempt.txid)
            if state is not None:
                self._emit_again(attempt, collector, partition, state)
            elif not known.has_later(attempt.txid):
                before = known.newest_before(attempt.txid)
                previous = None if before is None else _metadata(known.states[before])
                kept = {txid: state for txid, state in known.states.items() if txid >= self._committed}
                changed[partition] = {**kept, attempt.txid: self._emit_new(attempt, collector, partition, previous)}
        if changed:
            self._partitions.write(attempt, changed)

    def close(self) -> None:
        self._source.close()
        self._partitions.close()

    def _emit_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> list[Any]:
        emitted = ChecksumCollector(collector)
        metadata = self._source.emit_partition_batch_new(attempt, emitted, partition, previous)
        check_metadata(self._component_id, partition, metadata, emitted.rows)
        return [encode_metadata(self._component_id, partition, metadata), emitted.rows, emitted.checksum()]

    def _emit_again(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, state: list[Any]
    ) -> None:
        _, rows, checksum = state
        emitted = ChecksumCollector(collector)
        self._source.emit_partition_batch(attempt, emitted, partition, _metadata(state))
        if emitted.rows != rows:
            what = f"emitted {emitted.rows} tuples, the first time {rows}"
        elif emitted.checksum() != checksum:
            what = f"emitted {rows} tuples that are not those of the first time"
        else:
            return
        raise ReportedFailedException(
            f"component {self._component_id!r}, partition {partition}, transaction {attempt.txid}: {what}; "
            f"a transactional spout must emit the same batch for the same transaction, "
            f"a source that cannot is for an OpaquePartitionedTransactionalSpout"
        )


def check_metadata(component_id: str, partition: int, metadata: Any, rows: int) -> None:
    """Refuse None after tuples, a ``return`` forgotten: the next batch would begin at the beginning again."""
    if metadata is None and rows:
        raise UsageError(
            f"component {component_id!r}, partition {partition}: {rows} tuples were emitted and None was returned; "
            f"the metadata of the batch was expected, which the next one begins with"
        )


def encode_metadata(component_id: str, partition: int, metadata: Any) -> bytes:
    """Metadata as it is kept: as bytes, so that whoever is handed it can change nothing but a copy."""
    try:
        return encode_value(metadata)
    except UnregisteredTypeError as error:
        raise UnregisteredTypeError(
            f"component {component_id!r}: the metadata of a batch of partition {partition} cannot be stored: {error}"
        ) from None


def _metadata(state: list[Any]) -> Any:
    return decode_value(state[0])
