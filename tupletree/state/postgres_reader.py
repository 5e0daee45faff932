"""Reader of a state in PostgreSQL (postgres.py has the tables). A call is one statement, which sees one checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tupletree._stores.postgres import PostgresAddress, library
from tupletree.state.postgres_tables import Tables, check_format
from tupletree.state.reader import Entries, StateReader
from tupletree.state.sizes import MAX_LARGEST, Counted, LargeEntry

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_MAX_ROWS: Final = 1_000_000


class PostgresReader(StateReader):
    """The committed values of one namespace; empty if there are no tables."""

    def __init__(self, namespace: str, address: PostgresAddress, tables: Tables, timeout_s: float) -> None:
        self._namespace = namespace
        self._address = address
        self._tables = tables
        self._timeout_s = timeout_s
        for [format] in self._rows(f"SELECT format FROM {tables.states} WHERE name = %s", []):
            check_format(address.where, namespace, format)

    @property
    def committed(self) -> int | None:
        rows = self._rows(f"SELECT committed FROM {self._tables.states} WHERE name = %s", [])
        return rows[0][0] if rows else None

    def get(self, key: bytes) -> bytes | None:
        rows = self._rows(f"SELECT value FROM {self._tables.entries} WHERE {self._is_of_state} AND key = %s", [key])
        return rows[0][0] if rows else None

    def scan(self, after: bytes, limit: int, max_bytes: int) -> Entries:
        sized = (  # the server sends no more than is wanted, however large the values are
            "SELECT key, value, sum(octet_length(key) + octet_length(value)) "
            "OVER (ORDER BY key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before "
            f"FROM {self._tables.entries} WHERE {self._is_of_state} AND key > %s ORDER BY key LIMIT {limit}"
        )
        return self._rows(
            f"SELECT key, value FROM ({sized}) AS page WHERE before IS NULL OR before < %s ORDER BY key",
            [after, max_bytes],
        )

    def count(self) -> Counted:
        entries = f"{self._tables.entries} WHERE {self._is_of_state} LIMIT {_MAX_ROWS}"
        some = f"(SELECT key, octet_length(key) + octet_length(value) AS size FROM {entries}) AS counted"
        rows = self._rows(f"SELECT count(*), coalesce(sum(size), 0)::bigint FROM {some}", [])
        keys, size = rows[0] if rows else (0, 0)
        # keys have fewer bytes than MAX_LARGEST_KEY_BYTES, since they are indexed
        largest = self._rows(f"SELECT size, key FROM {some} ORDER BY size DESC LIMIT {MAX_LARGEST}", [])
        return Counted(keys, size, keys < _MAX_ROWS, tuple(LargeEntry(*row) for row in largest))

    def close(self) -> None:
        self._address.close()

    @property
    def _is_of_state(self) -> str:
        return f"state = (SELECT id FROM {self._tables.states} WHERE name = %s)"

    def _rows(self, statement: str, arguments: list[Any]) -> list[Any]:
        """Return the rows of a statement whose first parameter is the namespace; none if there are no tables."""
        missing = library("PostgresStateProvider").errors.UndefinedTable

        def work(connection: Connection) -> list[Any]:
            try:
                return connection.execute(statement, [self._namespace, *arguments], binary=True).fetchall()
            except missing:
                return []

        return self._address.use(self._namespace, work, kind="state", limit_s=2 * self._timeout_s)
