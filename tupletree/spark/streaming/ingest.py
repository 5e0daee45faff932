"""Ingest into a topology: spouts that emit the rows that Spark Structured Streaming has written into a directory.

spout = TransactionalIngestSpout("/shared/scores", "word STRING, score DOUBLE")
builder = TransactionalTopologyBuilder("scores", "scores", spout)

frame.writeStream.format("tupletree").option("topology", "scores").option("checkpointLocation", …).start()
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.types import StructType

from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.errors import FailedException, ReportedFailedException, UsageError
from tupletree.spark.streaming import assignment, rows
from tupletree.spark.streaming.directory import MICRO_BATCHES, PUBLISHED, ROWS, About, ExchangeDirectory
from tupletree.spark.streaming.endpoint import INGEST, Endpoint
from tupletree.transactional.attempt_field import ATTEMPT
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.spouts import TransactionalSpout, TransactionCoordinator, TransactionEmitter

PAUSE_S = 0.05
"""Pause before the directory is listed again, after a listing with nothing new."""


class TransactionalIngestSpout(TransactionalSpout):
    """Emits the rows of micro-batches. Each micro-batch is part of exactly one transaction.

    ``directory``: on a file system that all workers and all of Spark see at the same path. The directory belongs to one
    spout of one transactional id. Any number of queries may write to it.

    ``schema``: the columns, in Spark's DDL or as a StructType. They are the fields.

    ``stream``: the public name of the stream.

    ``micro_batches``: maximum number of micro-batches in a transaction. All of them must be processed within the
    message timeout.

    Committed micro-batches are deleted. Raises UsageError for invalid arguments.
    """

    is_built_in = True

    def __init__(
        self,
        directory: str | os.PathLike[str],
        schema: str | StructType,
        *,
        stream: str = "default",
        micro_batches: int = 1,
    ) -> None:
        self.endpoint = Endpoint.of(INGEST, directory, schema, stream)
        if ATTEMPT in self.endpoint.columns().fieldNames():
            raise UsageError("TransactionalIngestSpout: no column may be called 'attempt', the name of the attempt")
        if type(micro_batches) is not int or micro_batches < 1:
            raise UsageError(f"TransactionalIngestSpout: micro_batches is {micro_batches!r}; at least 1 was expected")
        self.micro_batches = micro_batches

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare([ATTEMPT, *self.endpoint.columns().fieldNames()])

    def component_configuration(self) -> Mapping[str, Any]:
        return self.endpoint.configuration()

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionCoordinator:
        return IngestCoordinator(self, context.component_id)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionEmitter:
        tasks = len(context.component_tasks(context.component_id))
        return IngestEmitter(self, context.component_id, context.task_index, tasks)


class IngestCoordinator(TransactionCoordinator):
    """Assigns micro-batches to transactions (assignment.py)."""

    def __init__(self, spout: TransactionalIngestSpout, component_id: str) -> None:
        self._directory = ExchangeDirectory(spout.endpoint.directory)
        self._about = About(MICRO_BATCHES, component_id, spout.endpoint.schema)
        self._is_described = False
        self._limit = spout.micro_batches
        self._look_at_s = 0.0

    def is_ready(self) -> bool:
        return time.monotonic() >= self._look_at_s

    def initialize_transaction(self, txid: int, previous: Any) -> dict[str, Any]:
        self._describe()
        seen = self._directory.listing(PUBLISHED)
        listing = self._directory.listing(PUBLISHED) if seen else {}
        made = assignment.next_metadata(seen, listing, previous, self._directory.removed(), self._limit)
        if made is None:
            self._look_at_s = time.monotonic() + PAUSE_S
            raise FailedException("no new micro-batch is published yet: all earlier ones are in transactions")
        return made

    def _describe(self) -> None:
        if not self._is_described:
            try:
                self._directory.describe(self._about)
            except UsageError as error:
                raise ReportedFailedException(str(error)) from None
            self._is_described = True


class IngestEmitter(TransactionEmitter):
    """Emits the rows of a transaction's micro-batches: emitter ``index`` of ``tasks``, which divide the files.

    The first emitter also deletes micro-batches: when a transaction is committed, those that its metadata assigns to
    earlier transactions.
    """

    def __init__(self, spout: TransactionalIngestSpout, component_id: str, index: int, tasks: int) -> None:
        self._directory = ExchangeDirectory(spout.endpoint.directory)
        self._schema = spout.endpoint.schema
        self._component_id = component_id
        self._index = index
        self._tasks = tasks
        self._before: dict[int, dict[str, int]] = {}  # txid -> the micro-batches of earlier transactions

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
        self._before[attempt.txid] = metadata["before"]
        try:
            files = [name for query, number in metadata["batches"] for name in self._files(query, number)]
            first = (self._index - attempt.txid) % self._tasks
            for name in files[first :: self._tasks]:
                for row in read_rows(self._directory, name, self._schema):
                    collector.emit([attempt, *row])
        except (UsageError, OSError) as error:
            raise self._fault(str(error)) from error

    def cleanup_before(self, txid: int) -> None:
        if self._index != 0:
            return
        known = [other for other in self._before if other <= txid]
        if known:
            upto = self._before[max(known)]
            self._before = {other: before for other, before in self._before.items() if other > max(known)}
            remove(self._directory, upto)

    def _files(self, query: str, number: int) -> list[str]:
        manifest = self._directory.read(f"{PUBLISHED}/{assignment.manifest_file(query, number)}")
        if manifest is None:
            raise self._fault(
                f"micro-batch {number} of query {query} is gone from {self._directory.path}: micro-batches are deleted "
                "once committed, so each transactional id needs its own directory"
            )
        return list(manifest["files"])

    def _fault(self, what: str) -> ReportedFailedException:
        return ReportedFailedException(f"component {self._component_id!r}: {what}")


def read_rows(directory: ExchangeDirectory, name: str, schema: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a file that Spark wrote. Raises UsageError or OSError."""
    path = str(directory.path / ROWS / name)
    for batch in rows.read_batches(path, rows.arrow_schema(schema)):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def remove(directory: ExchangeDirectory, upto: Mapping[str, int]) -> None:
    """Delete all micro-batches up to the given number of each query."""
    published = assignment.batches_of(directory.listing(PUBLISHED))
    done = {
        query: [number for number in published.get(query, ()) if number <= last] for query, last in upto.items()
    }  # fmt: skip

    def names() -> Iterator[str]:
        for query, numbers in done.items():
            for number in numbers:
                manifest = f"{PUBLISHED}/{assignment.manifest_file(query, number)}"
                content = directory.read(manifest) or {"files": []}
                yield from (f"{ROWS}/{name}" for name in content["files"])
                yield manifest

    if any(done.values()):
        directory.remove({query: max(numbers) for query, numbers in done.items() if numbers}, names)
