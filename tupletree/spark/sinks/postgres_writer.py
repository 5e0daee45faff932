"""Writer for a PostgreSQL table, run by Spark's tasks. A task copies its rows to the staging table of its attempt."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from tupletree._sinks.postgres_rows import csv_of
from tupletree._sinks.postgres_statements import PostgresStatements
from tupletree._sinks.sql_plan import Plan
from tupletree._stores.postgres import PostgresAddress, library
from tupletree.errors import UnavailableError, UsageError

REPORT = "partition BIGINT, task BIGINT, rows BIGINT, problem STRING, may_pass BOOLEAN"
"""The columns that a task returns, in Spark's DDL."""


class Report(NamedTuple):
    """The result of a task, or its failure. If the task raised an exception, Spark would rerun it and reword the error.

    Attributes:
        problem: one sentence; None if the rows are written.
        may_pass: True if the problem is temporary.
    """

    partition: int
    task: int
    rows: int
    problem: str | None = None
    may_pass: bool = False


class Writer:
    """Writes the rows of a task and yields its Report, in Spark's Python workers. Columns are in the plan's order."""

    def __init__(self, address: PostgresAddress, staging: str, plan: Plan) -> None:
        self._address = address
        self._staging = staging
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        partition, task = context.partitionId(), context.taskAttemptId()
        try:
            report = Report(partition, task, self._write(batches, partition, task))
        except UnavailableError as error:
            report = Report(partition, task, 0, str(error), may_pass=True)
        except UsageError as error:
            report = Report(partition, task, 0, str(error))
        yield pa.RecordBatch.from_pylist([report._asdict()], _REPORT_SCHEMA)

    def _write(self, batches: Iterator[pa.RecordBatch], partition: int, task: int) -> int:
        """Copy the rows and return their number."""
        batches = (batch for batch in batches if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return 0
        rows = 0
        missing = library("SqlState").errors.UndefinedTable  # the attempt is over: a newer driver has dropped the table
        with (
            self._address.translated(self._plan.table, missing),
            self._address.connect() as connection,
            connection.cursor() as cursor,
        ):
            connection.execute("SET synchronous_commit = off")  # a crash empties the unlogged table anyway
            with cursor.copy(PostgresStatements(self._plan).copy(self._staging)) as copy:
                for batch in itertools.chain([first], batches):
                    named = batch.rename_columns(self._plan.names)
                    copy.write(csv_of(self._plan, named, (partition, task), rows))
                    rows += batch.num_rows
        return rows


_REPORT_SCHEMA = pa.schema(
    [
        ("partition", pa.int64()),
        ("task", pa.int64()),
        ("rows", pa.int64()),
        ("problem", pa.string()),
        ("may_pass", pa.bool_()),
    ]
)
