"""State in an SQLite file. A batch's rows are collected in the driver, and committed in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tupletree._sinks import sqlite_commits
from tupletree._sinks.sql_plan import Plan
from tupletree._sinks.sql_rules import Writer, sole_writer
from tupletree._sinks.sqlite_commits import rows_of
from tupletree.attempt import TransactionAttempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tupletree.spark.sink import SinkScope


class StagedRows(NamedTuple):
    """The rows of a batch, each with the values of the plan's columns in order."""

    plan: Plan
    rows: Sequence[tuple[Any, ...]]


class SqliteTables:
    """The tables of an SQLite file, for SqlState."""

    def __init__(self, path: str, timeout_s: float) -> None:
        self._tables = sqlite_commits.SqliteTables("SqlState", path, timeout_s)
        self.where = self._tables.where
        self._writer: Writer | None = None

    def known_as(self, table: str) -> str:
        return table.lower()

    def open(self, table: str, scope: SinkScope) -> None:
        self._writer = sole_writer(table, scope.transactional_id, scope.is_opaque)

    def stage(self, attempt: TransactionAttempt, plan: Plan, result: DataFrame) -> StagedRows:
        self._tables.check(plan)
        return StagedRows(plan, rows_of(plan, result.toArrow()))

    def commit(self, attempt: TransactionAttempt, staged: StagedRows) -> None:
        assert self._writer is not None, "open comes first"
        self._tables.commit(self._writer, attempt, *staged)

    def discard(self, table: str, attempt: TransactionAttempt) -> None:
        """Do nothing: the rows are in this process only."""

    def close(self) -> None:
        self._tables.close()
