"""Writer that feeds a topology, run by Spark: tasks write files, the driver publishes them as a micro-batch.

A micro-batch is published by one file, its manifest, which is linked under a unique name: the query's id, which Spark
keeps in the checkpoint, and the number of the micro-batch. So:

* A micro-batch is published as a whole or not at all.
* A restarted query repeats its last micro-batch if it does not know that the micro-batch was written. Either the
  manifest still exists, or, if the topology has taken and deleted the micro-batch, the note of the removal exists.
  Either way nothing changes, and the files written a second time are removed.
* Two queries never collide, even if one follows the other with a checkpoint of its own.

A micro-batch older than the newest published one means that the checkpoint was set back. That is an error, since the
rows can differ.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tupletree.errors import UsageError
from tupletree.spark.streaming import assignment, rows
from tupletree.spark.streaming.directory import PUBLISHED, ROWS, ExchangeDirectory

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Local properties that tell a task its query and micro-batch."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The file that a task has written in ``directory``. ``name`` is None if the task had no rows."""

    directory: str
    query: str
    name: str | None


class IngestWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches into an exchange directory.

    ``columns``: the columns of the spout, None if unknown. ``schema``: the columns of the query. Both must have the
    same names, in any order.
    """

    def __init__(self, directory: str, columns: StructType | None, schema: StructType) -> None:
        self._directory = ExchangeDirectory(directory)
        self._schema = (columns or schema).json()
        if columns is not None:
            _check(columns, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        query, number = _micro_batch()
        schema = rows.arrow_schema(self._schema)
        batches = (rows.conformed(batch, schema) for batch in iterator if len(batch))
        first = next(batches, None)
        if first is None:
            return Written(str(self._directory.path), query, None)
        name = f"{query}.{number}.{uuid.uuid4().hex}.arrow"
        self._directory.make_folders()

        def fill(file: BinaryIO) -> None:
            rows.write_batches(file, (batch for part in ([first], batches) for batch in part), schema)

        self._directory.publish(f"{ROWS}/{name}", fill, owner=f"{query}.{number}")
        return Written(str(self._directory.path), query, name)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        written = [message for message in messages if isinstance(message, Written) and message.name is not None]
        if not written:
            return
        directory, query = ExchangeDirectory(written[0].directory), written[0].query
        newest = _newest(directory, query)
        if batchId < newest:
            raise UsageError(
                f"micro-batch {batchId} of query {query} is repeated, but {newest} is already published: its "
                "checkpoint was set back; restart the query with a new checkpoint"
            )
        files = sorted(str(message.name) for message in written)
        if batchId > newest:
            _publish(directory, query, batchId, files)
        else:
            directory.sync(PUBLISHED)
        _sweep(directory, query, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        for message in messages:
            if isinstance(message, Written):
                _sweep(ExchangeDirectory(message.directory), message.query, batchId)
                return


def _publish(directory: ExchangeDirectory, query: str, number: int, files: Sequence[str]) -> None:
    present = directory.listing(ROWS)
    for name in files:
        if name not in present:
            raise UsageError(f"{name} is gone from {directory.path}: another run of query {query} removed it")
    content = json.dumps({"query": query, "batch": number, "files": list(files)}).encode()
    manifest = f"{PUBLISHED}/{assignment.manifest_file(query, number)}"
    directory.publish(manifest, lambda file: file.write(content), replaces=False)


def _sweep(directory: ExchangeDirectory, query: str, number: int) -> None:
    """Remove files that tasks of this micro-batch or earlier ones have written and that are in no manifest."""
    mine = [name for name in directory.listing(ROWS) if _is_of(name, query, number)]
    drafts = [draft for owner, draft in directory.drafts(ROWS) if _is_of(owner, query, number)]
    published = assignment.batches_of(directory.listing(PUBLISHED)).get(query, [])
    used: set[str] = set()
    for other in published:
        manifest = directory.read(f"{PUBLISHED}/{assignment.manifest_file(query, other)}")
        used.update(manifest["files"] if manifest else ())
    directory.unlink([*drafts, *(f"{ROWS}/{name}" for name in mine if name not in used)])


def _is_of(name: str, query: str, number: int) -> bool:
    prefix, _, rest = name.partition(".")
    return prefix == query and int(rest.partition(".")[0]) <= number


def _newest(directory: ExchangeDirectory, query: str) -> int:
    """Return the newest micro-batch of a query that is or was published; -1 if there is none."""
    published = assignment.batches_of(directory.listing(PUBLISHED)).get(query, [-1])
    return max(published[-1], directory.removed().get(query, -1))


def _micro_batch() -> tuple[str, int]:
    context = TaskContext.get()
    query = context.getLocalProperty(QUERY_ID) if context is not None else None
    number = context.getLocalProperty(BATCH_ID) if context is not None else None
    if not query or number is None:
        raise UsageError("Spark reports no query and micro-batch: 'tupletree' can be written by a streaming query only")
    return query, int(number)


def _check(columns: StructType, schema: StructType) -> None:
    """Refuse a query whose columns differ from the spout's, or whose types cannot be converted."""
    wanted, given = columns.fieldNames(), schema.fieldNames()
    if set(wanted) != set(given):
        raise UsageError(f"the topology ingests the columns {', '.join(wanted)}; the query has {', '.join(given)}")
    target = rows.arrow_schema(columns.json())
    rows.conformed(pa.RecordBatch.from_pylist([], schema=rows.arrow_schema(schema.json())), target)
