"""Commits to an SQLite file: rows and the note of their transaction, in one transaction of the database.

tupletree_commits       name, transactional_id, txid, attempt, format     one row per writer of a table: its last commit
tupletree_undo_<name>   the previous version of the rows that the last commit touched; opaque rule only
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tupletree._arrow import pa, pc
from tupletree._sinks.sql_plan import Column, Kind, Plan
from tupletree._sinks.sql_rules import COMMITS, FORMAT, Note, Step, Writer, decide, no_undo
from tupletree._sinks.sqlite_statements import FUNCTIONS, SqliteStatements, stored_table
from tupletree._stores.sqlite import SqliteFile
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError, UsageError

R = TypeVar("R")
Rows = Sequence[tuple[Any, ...]]
"""Rows as SQLite stores them, each with the values of the plan's columns in order (``rows_of``)."""

_MISTAKES = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_NOTADB,
}
"""Codes of errors that a retry does not fix. All other errors are temporary, such as a full disk or a locked file."""


class SqliteTables:
    """The tables of an SQLite file. ``user``: the class that the user wrote, named in errors."""

    def __init__(self, user: str, path: str, timeout_s: float) -> None:
        if not path or path == ":memory:":
            raise UsageError(f"{user}: a path of an SQLite file was expected, such as 'sqlite:///counts.db'")
        self.path = os.path.abspath(path)
        self.where = f"sqlite:///{self.path}"
        self._file = SqliteFile(self.path, timeout_s, _prepare)

    def check(self, plan: Plan) -> None:
        """Raise UsageError if the table exists and the rows of the plan do not fit."""
        self._use(plan.table, lambda connection: _has_table(connection, SqliteStatements(plan)))

    def commit(self, writer: Writer, attempt: TransactionAttempt, plan: Plan, rows: Rows) -> None:
        """Write rows and a note of their attempt, unless the note says that they are written.

        Raises:
            StaleAttemptError: a newer attempt or transaction of this writer has been written.
            UsageError: the table does not fit, refuses a row, or belongs to another writer.
            UnavailableError: the file cannot be used at the moment.
        """

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            _commit(connection, writer, attempt, plan, rows)
            connection.execute("COMMIT")

        self._use(plan.table, work)

    def write(self, plan: Plan, rows: Rows) -> None:
        """Write rows without a note. Raises the errors of ``commit``, except StaleAttemptError."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            statements = _with_table(connection, SqliteStatements(plan))
            connection.executemany(statements.upsert_row(), rows)
            connection.execute("COMMIT")

        self._use(plan.table, work)

    def close(self) -> None:
        """Close idle connections. They are opened again when needed."""
        self._file.close()

    def _use(self, table: str, work: Callable[[sqlite3.Connection], R]) -> R:
        try:
            return self._file.use(work)
        except sqlite3.DatabaseError as error:  # the connection is closed, which rolls its transaction back
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            kind = UsageError if code in _MISTAKES else UnavailableError
            raise kind(f"{self.path}, table {table!r}: {error}") from error


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {COMMITS} (name TEXT PRIMARY KEY COLLATE NOCASE, transactional_id TEXT NOT NULL, "
        "txid INTEGER NOT NULL, attempt INTEGER NOT NULL, format INTEGER NOT NULL)"
    )
    for name, function in FUNCTIONS.items():
        connection.create_function(name, 2, function, deterministic=True)


def rows_of(plan: Plan, table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a result as SQLite values. UsageError for values that SQLite cannot store."""
    for key in plan.keys:
        if table.column(key.name).null_count:
            raise plan.null_key(key.name)
    return list(zip(*(_values(plan, column, table.column(column.name)) for column in plan.columns), strict=True))


def _values(plan: Plan, column: Column, values: pa.ChunkedArray) -> list[Any]:
    match column.kind:
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            # For a time with a zone, the second cast removes the zone and leaves UTC.
            if column.kind == Kind.TIMESTAMP:
                values = values.cast(pa.timestamp("us", "UTC"))
            text = values.cast(pa.timestamp("us")).cast(pa.string())
            return pc.replace_substring_regex(text, r"\.000000$", "").to_pylist()  # type: ignore[no-any-return]
        case Kind.DATE:
            return values.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
        case Kind.DECIMAL:
            return [None if value is None else format(value, "f") for value in values.to_pylist()]
        case Kind.FLOAT if pc.any(pc.is_nan(values)).as_py():
            raise UsageError(
                f"table {plan.table!r}: column {column.name!r} of the result is NaN in some row, which SQLite cannot"
                " store: a number or NULL was expected"
            )
        case _:
            return values.to_pylist()  # type: ignore[no-any-return]


def _commit(
    connection: sqlite3.Connection, writer: Writer, attempt: TransactionAttempt, plan: Plan, rows: Rows
) -> None:
    """Run the statements of one commit, inside its transaction."""
    table = plan.table
    note = _note(connection, writer) or Note(writer.id, 0, 0)
    step = decide(table, note, writer.id, attempt, writer.is_opaque)
    if step == Step.NOTHING:
        return
    statements = _with_table(connection, SqliteStatements(plan, writer.undo))
    kept = [name for name, *_ in _table_info(connection, statements.undo_name)]
    if step == Step.TAKE_BACK_AND_WRITE:
        if not kept:
            raise no_undo(table, attempt)
        for statement in statements.restore(kept):
            connection.execute(statement)
    _keep(connection, statements, kept, rows if writer.is_opaque else None)
    connection.executemany(statements.upsert_row(), rows)
    connection.execute(
        f"INSERT OR REPLACE INTO {COMMITS} (name, transactional_id, txid, attempt, format) VALUES (?, ?, ?, ?, ?)",
        [writer.note, writer.id, *attempt, FORMAT],
    )


def _with_table(connection: sqlite3.Connection, statements: SqliteStatements) -> SqliteStatements:
    """Create the table if it does not exist. Return the statements."""
    if not _has_table(connection, statements):
        connection.execute(statements.create())
    return statements


def _keep(
    connection: sqlite3.Connection,
    statements: SqliteStatements,
    kept: Sequence[str],
    rows: Rows | None,
) -> None:
    """Prepare the undo table before rows are written. ``rows``: None if no undo table is wanted."""
    if kept and (rows is None or kept != statements.undo_columns()):
        connection.execute(f"DROP TABLE {statements.undo}")
        kept = ()
    if rows is None:
        return
    connection.execute(f"DELETE FROM {statements.undo}" if kept else statements.create_undo())
    count = len(statements.plan.keys)
    connection.executemany(statements.fill_undo_row(), {row[:count] for row in rows})


def _note(connection: sqlite3.Connection, writer: Writer) -> Note | None:
    line = connection.execute(
        f"SELECT transactional_id, txid, attempt, format FROM {COMMITS} WHERE name = ?", [writer.note]
    ).fetchone()
    return Note(*line) if line else None


def _has_table(connection: sqlite3.Connection, statements: SqliteStatements) -> bool:
    """True if the table exists. UsageError if it exists and the rows of the plan do not fit."""
    plan = statements.plan
    columns = _table_info(connection, plan.table)
    if not columns:
        return False
    indexes = [
        [name for (name,) in connection.execute("SELECT name FROM pragma_index_info(?)", [index])]
        for index, unique, partial in connection.execute(
            'SELECT name, "unique", partial FROM pragma_index_list(?)', [plan.table]
        ).fetchall()
        if unique and not partial
    ]
    stored_table(plan, columns, indexes).check(plan, statements.types())
    return True


def _table_info(connection: sqlite3.Connection, table: str) -> list[tuple[str, str, bool, bool, int]]:
    """Return, per column: name, type, NOT NULL, has a default, and its place in the primary key, from 1 (0: none)."""
    return connection.execute(
        'SELECT name, type, "notnull", dflt_value IS NOT NULL, pk FROM pragma_table_info(?)', [table]
    ).fetchall()
