"""Transactional spouts over in-memory rows, for tests, examples and small inputs.

Each task of the topology gets a copy of all rows. Every batch takes at most ``max_rows_per_batch`` rows of every
partition. When all rows are taken, no further batch begins, not even after a restart under the same transactional id. A
few empty batches can begin while the last rows are in flight (``PartitionCoordinator.has_more``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.errors import UsageError
from tupletree.transactional.attempt_field import ATTEMPT
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.spouts import (
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    PartitionEmitter,
)

Rows = Sequence[Sequence[Any]]
Data = Mapping[int, Rows] | Sequence[Rows]
"""The rows of each partition, by partition number or in the order of the numbers."""


class MemoryTransactionalSpout(PartitionedTransactionalSpout):
    """Emits the rows of ``data``, with the field names ``fields``.

    Raises UsageError for invalid arguments, with the position of an invalid row.
    """

    is_built_in = True

    def __init__(self, data: Data, fields: Sequence[str], max_rows_per_batch: int) -> None:
        self.fields, self.rows, self.take = _checked(self, data, fields, max_rows_per_batch)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare([ATTEMPT, *self.fields])

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        return _Coordinator(self.rows)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionEmitter:
        return _Emitter(self.rows, self.take)


class OpaqueMemoryTransactionalSpout(OpaquePartitionedTransactionalSpout):
    """An opaque spout over in-memory rows, whose partitions can be made unavailable.

    ``away``: a directory that all tasks can read. While it has a file whose name is a partition's number, no row
    of that partition can be read. If the file contains a number n, the first n rows stay readable, so the partition
    becomes unavailable in the middle of a batch or between two batches.
    """

    is_built_in = True

    def __init__(
        self, data: Data, fields: Sequence[str], max_rows_per_batch: int, away: str | Path | None = None
    ) -> None:
        self.fields, self.rows, self.take = _checked(self, data, fields, max_rows_per_batch)
        self.away = None if away is None else Path(away).absolute()

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare([ATTEMPT, *self.fields])

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        return _OpaqueCoordinator(self)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> OpaquePartitionEmitter:
        return _OpaqueEmitter(self)

    def readable(self, partition: int) -> int:
        """Return the number of rows of a partition that can be read now."""
        rows = len(self.rows[partition])
        if self.away is None:
            return rows
        try:
            text = (self.away / str(partition)).read_text()
        except FileNotFoundError:
            return rows
        return min(rows, int(text or 0))


class _Coordinator(PartitionCoordinator):
    def __init__(self, rows: Sequence[Rows]) -> None:
        self._rows = rows

    def num_partitions(self) -> int:
        return len(self._rows)

    def has_more(self, partition: int, newest: Any) -> bool:
        return (0 if newest is None else newest[1]) < len(self._rows[partition])


class _Emitter(PartitionEmitter):
    """The metadata of a batch are the number of its first row, and the number of its last row + 1."""

    def __init__(self, rows: Sequence[Rows], take: int) -> None:
        self._rows = rows
        self._take = take

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> list[int]:
        start = 0 if previous is None else previous[1]
        metadata = [start, max(start, min(start + self._take, len(self._rows[partition])))]
        self.emit_partition_batch(attempt, collector, partition, metadata)
        return metadata

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, metadata: Any
    ) -> None:
        start, end = metadata
        collector.emit_many([attempt, *row] for row in self._rows[partition][start:end])


class _OpaqueCoordinator(PartitionCoordinator):
    def __init__(self, spout: OpaqueMemoryTransactionalSpout) -> None:
        self._spout = spout

    def num_partitions(self) -> int:
        return len(self._spout.rows)

    def has_more(self, partition: int, newest: Any) -> bool:
        return (newest or 0) < self._spout.readable(partition)


class _OpaqueEmitter(OpaquePartitionEmitter):
    """The metadata of a batch is the number of its last row + 1."""

    def __init__(self, spout: OpaqueMemoryTransactionalSpout) -> None:
        self._spout = spout

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> int:
        start = previous or 0
        end = max(start, min(start + self._spout.take, self._spout.readable(partition)))
        collector.emit_many([attempt, *row] for row in self._spout.rows[partition][start:end])
        return end


def _checked(spout: object, data: Data, fields: Sequence[str], take: int) -> tuple[list[str], list[Rows], int]:
    """Validate and return the arguments of a spout."""
    name = type(spout).__name__
    if isinstance(fields, str) or ATTEMPT in fields:
        raise UsageError(
            f"{name}: fields is {fields!r}; a list of the names of a row's values was expected, without "
            f"{ATTEMPT!r}, which is carried beside them"
        )
    if type(take) is not int or take < 1:
        raise UsageError(f"{name}: max_rows_per_batch is {take!r}; a number of rows, at least 1, was expected")
    if isinstance(data, Mapping):
        if sorted(data, key=str) != sorted(range(len(data)), key=str):
            raise UsageError(
                f"{name}: the partitions of data are {', '.join(map(str, data))}; 0, 1, 2, … were expected"
            )
        data = [data[partition] for partition in range(len(data))]
    for partition, rows in enumerate(data):
        if not isinstance(rows, list | tuple):
            raise UsageError(f"{name}: partition {partition} of data is {rows!r}; a list of rows was expected")
        for number, row in enumerate(rows):
            if not isinstance(row, list | tuple) or len(row) != len(fields):
                raise UsageError(
                    f"{name}: row {number} of partition {partition} is {row!r}; a list of {len(fields)} values was "
                    f"expected, for {', '.join(fields)}"
                )
    return list(fields), list(data), take
