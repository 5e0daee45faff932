"""Sources with partitions of numbers, and a collector that keeps what is emitted: for the tests of spouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tupletree._stores.nodes import StateStore
from tupletree.attempt import TransactionAttempt, first_attempt
from tupletree.component import TopologyContext
from tupletree.errors import FailedException
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.partition_states import Partitions
from tupletree.transactional.partitioned import KIND, PartitionedEmitter
from tupletree.transactional.spouts import (
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    PartitionEmitter,
)

ID = "numbers"


def attempt(txid: int, number: int = 0, epoch: int = 1) -> TransactionAttempt:
    return TransactionAttempt(txid, first_attempt(epoch) + number)


def context(component_id: str = "spout", task: int = 1, tasks: int = 1) -> TopologyContext:
    """Of one of the tasks 1 to ``tasks`` of a component."""
    ids = {component_id: list(range(1, tasks + 1))}
    return TopologyContext(
        topology_id="numbers-1", component_id=component_id, task_id=task, tasks=ids, sources={}, targets={}, conf={}
    )


class Kept(BatchCollector):
    """Keeps what is emitted: ``rows`` are the values after the attempt."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        self.rows.append(list(values[1:]))
        return (9,)

    def emit_many(self, rows: Iterable[Sequence[Any]], stream: str = "default") -> int:
        return sum(len(self.emit(row, stream)) for row in rows)

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = "default") -> None:
        self.emit(values, stream)

    @property
    def numbers(self) -> list[Any]:
        return [row[-1] for row in self.rows]


class Source:
    """Partition p holds the numbers p * 1000 + 1, p * 1000 + 2, …; ``take`` of each make a batch.

    ``sizes`` and ``away`` can be changed at any time: how many a partition holds, and which ones fail.
    """

    def __init__(self, sizes: Sequence[int], take: int) -> None:
        self.sizes = list(sizes)
        self.take = take
        self.away: set[int] = set()

    def stretch(self, partition: int, start: int) -> range:
        end = min(start + self.take, self.sizes[partition])
        return range(partition * 1000 + start + 1, partition * 1000 + end + 1)


class NumbersCoordinator(PartitionCoordinator):
    def __init__(self, source: Source) -> None:
        self.source = source

    def num_partitions(self) -> int:
        return len(self.source.sizes)

    def has_more(self, partition: int, newest: Any) -> bool:
        return (newest["end"] if newest else 0) < self.source.sizes[partition]


class NumbersEmitter(PartitionEmitter):
    """Its metadata is a dict, which it changes in place, as a careless user may."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.asked: list[tuple[int, int, Any]] = []

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> Any:
        if partition in self.source.away:
            raise FailedException(f"partition {partition} is away")
        metadata = previous or {"end": 0}
        metadata["start"] = metadata["end"]
        numbers = self.source.stretch(partition, metadata["start"])
        metadata["end"] += len(numbers)
        self.asked.append((attempt.txid, partition, dict(metadata)))
        collector.emit_many([attempt, number] for number in numbers)
        return metadata

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, metadata: Any
    ) -> None:
        if partition in self.source.away:
            raise FailedException(f"partition {partition} is away")
        for number in range(metadata["start"] + 1, metadata["end"] + 1):
            collector.emit([attempt, partition * 1000 + number])


class Numbers(PartitionedTransactionalSpout):
    outputs = ["attempt", "number"]

    def __init__(self, source: Source) -> None:
        self.source = source

    def coordinator(self, conf: Any, context: TopologyContext) -> NumbersCoordinator:
        return NumbersCoordinator(self.source)

    def emitter(self, conf: Any, context: TopologyContext) -> NumbersEmitter:
        return NumbersEmitter(self.source)


class OpaqueNumbersEmitter(OpaquePartitionEmitter):
    """Emits as many numbers as the source takes at that moment. Its metadata is a list, changed in place."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> Any:
        if partition in self.source.away:
            return previous
        reached = previous or [0]
        for number in self.source.stretch(partition, reached[0]):
            collector.emit([attempt, number])
            reached[0] += 1
        return reached


class OpaqueNumbers(OpaquePartitionedTransactionalSpout):
    outputs = ["attempt", "number"]

    def __init__(self, source: Source) -> None:
        self.source = source

    def coordinator(self, conf: Any, context: TopologyContext) -> NumbersCoordinator:
        return NumbersCoordinator(self.source)

    def emitter(self, conf: Any, context: TopologyContext) -> OpaqueNumbersEmitter:
        return OpaqueNumbersEmitter(self.source)


def emitter(store: StateStore, source: Source, index: int = 0, tasks: int = 1) -> PartitionedEmitter:
    """Of a partitioned spout."""
    return PartitionedEmitter("spout", NumbersEmitter(source), Partitions(store, ID, KIND), index, tasks)


def emit(task: PartitionedEmitter, txid: int, number: int = 0, partitions: int = 1, epoch: int = 1) -> list[Any]:
    """What one attempt emits."""
    kept = Kept()
    task.emit_batch(attempt(txid, number, epoch), partitions, kept)
    return kept.numbers
