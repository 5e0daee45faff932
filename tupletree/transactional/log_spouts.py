"""Transactional and opaque spouts over any numbered log. A batch has a range of positions of each partition.

The coordinator and the emitters ask the log for the bounds of its partitions. The emitter of a partition decides on the
range of a new batch, which log_batches.py describes, and emits the messages of the range, decoded, or for a pipeline
the range itself, as a split that Spark's executors read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.connectors.arguments import check_instance, check_whole
from tupletree.connectors.formats import Format, Raw, checked_format
from tupletree.connectors.log_batches import (
    UNKNOWN,
    OutOfRangeError,
    is_empty,
    lost,
    parts_of,
    position,
)
from tupletree.connectors.log_source import Bounds, DeletedError, LogSource
from tupletree.connectors.log_spout import check_metadata
from tupletree.errors import FailedException, ReportedFailedException, UsageError
from tupletree.transactional.attempt_field import ATTEMPT
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.open_log import OpenLog, RowDecoder
from tupletree.transactional.spouts import (
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    PartitionEmitter,
    TransactionalSpoutBase,
)

MAX_PER_BATCH: Final = 1000
"""The default maximum number of positions of each partition in a batch."""
LOOK_S: Final = 2.0
"""The maximum time that an emitter waits for a log."""


@dataclass(frozen=True)
class LogSettings:
    """Settings of the spouts. ``limit``: the maximum size of a range. ``format``: None to emit ranges as splits."""

    source: LogSource
    limit: int
    format: Format | None
    metadata: Sequence[str] = ()

    def __post_init__(self) -> None:
        source = self.source
        check_instance(
            "a log spout", "source", source, LogSource, "a LogSource such as KafkaLog('host:9092', 'orders')"
        )
        if not source.is_numbered:
            raise UsageError(f"{source.title}: a log with numbered partitions was expected")
        check_whole(source.title, "max_per_batch", self.limit)
        if self.format is not None:
            check_metadata(source.title, source, self.format, self.metadata)

    @property
    def outputs(self) -> list[str]:
        """The fields of a row, with the attempt."""
        return [ATTEMPT, "split"] if self.format is None else [ATTEMPT, *self.format.fields, *self.metadata]


class _LogSpoutBase(TransactionalSpoutBase):
    """The common part of both spouts."""

    is_built_in = True

    def __init__(
        self,
        source: LogSource,
        format: Format | None = None,
        *,
        max_per_batch: int = MAX_PER_BATCH,
        metadata: Sequence[str] = (),
    ) -> None:
        self.settings = LogSettings(source, max_per_batch, checked_format(self, format), metadata)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(self.settings.outputs)


class TransactionalLogSpout(_LogSpoutBase, PartitionedTransactionalSpout):
    """Emits the messages of a numbered log. A batch is fixed forever: it replays the same messages.

    A batch waits for each of its partitions. If the log deletes messages before they were read, the topology stops at
    them and reports that. A message that the format cannot decode is reported and left out.

    ``format``: by default ``Raw()``. ``max_per_batch``: the maximum number of positions of each partition in a batch.
    ``metadata``: fields of the log's ``metadata_fields`` that are added to each row. Raises UsageError for wrong
    arguments.
    """

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        return LogCoordinator(self.settings, context.component_id, is_opaque=False)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionEmitter:
        return LogEmitter(self.settings, context.component_id)


class OpaqueLogSpout(_LogSpoutBase, OpaquePartitionedTransactionalSpout):
    """Emits the messages of a numbered log. A replayed batch can have other messages.

    Batches go on without a partition that is away, and after messages that the log deleted before they were read. Both
    are reported. Arguments and other guarantees are those of TransactionalLogSpout.
    """

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        return LogCoordinator(self.settings, context.component_id, is_opaque=True)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> OpaquePartitionEmitter:
        return OpaqueLogEmitter(self.settings, context.component_id)


class TransactionalSplitSpout(TransactionalLogSpout):
    """Emits the ranges of batches instead of their messages, as the splits of a pipeline."""

    def __init__(self, source: LogSource, limit: int) -> None:
        self.settings = LogSettings(source, limit, None)


class OpaqueSplitSpout(OpaqueLogSpout):
    """Emits the ranges of batches instead of their messages, as the splits of a pipeline."""

    def __init__(self, source: LogSource, limit: int) -> None:
        self.settings = LogSettings(source, limit, None)


class LogCoordinator(PartitionCoordinator):
    """The coordinator of either spout."""

    def __init__(self, settings: LogSettings, component_id: str, *, is_opaque: bool) -> None:
        self._log = OpenLog(settings.source, component_id)
        self._is_opaque = is_opaque
        self._unread: dict[int, int] = {}  # partition number -> positions after the newest batch at the last look

    def num_partitions(self) -> int:
        """Return how many partition numbers there are. Raises FailedException while that is unknown."""
        with self._log.use() as source:
            return len(source.partitions())

    def has_more(self, partition: int, newest: Any) -> bool:
        with self._log.use() as source:
            names = source.partitions()
            name = names[partition] if partition < len(names) else ""
            self._unread.pop(partition, None)
            if not name:
                return False
            try:
                bounds = source.bounds(name)
                if (newest is None and source.begins_at_end) or (newest is not None and newest[-1] == UNKNOWN):
                    return True  # the emitter must record the start of the partition
                start = source.begin(name, bounds) if newest is None else self._position(source, name, newest, bounds)
            except FailedException as error:
                if self._is_opaque:
                    return False
                raise self._log.fault(error) from None
            except OutOfRangeError:
                return True  # the emitter reports the error
            self._unread[partition] = bounds.end - max(start, bounds.first)
            return start < bounds.end

    def lag(self) -> dict[str, int]:
        """Return the number of positions not handed out yet: ``{"records": n}``.

        The number is based on the last ``has_more`` call per partition, without partitions that are away. While batches
        follow each other, ``has_more`` is called for one partition per batch, so the number can be old.
        """
        return {"records": sum(self._unread.copy().values())}

    def close(self) -> None:
        self._log.close()

    def _position(self, source: LogSource, name: str, newest: Any, bounds: Bounds) -> int:
        """Return the start of the next batch. Looks again if an emitter has seen a later end than this coordinator."""
        try:
            return position(name, newest, bounds.end)
        except OutOfRangeError:
            source.refresh(0.1)
            return position(name, newest, source.bounds(name).end)


class _Batches:
    """The common part of both emitters: a look at the log per attempt, and the range of a partition's next batch."""

    def __init__(self, settings: LogSettings, component_id: str) -> None:
        self.log = OpenLog(settings.source, component_id)
        self._settings = settings
        self._attempt: TransactionAttempt | None = None
        self._has_begun = False  # some partition had a batch before this one
        self._decoder = RowDecoder(self.log, settings.format or Raw(), settings.metadata)

    def name(self, source: LogSource, attempt: TransactionAttempt, number: int, previous: Any) -> str:
        """Return the partition of a number, "" if it does not exist yet. Call this first, per number of an attempt.

        A partition that had a batch counts as existing, even if the log does not know it: otherwise it could be read
        twice.
        """
        if attempt != self._attempt:
            self._attempt = attempt
            self._has_begun = False
            source.refresh(LOOK_S)
        self._has_begun |= previous is not None
        names = source.partitions()
        known = names[number] if number < len(names) else ""
        return known or ("" if previous is None else parts_of(previous)[0])

    def next_range(self, source: LogSource, name: str, previous: Any, bounds: Bounds) -> list[Any]:
        """Return the range of the next batch. Raises DeletedError, and ReportedFailedException for another log."""
        if previous is None:
            # If other partitions have been read before, this partition is new and is read from its beginning.
            is_new = self._has_begun and not source.begins_at_positions
            start = bounds.first if is_new else source.begin(name, bounds)
        else:
            try:
                start = position(name, previous, bounds.end)
            except OutOfRangeError as error:
                raise self.log.fault(error) from None
        if start < bounds.first:
            raise DeletedError(f"partition {name!r}: {lost(start, bounds.first)}", bounds.first)
        return self.range_from(source, name, start, bounds)

    def range_from(self, source: LogSource, name: str, start: int, bounds: Bounds) -> list[Any]:
        """Return the range from a position: as large as settings allow, or empty if there is nothing yet."""
        limit = self._settings.limit
        return [
            name,
            start,
            max(start, source.limited(name, start, bounds.end, limit)) if start < bounds.end else start,
        ]

    def begins_at_end(self, source: LogSource, previous: Any) -> bool:
        return previous is None and not self._has_begun and source.begins_at_end

    def emit(
        self, source: LogSource, attempt: TransactionAttempt, collector: BatchCollector, stored: Sequence[Any]
    ) -> None:
        """Emit a range, or its messages. Raises ReportedFailedException if they cannot be read now."""
        if is_empty(stored):
            return
        if self._settings.format is None:
            collector.emit([attempt, stored])
            return
        name, start, end = parts_of(stored)
        try:
            for records in source.read(name, start, end):
                rows = [self._decoder.row(name, record, collector) for record in records]
                collector.emit_many([[attempt, *row] for row in rows if row is not None])
        except FailedException as error:
            raise self.log.fault(error) from error


class LogEmitter(PartitionEmitter):
    """The emitter of a TransactionalLogSpout."""

    def __init__(self, settings: LogSettings, component_id: str) -> None:
        self._batches = _Batches(settings, component_id)

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> Any:
        batches = self._batches
        with batches.log.use() as source:
            name = batches.name(source, attempt, partition, previous)
            if not name:
                return None
            try:
                stored = batches.next_range(source, name, previous, source.bounds(name))
            except ReportedFailedException:
                raise
            except DeletedError as error:
                raise batches.log.fault(
                    f"{error}; an opaque source, under another transactional id, would continue after them"
                ) from error
            except FailedException as error:
                raise batches.log.fault(error) from error
            batches.emit(source, attempt, collector, stored)
            return stored

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, metadata: Any
    ) -> None:
        if metadata is not None:
            with self._batches.log.use() as source:
                self._batches.emit(source, attempt, collector, metadata)

    def close(self) -> None:
        self._batches.log.close()


class OpaqueLogEmitter(OpaquePartitionEmitter):
    """The emitter of an OpaqueLogSpout. Reports a partition that becomes unavailable, and positions that it skips."""

    def __init__(self, settings: LogSettings, component_id: str) -> None:
        self._batches = _Batches(settings, component_id)
        self._away: set[str] = set()

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> Any:
        batches = self._batches
        with batches.log.use() as source:
            name = batches.name(source, attempt, partition, previous)
            if not name:
                return previous
            try:
                bounds = source.bounds(name)
                stored = self._next(source, collector, name, previous, bounds)
            except ReportedFailedException:
                raise
            except FailedException as error:
                if name not in self._away:
                    self._away.add(name)
                    collector.report_error(batches.log.fault(f"{error}; batches leave it out until it is back"))
                return [name, UNKNOWN, UNKNOWN] if batches.begins_at_end(source, previous) else previous
            self._away.discard(name)
            batches.emit(source, attempt, collector, stored)
            return stored

    def _next(
        self, source: LogSource, collector: BatchCollector, name: str, previous: Any, bounds: Bounds
    ) -> list[Any]:
        batches = self._batches
        try:
            return batches.next_range(source, name, previous, bounds)
        except DeletedError as error:
            collector.report_error(batches.log.fault(f"{error}, and are left out"))
            return batches.range_from(source, name, error.first, bounds)

    def close(self) -> None:
        self._batches.log.close()
