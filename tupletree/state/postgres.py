"""States in PostgreSQL, in three tables of one schema that all states share.

    states           id, name, format, owner, committed, prepared, changed
                         a row for each namespace; owner is the number of times it was opened, changed the size of
                         the prepared changes, in changes; name NULL: the state is being removed
    state_entries    state, key, value      committed values
    state_changes    state, chunk, entries  prepared changes, packed

Changes are packed because a row for each would leave a dead row behind, which each checkpoint had to pass until
PostgreSQL collects it.

Every write is one transaction, which first locks the row of its namespace and checks the owner. Each statement is sent
when the one before has been answered: a transaction whose connection was lost holds the row until the server ends it,
and so cannot take effect after a later one. Each read is one statement, and so sees one checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgpack

from tupletree._stores.postgres import PostgresAddress
from tupletree.context import TopologyContext
from tupletree.errors import UsageError
from tupletree.state.buffered import BufferedState, Changes, not_prepared, superseded
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.options import parsed
from tupletree.state.postgres_reader import PostgresReader
from tupletree.state.postgres_tables import FORMAT, Tables, check_format
from tupletree.state.reader import StateReader

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

R = TypeVar("R")
Status = tuple[int | None, int | None]
"""The committed checkpoint, and the prepared one."""

PAGE: Final = 1_000
CHUNK_BYTES = 1_000_000
"""The size from which on changes go into another chunk."""

REMOVED_AT_ONCE = 20_000
"""The number of entries that one statement of a removal deletes."""

CHANGES_PER_S: Final = 5_000
"""The rate at which changes are written at least; a slower server is given up."""

BYTES_PER_CHANGE: Final = 2_000
"""A change of this many bytes counts as one more, and so on."""

MAX_KEY: Final = 2_600
"""The maximum size of a key in bytes: an entry of an index must fit into a third of a page."""

MAX_BYTES: Final = 512 * 1024 * 1024
"""The maximum size of a key and its value: a row that is copied must fit into one message of 1 GB."""


class PostgresStateProvider(StateProvider):
    """States in a PostgreSQL server, 12 or newer. Needs ``pip install 'tupletree[postgres]'``.

    Configuration: ``url``: a connection string of libpq, for example ``postgresql://user@host:5432/database``;
    ``schema``: where the tables are, created with them if it does not exist; ``timeout_s``: how long to wait for a
    connection and for a lock. A call is given up after twice this time, and a second more for each 5,000 changes
    and each 10 MB.
    """

    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> KeyValueState[Any, Any]:
        options = parsed("postgres", conf)
        backend = PostgresBackend(namespace, options["url"], options["schema"], options["timeout_s"])
        return BufferedState(namespace, backend, cache_entries=options["cache_entries"])

    def remove_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> None:
        options = parsed("postgres", conf)
        tables = Tables(options["schema"])
        address, limit_s = _address(options["url"], options["timeout_s"]), 2 * options["timeout_s"]

        def use(work: Callable[[Connection], R]) -> R:
            return address.use(namespace, work, kind="state", limit_s=limit_s)

        if use(tables.exist):
            use(lambda connection: tables.disown(connection, namespace))
            while use(lambda connection: tables.delete_disowned(connection, REMOVED_AT_ONCE)):
                pass
        address.close()

    def open_reader(self, namespace: str, conf: Mapping[str, Any], topology_conf: Mapping[str, Any]) -> StateReader:
        options = parsed("postgres", conf)
        address = _address(options["url"], options["timeout_s"])
        return PostgresReader(namespace, address, Tables(options["schema"]), options["timeout_s"])


def _address(url: str, timeout_s: float) -> PostgresAddress:
    return PostgresAddress("PostgresStateProvider", url, timeout_s, _use_indexes)


def _use_indexes(connection: Connection) -> None:
    """Have all lookups made by the primary key, whatever the statistics of a table say that has just grown."""
    connection.execute(
        "SELECT set_config(name, 'off', false) "
        "FROM unnest(ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_sort']) AS name"
    )


class PostgresBackend:
    """The rows of one namespace."""

    def __init__(self, namespace: str, url: str, schema: str, timeout_s: float) -> None:
        self.committed: int | None = None
        self.prepared: int | None = None
        self._namespace = namespace
        self._address = _address(url, timeout_s)
        self._tables = Tables(schema)
        self._timeout_s = timeout_s
        self._changed = 0  # the size of what was prepared last
        self._id, self._owner = self._use(self._take_over)

    def get(self, key: bytes) -> bytes | None:
        statement = f"SELECT value FROM {self._tables.entries} WHERE state = %s AND key = %s"
        rows = self._rows(statement, [self._id, key])
        return rows[0][0] if rows else None

    def scan(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        statement = (
            f"SELECT key, value FROM {self._tables.entries} WHERE state = %s AND key > %s ORDER BY key LIMIT {PAGE}"
        )
        after = b""  # an encoded key is never empty
        while page := self._rows(statement, [self._id, after]):
            yield page
            after = page[-1][0]

    def prepare(self, txid: int, changes: Changes) -> None:
        kept = {key: value for key, value in changes.items() if value is not None or len(key) <= MAX_KEY}
        size = len(kept)
        for key, value in kept.items():
            self._check_size(len(key), len(value or b""))
            size += (len(key) + len(value or b"")) // BYTES_PER_CHANGE

        def work(connection: Connection) -> Status:
            self._discard_changes(connection)
            for number, chunk in enumerate(_chunks(kept)):
                connection.execute(
                    f"INSERT INTO {self._tables.changes} (state, chunk, entries) VALUES (%s, %s, %b)",
                    [self._id, number, chunk],
                )
            return self._set_status(connection, self.committed, txid, size)

        self._write(work, size + self._changed)
        self._changed = size

    def commit(self, txid: int) -> None:
        def work(connection: Connection) -> Status:
            if self.committed == txid:
                return self.committed, self.prepared
            if self.prepared != txid:
                raise not_prepared(self._namespace, txid)
            statement = f"SELECT entries FROM {self._tables.changes} WHERE state = %s ORDER BY chunk"
            for [chunk] in connection.execute(statement, [self._id], binary=True).fetchall():
                self._apply(connection, msgpack.unpackb(chunk))
            self._discard_changes(connection)
            return self._set_status(connection, txid, None, 0)

        self._write(work, self._changed)

    def rollback(self) -> None:
        def work(connection: Connection) -> Status:
            self._discard_changes(connection)
            return self._set_status(connection, self.committed, None, 0)

        self._write(work, self._changed)

    def close(self) -> None:
        self._address.close()

    def _check_size(self, key: int, value: int) -> None:
        if key > MAX_KEY:
            raise UsageError(
                f"state {self._namespace!r}: a key takes {key:,} bytes; PostgreSQL can index {MAX_KEY:,}: use a "
                f"digest of the key"
            )
        if key + value > MAX_BYTES:
            raise UsageError(
                f"state {self._namespace!r}: a key and its value take {key + value:,} bytes; the provider 'postgres' "
                f"allows {MAX_BYTES:,}"
            )

    def _apply(self, connection: Connection, entries: list[tuple[bytes, bytes | None]]) -> None:
        deleted = [key for key, value in entries if value is None]
        if deleted:
            statement = f"DELETE FROM {self._tables.entries} WHERE state = %s AND key = ANY(%b::bytea[])"
            connection.execute(statement, [self._id, deleted])
        put = [(key, value) for key, value in entries if value is not None]
        if put:
            connection.execute(
                f"INSERT INTO {self._tables.entries} (state, key, value) "
                f"SELECT %s, key, value FROM unnest(%b::bytea[], %b::bytea[]) AS given (key, value) "
                f"ON CONFLICT (state, key) DO UPDATE SET value = excluded.value",
                [self._id, *map(list, zip(*put, strict=True))],
            )

    def _discard_changes(self, connection: Connection) -> None:
        connection.execute(f"DELETE FROM {self._tables.changes} WHERE state = %s", [self._id])

    def _set_status(self, connection: Connection, committed: int | None, prepared: int | None, changed: int) -> Status:
        connection.execute(
            f"UPDATE {self._tables.states} SET committed = %s, prepared = %s, changed = %s WHERE id = %s",
            [committed, prepared, changed, self._id],
        )
        return committed, prepared

    def _write(self, work: Callable[[Connection], Status], changes: int) -> None:
        """Run ``work`` in a transaction as the namespace's owner, with the attributes as they are stored."""

        def as_owner(connection: Connection) -> Status:
            with connection.transaction():
                row = connection.execute(
                    f"SELECT owner, committed, prepared FROM {self._tables.states} WHERE id = %s FOR UPDATE",
                    [self._id],
                ).fetchone()
                if row is None or row[0] != self._owner:
                    raise superseded(self._namespace)
                _, self.committed, self.prepared = row
                return work(connection)

        self.committed, self.prepared = self._use(as_owner, changes)

    def _take_over(self, connection: Connection) -> tuple[int, int]:
        """Become the only writer; return the id of the state, and the owner number."""
        if not self._tables.exist(connection):
            self._tables.make(connection)
        with connection.transaction():
            row = connection.execute(
                f"INSERT INTO {self._tables.states} AS s (name, format, owner, changed) VALUES (%s, {FORMAT}, 1, 0) "
                f"ON CONFLICT (name) DO UPDATE SET owner = s.owner + 1 "
                f"RETURNING id, owner, format, committed, prepared, changed",
                [self._namespace],
            ).fetchone()
            assert row is not None
            id, owner, format, self.committed, self.prepared, self._changed = row
            check_format(self._address.where, self._namespace, format)
        return id, owner

    def _rows(self, statement: str, arguments: list[Any]) -> list[tuple[Any, ...]]:
        return self._use(lambda connection: connection.execute(statement, arguments, binary=True).fetchall())

    def _use(self, work: Callable[[Connection], R], changes: int = 0) -> R:
        limit_s = 2 * self._timeout_s + changes / CHANGES_PER_S
        return self._address.use(self._namespace, work, kind="state", limit_s=limit_s)


def _chunks(changes: Changes) -> Iterator[bytes]:
    """Pack changes into chunks of [key, value] pairs; None for the value of a deleted key."""
    chunk: list[tuple[bytes, bytes | None]] = []
    size = 0
    for key, value in changes.items():
        chunk.append((key, value))
        size += len(key) + len(value or b"")
        if size >= CHUNK_BYTES:
            yield msgpack.packb(chunk)
            chunk, size = [], 0
    if chunk:
        yield msgpack.packb(chunk)
