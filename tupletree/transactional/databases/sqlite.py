"""Tables in an SQLite file, which several threads and processes of one machine can use at once.

    tupletree_tables    name, format, txid, attempt          a row for each table; txid and attempt are its mark
    <table>             key, value, txid, previous, has_previous          value and previous are JSON text

A change is one ``BEGIN IMMEDIATE`` transaction. SQLite allows one writer at a time, so a decision never sees a change
in progress and is never repeated. The journal is a write-ahead log with ``synchronous = FULL``: readers do not wait for
writers, and committed changes survive a crash of the machine.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from tupletree._stores.sqlite import SqliteFile
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError, UsageError
from tupletree.transactional.databases.contract import Changes, Database, Row, View
from tupletree.transactional.databases.encoding import (
    FORMAT,
    TABLES,
    check_format,
    check_table,
    decode,
    encode,
    not_ours,
)

R = TypeVar("R")

_COLUMNS = "key, value, txid, previous, has_previous"


class SqliteDatabase(Database):
    """An SQLite file, with nothing to install and nothing to start.

    The file must be on a local disk, not on a network file system, and all its users on the same machine. The file and
    its directory are created if they do not exist. Do not delete or replace the file while a process uses it: every
    call then raises UnavailableError until the file is back, because later writes would be lost.

    Args:
        path: the path of the file. A relative path is resolved when this object is created.
        busy_timeout_s: how long to wait for other writers before raising UnavailableError.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout_s: float = 10.0) -> None:
        if os.fspath(path) in ("", ":memory:"):
            raise UsageError(
                f"SqliteDatabase: a path of a file was expected, not {path!r}; a MemoryDatabase needs none"
            )
        self.path = os.path.abspath(path)
        self._file = SqliteFile(self.path, busy_timeout_s, _create_tables)

    def __repr__(self) -> str:
        return f"SqliteDatabase({self.path!r})"

    def apply(self, table: str, decide: Callable[[View], Changes]) -> Changes:
        check_table(table)

        def work(connection: sqlite3.Connection) -> Changes:
            connection.execute("BEGIN IMMEDIATE")
            about = _about(connection, table) or _create(connection, table)
            changes = decide(_View(connection, table, about.mark))
            _write(connection, table, changes)
            connection.execute("COMMIT")
            return changes

        return self._use(work)

    def read(self, table: str, keys: Collection[str] | None = None) -> dict[str, Row]:
        check_table(table)

        def work(connection: sqlite3.Connection) -> dict[str, Row]:
            connection.execute("BEGIN")
            rows = {}
            if _about(connection, table):
                rows = _all_rows(connection, table) if keys is None else _rows(connection, table, keys)
            connection.execute("COMMIT")
            return rows

        return self._use(work)

    def close(self) -> None:
        self._file.close()

    def _use(self, work: Callable[[sqlite3.Connection], R]) -> R:
        try:
            return self._file.use(work)
        except sqlite3.DatabaseError as error:  # the connection is closed, which rolls its transaction back
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
                raise UsageError(f"{self.path} is not an SQLite file") from error
            raise UnavailableError(f"{self.path}: {error}") from error


def _create_tables(connection: sqlite3.Connection) -> None:
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {TABLES} "
        "(name TEXT PRIMARY KEY COLLATE NOCASE, format INTEGER NOT NULL, txid INTEGER, attempt INTEGER)"
    )


class _About(NamedTuple):
    """The row of a table in ``tupletree_tables``."""

    mark: TransactionAttempt | None


def _about(connection: sqlite3.Connection, table: str) -> _About | None:
    """Return the row of a table in ``tupletree_tables``, or None if the table does not exist yet."""
    line = connection.execute(f"SELECT format, txid, attempt FROM {TABLES} WHERE name = ?", [table]).fetchone()
    if line is None:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE", [table]).fetchone():
            raise not_ours(table)
        return None
    found, txid, attempt = line
    check_format(table, found)
    return _About(None if txid is None else TransactionAttempt(txid, attempt))


def _create(connection: sqlite3.Connection, table: str) -> _About:
    connection.execute(
        f'CREATE TABLE "{table}" (key TEXT PRIMARY KEY, value TEXT NOT NULL, txid INTEGER NOT NULL, '
        "previous TEXT, has_previous INTEGER NOT NULL) WITHOUT ROWID"
    )
    connection.execute(f'CREATE INDEX "{table}.txid" ON "{table}" (txid)')  # no table has a dot in its name
    connection.execute(f"INSERT INTO {TABLES} (name, format) VALUES (?, ?)", [table, FORMAT])
    return _About(None)


class _View:
    """The View of a decision, within the transaction."""

    def __init__(self, connection: sqlite3.Connection, table: str, mark: TransactionAttempt | None) -> None:
        self._connection = connection
        self._table = table
        self._mark = mark

    def mark(self) -> TransactionAttempt | None:
        return self._mark

    def rows(self, keys: Collection[str]) -> Mapping[str, Row]:
        return _rows(self._connection, self._table, keys)

    def rows_of(self, txid: int) -> Mapping[str, Row]:
        return _decoded(
            self._connection.execute(f'SELECT {_COLUMNS} FROM "{self._table}" WHERE txid = ?', [txid]).fetchall()
        )


def _rows(connection: sqlite3.Connection, table: str, keys: Collection[str]) -> dict[str, Row]:
    query = f'SELECT {_COLUMNS} FROM "{table}" WHERE key IN (SELECT value FROM json_each(?))'
    return _decoded(connection.execute(query, [json.dumps(list(keys), ensure_ascii=False)]).fetchall())


def _all_rows(connection: sqlite3.Connection, table: str) -> dict[str, Row]:
    return _decoded(connection.execute(f'SELECT {_COLUMNS} FROM "{table}" ORDER BY key').fetchall())


def _decoded(lines: Iterable[tuple[str, str, int, str | None, int]]) -> dict[str, Row]:
    return {
        key: Row(txid, decode(value), decode(previous or "null"), bool(has_previous))
        for key, value, txid, previous, has_previous in lines
    }


def _write(connection: sqlite3.Connection, table: str, changes: Changes) -> None:
    connection.executemany(f'DELETE FROM "{table}" WHERE key = ?', [(key,) for key in changes.deletes])
    connection.executemany(
        f'INSERT OR REPLACE INTO "{table}" ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)',
        [
            (
                key,
                encode(table, key, row.value),
                row.txid,
                encode(table, key, row.previous) if row.has_previous else None,
                row.has_previous,
            )
            for key, row in changes.puts.items()
        ],
    )
    if changes.mark is not None:
        connection.execute(f"UPDATE {TABLES} SET txid = ?, attempt = ? WHERE name = ?", [*changes.mark, table])
