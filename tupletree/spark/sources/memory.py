"""A source of rows in memory, for tests and examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.errors import UsageError
from tupletree.spark.source import Source
from tupletree.spark.sources.parsing import checked_schema
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.spouts import (
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    PartitionEmitter,
    TransactionalSpoutBase,
)

Rows = Sequence[Sequence[Any]]


class MemorySource(Source):
    """The rows of ``partitions``, a list of lists of rows. They are pickled with the source, so use few rows.

    A batch takes up to ``max_rows_per_batch`` rows of each partition. A split is ``[partition, start, end]``.

    ``opaque``: True for an opaque source, whose replays can differ. ``away``: a directory, readable by all processes,
    that makes replays differ. While the directory has a file whose name is the number of a partition, that partition is
    unavailable. If the file contains a number n, the first n rows can still be read: the partition becomes unavailable
    in the middle of a batch, or between two batches. ``away`` requires ``opaque``.

    UsageError for invalid arguments.
    """

    def __init__(
        self,
        partitions: Mapping[int, Rows] | Sequence[Rows],
        schema: str | StructType,
        max_rows_per_batch: int,
        *,
        opaque: bool = False,
        away: str | Path | None = None,
    ) -> None:
        self.schema = checked_schema("MemorySource", schema)
        self.partitions = _checked(partitions)
        if type(max_rows_per_batch) is not int or max_rows_per_batch < 1:
            raise UsageError(f"MemorySource: max_rows_per_batch is {max_rows_per_batch!r}; at least 1 was expected")
        if away is not None and not opaque:
            raise UsageError("MemorySource: 'away' requires an opaque source, and opaque is False")
        self.max_rows_per_batch = max_rows_per_batch
        self.opaque = opaque
        self.away = None if away is None else Path(away).absolute()

    def spout(self) -> TransactionalSpoutBase:
        sizes = [len(rows) for rows in self.partitions]
        if self.opaque:
            return _OpaqueMemorySpout(sizes, self.max_rows_per_batch, self.away)
        return _MemorySpout(sizes, self.max_rows_per_batch)

    def read(self, split: Any) -> Iterator[Any]:
        partition, start, end = split
        return iter(self.partitions[partition][start:end])


class _MemorySpout(PartitionedTransactionalSpout):
    outputs = ["attempt", "split"]

    def __init__(self, sizes: Sequence[int], take: int) -> None:
        self.sizes = sizes
        self.take = take

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        return _Coordinator(self)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionEmitter:
        return _Emitter(self)

    def readable(self, partition: int) -> int:
        return self.sizes[partition]


class _OpaqueMemorySpout(OpaquePartitionedTransactionalSpout):
    outputs = ["attempt", "split"]

    def __init__(self, sizes: Sequence[int], take: int, away: Path | None) -> None:
        self.sizes = sizes
        self.take = take
        self.away = away

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        return _Coordinator(self)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> OpaquePartitionEmitter:
        return _OpaqueEmitter(self)

    def readable(self, partition: int) -> int:
        """Return the number of rows of a partition that can be read now."""
        rows = self.sizes[partition]
        if self.away is None:
            return rows
        try:
            text = (self.away / str(partition)).read_text()
        except FileNotFoundError:
            return rows
        return min(rows, int(text or 0))


class _Coordinator(PartitionCoordinator):
    def __init__(self, spout: _MemorySpout | _OpaqueMemorySpout) -> None:
        self._spout = spout

    def num_partitions(self) -> int:
        return len(self._spout.sizes)

    def has_more(self, partition: int, newest: Any) -> bool:
        return (0 if newest is None else newest[1]) < self._spout.readable(partition)


class _Emitter(PartitionEmitter):
    """Emitter whose metadata of a batch is the number of its first row, and the number after its last row."""

    def __init__(self, spout: _MemorySpout) -> None:
        self._spout = spout

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> list[int]:
        metadata = _stretch(self._spout, partition, previous)
        self.emit_partition_batch(attempt, collector, partition, metadata)
        return metadata

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, metadata: Any
    ) -> None:
        _emit(attempt, collector, partition, metadata)


class _OpaqueEmitter(OpaquePartitionEmitter):
    """Emits like _Emitter. The next batch begins at the end of the previous one."""

    def __init__(self, spout: _OpaqueMemorySpout) -> None:
        self._spout = spout

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> list[int]:
        metadata = _stretch(self._spout, partition, previous)
        _emit(attempt, collector, partition, metadata)
        return metadata


def _stretch(spout: _MemorySpout | _OpaqueMemorySpout, partition: int, previous: Any) -> list[int]:
    start = 0 if previous is None else previous[1]
    return [start, max(start, min(start + spout.take, spout.readable(partition)))]


def _emit(attempt: TransactionAttempt, collector: BatchCollector, partition: int, stretch: Sequence[int]) -> None:
    start, end = stretch
    if start < end:
        collector.emit([attempt, [partition, start, end]])


def _checked(partitions: Mapping[int, Rows] | Sequence[Rows]) -> list[Rows]:
    """Return the rows by partition number. UsageError unless all rows have the same number of values."""
    if isinstance(partitions, Mapping):
        if sorted(partitions, key=str) != sorted(range(len(partitions)), key=str):
            names = ", ".join(map(str, partitions))
            raise UsageError(f"MemorySource: the partitions are {names}; the numbers 0, 1, 2, … were expected")
        partitions = [partitions[partition] for partition in range(len(partitions))]
    if not isinstance(partitions, list | tuple):
        raise UsageError(f"MemorySource: partitions is {partitions!r}; a list of lists of rows was expected")
    width = None
    for partition, rows in enumerate(partitions):
        if not isinstance(rows, list | tuple):
            raise UsageError(f"MemorySource: partition {partition} is {rows!r}; a list of rows was expected")
        for number, row in enumerate(rows):
            if not isinstance(row, list | tuple) or len(row) != (len(row) if width is None else width):
                expected = (
                    "a list of values" if width is None else f"a list of {width} values, as in the rows before it,"
                )
                raise UsageError(
                    f"MemorySource: row {number} of partition {partition} is {row!r}; {expected} was expected"
                )
            width = len(row)
    return list(partitions)
