"""Export from a topology: bolts that pass their input to Spark Structured Streaming, as files in a directory.

builder.set_bolt("out", ExportBatchBolt("/shared/counts", "word STRING, count BIGINT")).shuffle_grouping("count")

spark.readStream.format("tupletree").option("topology", "word-count").load()
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from tupletree.attempt import TransactionAttempt
from tupletree.component import Bolt, BoltCollector, TopologyContext
from tupletree.errors import ReportedFailedException, StaleAttemptError, UnavailableError, UsageError
from tupletree.spark.streaming import offers, rows
from tupletree.spark.streaming.directory import ROWS, SEGMENTS, TRANSACTIONS, About, ExchangeDirectory
from tupletree.spark.streaming.endpoint import EXPORT, Endpoint
from tupletree.transactional.bolts import BatchBolt, BatchCollector, Committer
from tupletree.tuples import Tuple


class ExportBatchBolt(BatchBolt, Committer):
    """Exports each batch of a transactional topology to Spark, exactly once, as one file per task.

    ``directory``: on a file system that all workers and all of Spark see at the same path. The directory belongs to one
    bolt of one transactional id.

    ``schema``: the columns, in Spark's DDL or as a StructType. Each column is a field of the tuples.

    ``stream``: the public name of the stream, needed if a topology exports several.

    Behind an opaque spout, a transaction is offered to Spark when the next transaction commits; behind any other spout,
    at once. Files stay until a query with the option ``prune`` has read them.

    Raises UsageError for invalid arguments.
    """

    blocking = True

    def __init__(self, directory: str | os.PathLike[str], schema: str | StructType, *, stream: str = "default") -> None:
        self.endpoint = Endpoint.of(EXPORT, directory, schema, stream)

    def component_configuration(self) -> Mapping[str, Any]:
        return self.endpoint.configuration()

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: BatchCollector, batch_id: TransactionAttempt
    ) -> None:
        self._selected: list[Sequence[Any]] = []
        self._select: dict[tuple[str, ...], rows.Select] = {}

    def execute(self, tup: Tuple) -> None:
        select = self._select.get(tup.fields)
        if select is None:
            with _reported(self.context.component_id):
                select = rows.selector(tup.fields, rows.arrow_schema(self.endpoint.schema))
            self._select[tup.fields] = select
        self._selected.append(select(tup.values))

    def finish_batch(self) -> None:
        context = self.context
        tasks = len(context.component_tasks(context.component_id))
        about = About(TRANSACTIONS, context.component_id, self.endpoint.schema, self.is_opaque)
        with _reported(context.component_id):
            export = _task_export(context.topology_id, self.endpoint.directory, about, context.task_index, tasks)
            export.publish(self.batch_id, self._selected)


class _TaskExport:
    """The published files of a task. One object per task in a process, since a bolt is copied for each batch."""

    def __init__(self, directory: str, about: About, index: int, tasks: int) -> None:
        self._directory = ExchangeDirectory(directory)
        self._directory.describe(about)
        remove_drafts(self._directory, str(index))
        self._schema = rows.arrow_schema(about.schema)
        self._index = index
        self._tasks = tasks
        present = offers.txids(self._directory.listing(ROWS))
        self._newest = max([*present, self._directory.removed().get(offers.TXID, 0)], default=0)

    def publish(self, attempt: TransactionAttempt, selected: Sequence[Sequence[Any]]) -> None:
        """Publish the rows of an attempt, durably. Idempotent for the same attempt."""
        if attempt.txid < self._newest:
            raise StaleAttemptError(
                f"{attempt} is over, since {self._directory.path} has rows of transaction {self._newest}. If this "
                "persists, another topology writes there, or the progress of this one was deleted: use a new directory"
            )
        batches = rows.table(selected, self._schema).to_batches()
        name = f"{ROWS}/{offers.transaction_file(attempt, self._index, self._tasks)}"
        self._directory.publish(
            name, lambda file: rows.write_batches(file, iter(batches), self._schema), owner=str(self._index)
        )
        self._newest = attempt.txid


@functools.cache
def _task_export(topology_id: str, directory: str, about: About, index: int, tasks: int) -> _TaskExport:
    return _TaskExport(directory, about, index, tasks)


class ExportBolt(Bolt):
    """Exports the tuples of an ordinary topology to Spark, each at least once.

    A task gathers tuples into a segment, and acks them when the segment is durable. A segment is closed when it has
    ``rows_per_segment`` rows, and every ``max_delay_s`` seconds, which must be well below
    ``topology.message.timeout.secs``. A tuple that does not fit the schema fails alone, and is reported. The other
    arguments are the same as for ExportBatchBolt.
    """

    _remedy = ""
    blocking = True

    def __init__(
        self,
        directory: str | os.PathLike[str],
        schema: str | StructType,
        *,
        stream: str = "default",
        rows_per_segment: int = 10_000,
        max_delay_s: int = 1,
    ) -> None:
        self.endpoint = Endpoint.of(EXPORT, directory, schema, stream)
        for name, number in {"rows_per_segment": rows_per_segment, "max_delay_s": max_delay_s}.items():
            if type(number) is not int or number < 1:
                raise UsageError(f"ExportBolt: {name} is {number!r}; at least 1 was expected")
        self.rows_per_segment = rows_per_segment
        self.max_delay_s = max_delay_s

    def component_configuration(self) -> Mapping[str, Any]:
        return {**self.endpoint.configuration(), "topology.tick.tuple.freq.secs": self.max_delay_s}

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.context = context
        self.collector = collector
        self._schema = rows.arrow_schema(self.endpoint.schema)
        self._directory = ExchangeDirectory(self.endpoint.directory)
        self._owner = str(context.task_index)
        self._select: dict[tuple[str, ...], rows.Select] = {}
        self._held: list[Tuple] = []
        self._next = 0  # 0: existing segments must be listed first

    def execute(self, tup: Tuple) -> None:
        if tup.is_tick:
            self.collector.ack(tup)
        else:
            self._held.append(tup)
        if len(self._held) >= (1 if tup.is_tick else self.rows_per_segment):
            self._close_segment()

    def cleanup(self) -> None:
        if self._held:
            self._close_segment()

    def _close_segment(self) -> None:
        """Publish the held tuples and ack them. If publishing fails, the tuples fail and are replayed."""
        held, self._held = self._held, []
        try:
            table = self._table(held)
        except UsageError as error:  # a tuple that never fits must not fail the others
            held = self._fitting(held)
            table = self._table(held)
            self.collector.report_error(error)
        try:
            if held:
                self._publish(table.to_batches())
        except (UsageError, UnavailableError) as error:
            self.collector.report_error(error)
            for tup in held:
                self.collector.fail(tup)
        else:
            for tup in held:
                self.collector.ack(tup)

    def _fitting(self, held: Sequence[Tuple]) -> list[Tuple]:
        """Return the tuples that fit the schema. The others fail."""
        fitting = []
        for tup in held:
            try:
                self._table([tup])
            except UsageError:
                self.collector.fail(tup)
            else:
                fitting.append(tup)
        return fitting

    def _table(self, held: Sequence[Tuple]) -> pa.Table:
        return rows.table([self._row(tup) for tup in held], self._schema)

    def _row(self, tup: Tuple) -> Sequence[Any]:
        select = self._select.get(tup.fields)
        if select is None:
            select = self._select[tup.fields] = rows.selector(tup.fields, self._schema)
        return select(tup.values)

    def _publish(self, batches: Sequence[pa.RecordBatch]) -> None:
        if self._next == 0:
            self._directory.describe(About(SEGMENTS, self.context.component_id, self.endpoint.schema))
            remove_drafts(self._directory, self._owner)
            present = offers.segments(self._directory.listing(ROWS)).get(self._owner, [])
            self._next = 1 + max([*present, self._directory.removed().get(self._owner, 0)])
        while not self._publish_next(batches):
            pass

    def _publish_next(self, batches: Sequence[pa.RecordBatch]) -> bool:
        """Publish the next segment. False if another incarnation of this task has used its number, even if removed."""
        is_new = self._directory.publish(
            f"{ROWS}/{offers.segment_file(self.context.task_index, self._next)}",
            lambda file: rows.write_batches(file, iter(batches), self._schema),
            replaces=False,
            owner=self._owner,
            place=(self._owner, self._next),
        )
        removed = 0 if is_new else self._directory.removed().get(self._owner, 0)
        self._next = 1 + max(self._next, removed)
        return is_new


def remove_drafts(directory: ExchangeDirectory, owner: str) -> None:
    """Remove unpublished files of earlier incarnations of a task."""
    directory.unlink(draft for other, draft in directory.drafts(ROWS) if other == owner)


@contextlib.contextmanager
def _reported(component_id: str) -> Iterator[None]:
    """Turn a user's mistake into a reported failure of the attempt. A UsageError would end the worker over and over."""
    try:
        yield
    except UsageError as error:
        raise ReportedFailedException(f"component {component_id!r}: {error}") from None
