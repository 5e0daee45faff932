"""State in PostgreSQL. Spark's tasks write a batch's rows to a staging table; the commit reads them from there.

    tupletree_stage_<sink>_<attempt>    the rows of an attempt, with the task that wrote each

tupletree/_sinks/postgres_commits.py has the other tables, and the statements of a commit.

A staging table is dropped after its commit, in a separate transaction: an abandoned task can still write to the table,
and a commit must not wait for the task. The next driver drops the tables left by a dead driver.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tupletree._sinks.postgres_commits import commit, has_table, make_commits
from tupletree._sinks.postgres_statements import (
    PostgresStatements,
    staged_rows,
    staging_prefix,
    staging_table,
)
from tupletree._sinks.sql_plan import Plan
from tupletree._sinks.sql_rules import sole_writer
from tupletree._sinks.sql_statements import quoted
from tupletree._stores.postgres import PostgresAddress
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError, UsageError
from tupletree.spark.results import quoted as spark_name

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import DataFrame

    from tupletree.spark.sink import SinkScope

    Connection = psycopg.Connection[tuple[Any, ...]]

R = TypeVar("R")


class Staged(NamedTuple):
    """Location of a batch's staged rows.

    Attributes:
        winners: partition and task attempt of each task whose rows count, for tasks that wrote any rows.
        rows: the number of rows of all winners.
    """

    plan: Plan
    staging: str
    winners: tuple[tuple[int, int], ...]
    rows: int


class PostgresTables:
    """The tables of a PostgreSQL database, for SqlState."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._address = PostgresAddress("SqlState", url, timeout_s)
        self.where = self._address.where
        self._scope: SinkScope | None = None
        self._left: set[str] = set()  # staging tables still to be dropped

    def known_as(self, table: str) -> str:
        return table

    def open(self, table: str, scope: SinkScope) -> None:
        self._scope = scope

        def work(connection: Connection) -> list[str]:
            make_commits(connection)
            prefix = staging_prefix(scope.transactional_id, table)
            found = connection.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
                " AND starts_with(relname, %s) AND relkind = 'r'",
                [prefix],
            )
            return [name for (name,) in found.fetchall()]

        self._drop(*self._address.use(table, work))

    def stage(self, attempt: TransactionAttempt, plan: Plan, result: DataFrame) -> Staged:
        from tupletree.spark.sinks.postgres_writer import REPORT, Report, Writer

        assert self._scope is not None, "open comes first"
        statements = PostgresStatements(plan)
        staging = staging_table(self._scope.transactional_id, plan.table, attempt)

        def work(connection: Connection) -> None:
            has_table(connection, statements)
            connection.execute(f"DROP TABLE IF EXISTS {quoted(staging)}")
            connection.execute(statements.create_staging(staging))

        self._address.use(plan.table, work)
        writer = Writer(self._address, staging, plan)
        rows = result.select([spark_name(name) for name in plan.names])
        rows = rows.toDF(*(f"c{number}" for number in range(len(plan.names))))  # mapInArrow trips over dots in names
        reports = [Report(*row) for row in rows.mapInArrow(writer, REPORT).collect()]
        for report in reports:
            if report.problem is not None:
                raise (UnavailableError if report.may_pass else UsageError)(report.problem)
        winners = tuple((report.partition, report.task) for report in reports if report.rows)
        return Staged(plan, staging, winners, sum(report.rows for report in reports))

    def commit(self, attempt: TransactionAttempt, staged: Staged) -> None:
        scope = self._scope
        assert scope is not None, "open comes first"
        writer = sole_writer(staged.plan.table, scope.transactional_id, scope.is_opaque)

        def work(connection: Connection) -> None:
            def stage(statements: PostgresStatements) -> str | None:
                _check_staged(connection, staged)
                return staged_rows(staged.staging, staged.winners) if staged.rows else None

            with connection.transaction():
                commit(connection, writer, attempt, staged.plan, stage)

        self._address.use(staged.plan.table, work)
        self._drop(staged.staging)

    def discard(self, table: str, attempt: TransactionAttempt) -> None:
        assert self._scope is not None, "open comes first"
        self._drop(staging_table(self._scope.transactional_id, table, attempt))

    def close(self) -> None:
        self._drop()
        self._address.close()

    def _drop(self, *staging: str) -> None:
        """Drop staging tables, including those of earlier failed calls. Failures are retried by the next call."""
        self._left.update(staging)
        for name in list(self._left):
            with contextlib.suppress(UnavailableError, UsageError):
                self._address.use(name, functools.partial(_drop_table, name=name))
                self._left.discard(name)


def _check_staged(connection: Connection, staged: Staged) -> None:
    """Raise UnavailableError unless all staged rows exist. They are lost after a crash of the server."""
    if not staged.rows:
        return
    found = 0
    if connection.execute("SELECT to_regclass(%s)", [quoted(staged.staging)]).fetchone() != (None,):
        query = f"SELECT count(*) FROM {staged_rows(staged.staging, staged.winners)}"
        [found] = connection.execute(query).fetchone() or [0]
    if found != staged.rows:
        raise UnavailableError(
            f"table {staged.plan.table!r}: {found} of {staged.rows} staged rows are left: the server has crashed, or"
            " another driver of this pipeline has started"
        )


def _drop_table(connection: Connection, name: str) -> None:
    """Drop a table, unless another transaction uses it: the end of an abandoned task is unknown."""
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '1s'")
        connection.execute(f"DROP TABLE IF EXISTS {quoted(name)}")
