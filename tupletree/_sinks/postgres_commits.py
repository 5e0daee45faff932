"""Commits to a PostgreSQL database: rows and the note of their transaction, in one transaction of the database.

    tupletree_commits       name, transactional_id, txid, attempt, format; one row per writer: its last commit
    tupletree_undo_<name>   the previous version of the rows that the last commit touched; opaque rule only

A commit locks the writer's row in ``tupletree_commits`` first, so two lives of one writer take turns, and each sees the
other's commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tupletree._sinks.postgres_statements import PostgresStatements, stored_table
from tupletree._sinks.sql_plan import Plan
from tupletree._sinks.sql_rules import COMMITS, FORMAT, Note, Step, Writer, decide, no_undo
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

Stage = Callable[[PostgresStatements], str | None]
"""Returns the rows to write as a FROM item, with the columns of a staging table; None if there are no rows."""

_LOCK = 0x7475706C_73716C00
"""Advisory lock for creating tables. Two concurrent creations would collide."""

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


def make_commits(connection: Connection) -> None:
    if connection.execute("SELECT to_regclass(%s)", [COMMITS]).fetchone() != (None,):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {COMMITS} (name text PRIMARY KEY, transactional_id text NOT NULL, "
            "txid bigint NOT NULL, attempt bigint NOT NULL, format integer NOT NULL)"
        )


def commit(connection: Connection, writer: Writer, attempt: TransactionAttempt, plan: Plan, stage: Stage) -> None:
    """Run the statements of one commit, inside its transaction. ``stage`` is called if there is something to write.

    Raises StaleAttemptError if the attempt is over, UsageError if the table does not fit or is another writer's.
    """
    note = _locked_note(connection, plan.table, writer)
    step = decide(plan.table, note, writer.id, attempt, writer.is_opaque)
    if step == Step.NOTHING:
        return
    statements = PostgresStatements(plan, writer.undo)
    rows = stage(statements)
    make_table(connection, statements)
    kept = [name for name, *_ in connection.execute(_COLUMNS, [statements.undo]).fetchall()]
    if step == Step.TAKE_BACK_AND_WRITE:
        if not kept:
            raise no_undo(plan.table, attempt)
        for statement in statements.restore(kept):
            connection.execute(statement)
    if kept and (not writer.is_opaque or kept != statements.undo_columns()):
        connection.execute(f"DROP TABLE {statements.undo}")
        kept = []
    if writer.is_opaque:
        connection.execute(f"TRUNCATE {statements.undo}" if kept else statements.create_undo())
    if rows is not None:
        if writer.is_opaque:
            connection.execute(statements.fill_undo(statements.touched(rows)))
        connection.execute(statements.upsert(statements.combined_rows(rows)))
    connection.execute(
        f"UPDATE {COMMITS} SET txid = %s, attempt = %s, format = %s WHERE name = %s", [*attempt, FORMAT, writer.note]
    )


def make_table(connection: Connection, statements: PostgresStatements) -> None:
    """Create the table if it does not exist. UsageError if it exists and the rows do not fit."""
    if has_table(connection, statements):
        return
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])  # several writers may create it
    if not has_table(connection, statements):
        connection.execute(statements.create())


def _locked_note(connection: Connection, table: str, writer: Writer) -> Note:
    """Return the note of a writer, locked until this transaction ends."""
    connection.execute(
        f"INSERT INTO {COMMITS} (name, transactional_id, txid, attempt, format) VALUES (%s, %s, 0, 0, %s)"
        " ON CONFLICT DO NOTHING",
        [writer.note, writer.id, FORMAT],
    )
    line = connection.execute(
        f"SELECT transactional_id, txid, attempt, format FROM {COMMITS} WHERE name = %s FOR UPDATE", [writer.note]
    ).fetchone()
    if line is None:
        raise UnavailableError(f"table {table!r}: its row in {COMMITS} was deleted concurrently")
    return Note(*line)


def has_table(connection: Connection, statements: PostgresStatements) -> bool:
    """True if the table exists. UsageError if it exists and the rows of the plan do not fit."""
    columns = connection.execute(_COLUMNS, [statements.table]).fetchall()
    if not columns:
        return False
    indexes = [names for (names,) in connection.execute(_UNIQUE, [statements.table]).fetchall()]
    stored_table(columns, indexes).check(statements.plan, statements.types())
    return True
