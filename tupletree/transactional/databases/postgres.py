"""Tables in PostgreSQL.

    tupletree_tables    name, format, txid, attempt          a row for each table; txid and attempt are its mark
    <table>             key, value, txid, previous, has_previous          value and previous are JSONB

A change is one transaction, with locks that let tasks with disjoint keys work at the same time:

    shared lock of the table      taken by a change at first. The change also locks the rows that it reads. If another
                                  change has meanwhile inserted one of its new rows, the change decides again
    exclusive lock of the table   taken by a change that sets the mark, deletes, creates the table, or reads all rows of
                                  a transaction. The need is known only after a decision, which is then made again
                                  under this lock

The table lock is an advisory lock, taken before any read: rows that a decision has read cannot change until its changes
are written. Rows are locked in key order, so that changes cannot deadlock.

JSONB preserves the value of a number, not its notation: 1e22 is read back as an integer.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tupletree._stores.postgres import PostgresAddress, library
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError
from tupletree.transactional.databases.contract import Changes, Database, Row, View
from tupletree.transactional.databases.encoding import FORMAT, TABLES, check_format, check_table, encode, not_ours

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

R = TypeVar("R")

_LOCKS = 0x7475706C
"""The first key of all Tupletree advisory locks; the second key is derived from the table's name."""

_COLUMNS = "key, value, txid, previous, has_previous"

_NEW_ROWS = """(
    SELECT key, value::jsonb AS value, txid, previous::jsonb AS previous, has_previous
    FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::text[], %s::boolean[])
        AS given (key, value, txid, previous, has_previous)
)"""


class PostgresDatabase(Database):
    """A PostgreSQL server, 12 or newer. Needs ``pip install 'tupletree[postgres]'``.

    Tables are created in the first schema of the ``search_path``; the user needs the privilege to create them.

    Args:
        url: a connection string of libpq, for example ``postgresql://user@host:5432/database``.
        timeout_s: how long to wait for a connection, and for a lock. A call is given up after twice this time.
    """

    def __init__(self, url: str, *, timeout_s: float = 10.0) -> None:
        self._address = PostgresAddress("PostgresDatabase", url, timeout_s, _create_tables)
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"<PostgresDatabase, {self._address.where}>"

    def apply(self, table: str, decide: Callable[[View], Changes]) -> Changes:
        check_table(table)
        errors = library("PostgresDatabase").errors
        deadline = time.monotonic() + self._timeout_s

        def work(connection: Connection) -> Changes:
            alone = False
            while True:
                was_alone = alone
                try:
                    changes, alone = _apply(connection, table, decide, alone)
                    if changes is not None:
                        return changes
                except (errors.SerializationFailure, errors.DeadlockDetected):
                    pass
                if alone == was_alone and time.monotonic() > deadline:  # else nobody else was the reason
                    raise UnavailableError(
                        f"{self._address.where}: table {table!r} is changed concurrently; the batch is retried"
                    )

        return self._use(table, work)

    def read(self, table: str, keys: Collection[str] | None = None) -> dict[str, Row]:
        check_table(table)

        def work(connection: Connection) -> dict[str, Row]:
            with connection.transaction():
                if not _about(connection, table):
                    return {}
                if keys is None:
                    return _rows(connection, f'SELECT {_COLUMNS} FROM "{table}" ORDER BY key')
                return _rows(connection, f'SELECT {_COLUMNS} FROM "{table}" WHERE key = ANY(%s::text[])', list(keys))

        return self._use(table, work)

    def close(self) -> None:
        self._address.close()

    def _use(self, table: str, work: Callable[[Connection], R]) -> R:
        return self._address.use(table, work, limit_s=2 * self._timeout_s)


def _create_tables(connection: Connection) -> None:
    if connection.execute("SELECT to_regclass(%s)", [TABLES]).fetchone() == (None,):
        with connection.transaction():
            _lock(connection, "", alone=True)
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {TABLES} "
                "(name text PRIMARY KEY, format integer NOT NULL, txid bigint, attempt bigint)"
            )


def _apply(
    connection: Connection, table: str, decide: Callable[[View], Changes], alone: bool
) -> tuple[Changes | None, bool]:
    """Try a change once. Return the changes, or None if nothing was written and the change must be tried again.

    ``alone``: True under the exclusive lock. The second item returned is the ``alone`` of the next try.
    """
    with connection.transaction():
        _lock(connection, table, alone)
        about = _about(connection, table)
        if about is None and not alone:
            return None, True
        view = _View(connection, table, (about or _create(connection, table))[0], alone)
        try:
            changes = decide(view)
        except _NotAloneError:
            return None, True
        if not alone and (changes.deletes or changes.mark is not None):
            return None, True
        if view.write(changes):
            return changes, alone
        raise library("PostgresDatabase").Rollback
    return None, alone


def _lock(connection: Connection, table: str, alone: bool) -> None:
    mode = "" if alone else "_shared"
    connection.execute(f"SELECT pg_advisory_xact_lock{mode}(%s, %s)", [_LOCKS, zlib.crc32(table.encode()) - (1 << 31)])


def _about(connection: Connection, table: str) -> tuple[TransactionAttempt | None] | None:
    """Return the mark of a table as a 1-tuple, or None if the table does not exist yet."""
    line = connection.execute(f"SELECT format, txid, attempt FROM {TABLES} WHERE name = %s", [table]).fetchone()
    if line is None:
        if connection.execute("SELECT to_regclass(%s)", [f'"{table}"']).fetchone() != (None,):
            raise not_ours(table)
        return None
    found, txid, attempt = line
    check_format(table, found)
    return (None if txid is None else TransactionAttempt(txid, attempt),)


def _create(connection: Connection, table: str) -> tuple[None]:
    connection.execute(
        f'CREATE TABLE "{table}" (key text COLLATE "C" PRIMARY KEY, value jsonb NOT NULL, txid bigint NOT NULL, '
        "previous jsonb, has_previous boolean NOT NULL)"
    )
    connection.execute(f'CREATE INDEX "{table}.txid" ON "{table}" (txid)')  # no table has a dot in its name
    connection.execute(f"INSERT INTO {TABLES} (name, format) VALUES (%s, %s)", [table, FORMAT])
    return (None,)


class _NotAloneError(Exception):
    """A decision requires a read that only the exclusive lock keeps stable."""


class _View:
    """The View of a decision within the transaction. Reading a row locks it."""

    def __init__(self, connection: Connection, table: str, mark: TransactionAttempt | None, alone: bool) -> None:
        self._connection = connection
        self._table = table
        self._mark = mark
        self._alone = alone
        self._looked_for: set[str] = set()
        self._found: set[str] = set()

    def mark(self) -> TransactionAttempt | None:
        return self._mark

    def rows(self, keys: Collection[str]) -> Mapping[str, Row]:
        return self._locked(keys, "key = ANY(%s::text[])", list(keys))

    def rows_of(self, txid: int) -> Mapping[str, Row]:
        if not self._alone:
            raise _NotAloneError
        return self._locked((), "txid = %s", txid)

    def write(self, changes: Changes) -> bool:
        """Write the changes. True if all were written as decided; otherwise the transaction must be rolled back."""
        self.rows(changes.puts.keys() - self._looked_for)
        old = {key: row for key, row in changes.puts.items() if key in self._found}
        new = {key: row for key, row in changes.puts.items() if key not in self._found}
        table, execute = self._table, self._connection.execute
        if changes.deletes:
            execute(f'DELETE FROM "{table}" WHERE key = ANY(%s::text[])', [list(changes.deletes)])
        if old:
            execute(
                f'UPDATE "{table}" AS old SET (value, txid, previous, has_previous) = '
                f"ROW (new.value, new.txid, new.previous, new.has_previous) FROM {_NEW_ROWS} AS new "
                "WHERE old.key = new.key",
                _arrays(table, old),
            )
        if changes.mark is not None:
            execute(f"UPDATE {TABLES} SET txid = %s, attempt = %s WHERE name = %s", [*changes.mark, table])
        if not new:
            return True
        insert = f'INSERT INTO "{table}" ({_COLUMNS}) SELECT {_COLUMNS} FROM {_NEW_ROWS} AS new ON CONFLICT DO NOTHING'
        return execute(insert, _arrays(table, dict(sorted(new.items())))).rowcount == len(new)

    def _locked(self, keys: Iterable[str], which: str, parameter: object) -> dict[str, Row]:
        query = f'SELECT {_COLUMNS} FROM "{self._table}" WHERE {which} ORDER BY key FOR UPDATE'
        rows = _rows(self._connection, query, parameter)
        self._looked_for.update(keys, rows)
        self._found.update(rows)
        return rows


def _rows(connection: Connection, query: str, *parameters: object) -> dict[str, Row]:
    return {
        key: Row(txid, value, previous, has_previous)
        for key, value, txid, previous, has_previous in connection.execute(query, parameters).fetchall()
    }


def _arrays(table: str, rows: Mapping[str, Row]) -> list[list[object]]:
    """Return rows as columns, for unnest."""
    return [
        list(rows),
        [encode(table, key, row.value) for key, row in rows.items()],
        [row.txid for row in rows.values()],
        [encode(table, key, row.previous) if row.has_previous else None for key, row in rows.items()],
        [row.has_previous for row in rows.values()],
    ]
