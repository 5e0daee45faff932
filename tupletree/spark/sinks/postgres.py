"""State in PostgreSQL. Spark's tasks write a batch's rows to a staging table; the commit reads them from there.

    tupletree_commits             name, transactional_id, txid, attempt, format: one row per table, its last commit
    tupletree_undo_<table>        the previous version of the rows that the last commit touched; opaque rule only
    tupletree_stage_<sink>_<attempt>    the rows of an attempt, with the task that wrote each

A commit is one transaction. It locks the table's row in ``tupletree_commits`` first, so two drivers of one pipeline
take turns, and each sees the other's commit.

A staging table is dropped after its commit, in a separate transaction: an abandoned task can still write to the table,
and a commit must not wait for the task. The next driver drops the tables left by a dead driver.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tupletree._sinks.postgres_statements import (
    PostgresStatements,
    staged_rows,
    staging_prefix,
    staging_table,
    stored_table,
)
from tupletree._sinks.sql_plan import Plan
from tupletree._sinks.sql_rules import COMMITS, FORMAT, Note, Step, decide, no_undo
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

_LOCK = 0x7475706C_73716C00
"""Advisory lock for creating the table of commits. Two concurrent creations would collide."""

_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod), base.typname,
        attnotnull AND NOT atthasdef AND attidentity = ''
    FROM pg_attribute JOIN pg_type AS given ON given.oid = atttypid
        JOIN pg_type AS base ON base.oid = CASE given.typbasetype WHEN 0 THEN given.oid ELSE given.typbasetype END
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""

_UNIQUE = """
    SELECT array_agg(attname::text) FROM pg_index JOIN pg_attribute ON attrelid = indrelid
        AND attnum = ANY(indkey[0:indnkeyatts - 1])
    WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid AND indimmediate
        AND indpred IS NULL AND indexprs IS NULL GROUP BY indexrelid
"""


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
            _make_commits(connection)
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
            _has_table(connection, statements)
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

        def work(connection: Connection) -> None:
            with connection.transaction():
                _commit(connection, scope, attempt, staged)

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


def _make_commits(connection: Connection) -> None:
    if connection.execute("SELECT to_regclass(%s)", [COMMITS]).fetchone() != (None,):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {COMMITS} (name text PRIMARY KEY, transactional_id text NOT NULL, "
            "txid bigint NOT NULL, attempt bigint NOT NULL, format integer NOT NULL)"
        )


def _commit(connection: Connection, scope: SinkScope, attempt: TransactionAttempt, staged: Staged) -> None:
    """Run the statements of one commit, inside its transaction."""
    statements = PostgresStatements(staged.plan)
    table = staged.plan.table
    note = _locked_note(connection, table, scope.transactional_id)
    step = decide(table, note, scope.transactional_id, attempt, scope.is_opaque)
    if step == Step.NOTHING:
        return
    _check_staged(connection, staged)
    if not _has_table(connection, statements):
        connection.execute(statements.create())
    kept = [name for name, *_ in connection.execute(_COLUMNS, [statements.undo]).fetchall()]
    if step == Step.TAKE_BACK_AND_WRITE:
        if not kept:
            raise no_undo(table, attempt)
        for statement in statements.restore(kept):
            connection.execute(statement)
    if kept and (not scope.is_opaque or kept != statements.undo_columns()):
        connection.execute(f"DROP TABLE {statements.undo}")
        kept = []
    if scope.is_opaque:
        connection.execute(f"TRUNCATE {statements.undo}" if kept else statements.create_undo())
    if staged.rows:
        rows = staged_rows(staged.staging, staged.winners)
        if scope.is_opaque:
            connection.execute(statements.fill_undo(statements.touched(rows)))
        connection.execute(statements.upsert(statements.combined_rows(rows)))
    connection.execute(
        f"UPDATE {COMMITS} SET txid = %s, attempt = %s, format = %s WHERE name = %s", [*attempt, FORMAT, table]
    )


def _locked_note(connection: Connection, table: str, transactional_id: str) -> Note:
    """Return the note of a table, locked until this transaction ends."""
    connection.execute(
        f"INSERT INTO {COMMITS} (name, transactional_id, txid, attempt, format) VALUES (%s, %s, 0, 0, %s)"
        " ON CONFLICT DO NOTHING",
        [table, transactional_id, FORMAT],
    )
    line = connection.execute(
        f"SELECT transactional_id, txid, attempt, format FROM {COMMITS} WHERE name = %s FOR UPDATE", [table]
    ).fetchone()
    if line is None:
        raise UnavailableError(f"table {table!r}: its row in {COMMITS} was deleted concurrently")
    return Note(*line)


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


def _has_table(connection: Connection, statements: PostgresStatements) -> bool:
    """True if the table exists. UsageError if it exists and the rows of the plan do not fit."""
    columns = connection.execute(_COLUMNS, [statements.table]).fetchall()
    if not columns:
        return False
    indexes = [names for (names,) in connection.execute(_UNIQUE, [statements.table]).fetchall()]
    stored_table(columns, indexes).check(statements.plan, statements.types())
    return True


def _drop_table(connection: Connection, name: str) -> None:
    """Drop a table, unless another transaction uses it: the end of an abandoned task is unknown."""
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '1s'")
        connection.execute(f"DROP TABLE IF EXISTS {quoted(name)}")
