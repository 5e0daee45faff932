"""States in SQLite files in a directory, one file per namespace.

    namespace   format, name, owner, committed, prepared       one row; owner is the number of times it was opened
    entries     key, value                                     committed values
    changes     key, value                                     prepared changes; value NULL: the key is deleted

Every write is one ``BEGIN IMMEDIATE`` transaction that checks the owner first. The journal is a write-ahead log. With
``synchronous: full`` (the default) prepared and committed changes survive a crash of the machine. With
``synchronous: normal`` they survive a crash of the process, but a crash of the machine can lose the last checkpoints.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from tupletree._stores.sqlite import WatchedFile, connect
from tupletree.context import TopologyContext
from tupletree.errors import UnavailableError, UsageError
from tupletree.state.buffered import BufferedState, Changes, not_prepared, superseded
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.names import readable_name
from tupletree.state.options import parsed
from tupletree.state.reader import StateReader
from tupletree.state.sqlite_reader import SqliteReader

FORMAT: Final = 1
PAGE: Final = 1_000

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS namespace "
    "(format INTEGER NOT NULL, name TEXT NOT NULL, owner INTEGER NOT NULL, committed INTEGER, prepared INTEGER)",
    "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS changes (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID",
)


class SqliteStateProvider(StateProvider):
    """States in files of one machine, with nothing to install and nothing to start.

    Configuration: ``directory``: on a local disk, not on a network file system, created if it does not exist;
    ``synchronous``: ``full`` or ``normal``; ``busy_timeout_s``: how long to wait for another process that has locked a
    file.
    """

    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> KeyValueState[Any, Any]:
        options = parsed("sqlite", conf)
        path = path_of(namespace, options["directory"])
        backend = SqliteBackend(namespace, path, options["synchronous"], options["busy_timeout_s"])
        return BufferedState(namespace, backend, cache_entries=options["cache_entries"])

    def remove_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> None:
        options = parsed("sqlite", conf)
        path = path_of(namespace, options["directory"])
        try:
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.remove(path + suffix)
        except OSError as error:
            raise UnavailableError(f"{path}: {error}") from error

    def open_reader(self, namespace: str, conf: Mapping[str, Any], topology_conf: Mapping[str, Any]) -> StateReader:
        options = parsed("sqlite", conf)
        path = path_of(namespace, options["directory"])
        return SqliteReader(namespace, path, options["busy_timeout_s"], FORMAT)


def path_of(namespace: str, directory: str) -> str:
    """Return the absolute path of a namespace's file."""
    return os.path.join(os.path.abspath(directory), file_name(namespace))


def file_name(namespace: str) -> str:
    """Return the name of a namespace's file."""
    return f"{readable_name(namespace)}.db"


class SqliteBackend:
    """The file of one namespace."""

    def __init__(self, namespace: str, path: str, synchronous: str, busy_timeout_s: float) -> None:
        self.committed: int | None = None
        self.prepared: int | None = None
        self._namespace = namespace
        self._path = path
        with self._translated():
            self._connection = connect(path, busy_timeout_s, synchronous=synchronous)
            self._file = WatchedFile(path)
            self._file.opened()
            try:
                self._owner = self._take_over()
            except BaseException:
                self._connection.close()
                raise

    def get(self, key: bytes) -> bytes | None:
        with self._translated():
            self._file.check()
            row = self._connection.execute("SELECT value FROM entries WHERE key = ?", [key]).fetchone()
        return None if row is None else row[0]

    def scan(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        after = b""  # an encoded key is never empty
        while True:
            with self._translated():
                self._file.check()
                page = self._connection.execute(
                    "SELECT key, value FROM entries WHERE key > ? ORDER BY key LIMIT ?", [after, PAGE]
                ).fetchall()
            if not page:
                return
            yield page
            after = page[-1][0]

    def prepare(self, txid: int, changes: Changes) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM changes")
            self._connection.executemany("INSERT INTO changes (key, value) VALUES (?, ?)", changes.items())
            self._connection.execute("UPDATE namespace SET prepared = ?", [txid])

    def commit(self, txid: int) -> None:
        with self._transaction():
            if self.committed == txid:
                return
            if self.prepared != txid:
                raise not_prepared(self._namespace, txid)
            self._connection.execute("DELETE FROM entries WHERE key IN (SELECT key FROM changes WHERE value IS NULL)")
            self._connection.execute(
                "INSERT OR REPLACE INTO entries (key, value) SELECT key, value FROM changes WHERE value IS NOT NULL"
            )
            self._connection.execute("DELETE FROM changes")
            self._connection.execute("UPDATE namespace SET committed = ?, prepared = NULL", [txid])

    def rollback(self) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM changes")
            self._connection.execute("UPDATE namespace SET prepared = NULL")

    def close(self) -> None:
        with suppress(sqlite3.DatabaseError):  # a kept reader would leave changes in the log, beside the file
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run a transaction as the namespace's owner. It is rolled back if anything fails."""
        with self._translated():
            self._file.check()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                line = self._line()
                if line is None or line[0] != self._owner:
                    raise superseded(self._namespace)
                _, self.committed, self.prepared = line
                yield
                _, committed, prepared = self._line() or line
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self.committed, self.prepared = committed, prepared

    def _take_over(self) -> int:
        """Become the only writer and return the owner number."""
        self._connection.execute("BEGIN IMMEDIATE")
        for table in _TABLES:
            self._connection.execute(table)
        found = self._connection.execute("SELECT format, name FROM namespace").fetchone()
        if found is None:
            self._connection.execute(
                "INSERT INTO namespace (format, name, owner) VALUES (?, ?, 0)", [FORMAT, self._namespace]
            )
        elif found[0] > FORMAT:
            raise UsageError(
                f"{self._path} has format {found[0]}, and this version of Tupletree knows formats up to {FORMAT}: a "
                f"newer version has written it"
            )
        elif found[1] != self._namespace:
            raise UsageError(f"{self._path} holds the state {found[1]!r}, not {self._namespace!r}")
        self._connection.execute("UPDATE namespace SET owner = owner + 1")
        line = self._line()
        assert line is not None
        owner, self.committed, self.prepared = line
        self._connection.execute("COMMIT")
        return owner

    def _line(self) -> tuple[int, int | None, int | None] | None:
        line: tuple[int, int | None, int | None] | None = self._connection.execute(
            "SELECT owner, committed, prepared FROM namespace"
        ).fetchone()
        return line

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DataError, OverflowError) as error:
            raise UsageError(f"state {self._namespace!r}: a value is larger than SQLite allows: {error}") from error
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
                raise UsageError(f"{self._path} is not an SQLite file") from error
            raise UnavailableError(f"{self._path}: {error}") from error
        except OSError as error:
            raise UnavailableError(f"{self._path}: {error}") from error
