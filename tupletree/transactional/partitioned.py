"""Spouts that read partitions: bookkeeping that makes every replay of a batch identical.

When a batch is first emitted, its metadata, its number of tuples and their checksum are stored for each partition. The
following invariants ensure that replays are identical and that no tuple is skipped or repeated.

**Invariants**, for each partition:

P1  All states ever written form a chain: each batch began where the preceding batch ended. A new batch is emitted only
    from the latest state, and stored only if this is still the latest state (partition_states.py), even if two
    incarnations of the emitter are running.
P2  The tuples of an attempt are those of the state of its transaction: an emitter reports a batch as emitted only when
    its state is stored, and emits from the stored state if there is one. So after the first report by any emitter, a
    transaction is always the same batch. If the write fails, the attempt fails, and its tuples are dropped.

Consequences in case of failures:

* *The emitter dies, or the reply of the store is lost, between emission and report.* The attempt is never reported. If
  its state is stored, the replay is identical. Otherwise the replay can differ, but nobody has counted the first batch.
* *The batch tuple of txid is lost on the way to one emitter, but the batch tuple of a later transaction arrives.* The
  later batch begins at the end of the last stored batch, so the partition has nothing left for txid, and the replay of
  txid emits nothing here. ("A later transaction is stored, this transaction is not" stays true until txid is committed,
  so every replay has the same result.)
* *A deposed coordinator requests a batch.* Its epoch is over: nothing is written, and the attempt fails. A replay needs
  no write and succeeds. The batch is right, but this coordinator cannot record it as committed.

States below the last committed transaction are deleted by the next write of their partition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from tupletree._stores.nodes import StateStore
from tupletree._stores.zookeeper_nodes import open_store
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

KIND = "partitioned"
PAUSE_S = 0.05
"""Pause before the partitions are checked again after none of them had more."""


class PartitionsAdapter(TransactionalSpout):
    """Base of the adapters from both kinds of partitioned spouts to TransactionalSpout.

    ``open_store`` is a parameter for tests and the simulation.
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
        self.is_built_in = spout.is_built_in
        self._open_store = open_store

    @staticmethod
    def metadata(state: Any) -> Any:
        """Return the metadata of a partition's batch from its state."""
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
    """Adapter from PartitionedTransactionalSpout to TransactionalSpout."""

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
    """The coordinator of a spout with partitions. The metadata of a transaction is the number of partitions.

    ``metadata``: returns the metadata of a partition's batch from its state.
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
        self._first = -1  # the partition with which the last round of checks began
        # has_more needs a read of the store for each batch, so it is called only if the source overrides it.
        self._asks = type(source).has_more is not PartitionCoordinator.has_more
        self.begins_together = not self._asks  # it needs the states that the batch before has left

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
                f"component {self._component_id!r}: the source has {count} partitions, but had {previous} before; "
                f"the number can grow, but never shrink"
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
                f"component {self._component_id!r}: num_partitions returned {count!r}; "
                f"an integer of 0 or more is needed"
            )
        return count

    def _in_turn(self) -> Iterator[int]:
        """Iterate over all partitions, from one further at each call, so that a full partition cannot starve others."""
        count = self._count()
        self._first += 1
        return ((self._first + further) % count for further in range(count))

    def _has_more(self, partition: int) -> bool:
        states = self._partitions.load(partition).states
        newest = self._metadata(states[max(states)]) if states else None
        return self._said("has_more", self._source.has_more(partition, newest))

    def _said(self, method: str, answer: bool | None) -> bool:
        """Refuse None, a forgotten ``return``, which would silently stall the topology."""
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
            what = f"emitted {emitted.rows} tuples, but {rows} the first time"
        elif emitted.checksum() != checksum:
            what = f"emitted {rows} tuples that differ from those of the first time"
        else:
            return
        raise ReportedFailedException(
            f"component {self._component_id!r}, partition {partition}, transaction {attempt.txid}: {what}; "
            f"a transactional spout must emit the same batch for the same transaction: if its fields or its format "
            f"were changed, submit it as it was until the transaction is committed; "
            f"for a source that cannot, use an OpaquePartitionedTransactionalSpout"
        )


def check_metadata(component_id: str, partition: int, metadata: Any, rows: int) -> None:
    """Refuse None after emitted tuples, a forgotten ``return``: the next batch would restart at the beginning."""
    if metadata is None and rows:
        raise UsageError(
            f"component {component_id!r}, partition {partition}: {rows} tuples were emitted and None was returned; "
            f"the metadata of the batch was expected, from which the next batch begins"
        )


def encode_metadata(component_id: str, partition: int, metadata: Any) -> bytes:
    """Encode metadata as bytes, so that user code can only change a decoded copy."""
    try:
        return encode_value(metadata)
    except UnregisteredTypeError as error:
        raise UnregisteredTypeError(
            f"component {component_id!r}: the metadata of a batch of partition {partition} cannot be stored: {error}"
        ) from None


def _metadata(state: list[Any]) -> Any:
    return decode_value(state[0])
