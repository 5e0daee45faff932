"""Reader of a state in an SQLite file (sqlite.py has the tables), open for reading only.

While a task has the file open, there is a write-ahead log beside it. Each call is one statement, which sees one
checkpoint: a reader and the writer do not wait for each other.

Without a log nobody has the file open, and its content is whole. It is then read as a file that does not change, so
that no log is created, which the next writer, perhaps of another user, would find. Afterwards the reader checks that
the file has not changed and that there is no log still.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import quote

from tupletree.errors import UnavailableError, UsageError
from tupletree.state.reader import Entries, StateReader, bounded

R = TypeVar("R")

_TRIES: Final = 3


class SqliteReader(StateReader):
    """The committed values of one file; empty if there is no file. Opens the file anew for each call."""

    def __init__(self, namespace: str, path: str, busy_timeout_s: float, newest_format: int) -> None:
        self._namespace = namespace
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._newest_format = newest_format

    @property
    def committed(self) -> int | None:
        def read(connection: sqlite3.Connection) -> int | None:
            row = connection.execute("SELECT committed FROM namespace").fetchone()
            return None if row is None else row[0]

        return self._use(read, None)

    def get(self, key: bytes) -> bytes | None:
        def read(connection: sqlite3.Connection) -> bytes | None:
            row = connection.execute("SELECT value FROM entries WHERE key = ?", [key]).fetchone()
            return None if row is None else row[0]

        return self._use(read, None)

    def scan(self, after: bytes, limit: int, max_bytes: int) -> Entries:
        def read(connection: sqlite3.Connection) -> Entries:
            rows = connection.execute("SELECT key, value FROM entries WHERE key > ? ORDER BY key", [after])
            return bounded(rows, limit, max_bytes)

        return self._use(read, [])

    def _use(self, read: Callable[[sqlite3.Connection], R], nothing: R) -> R:
        with self._translated():
            for _ in range(_TRIES):
                if not os.path.exists(self._path):
                    return nothing
                before = self._static_content()
                try:
                    with closing(self._opened(before is not None)) as connection:
                        found = read(connection) if self._is_filled(connection) else nothing
                except sqlite3.DatabaseError:
                    if before == self._static_content():
                        raise
                    continue
                if before is None or before == self._static_content():
                    return found
        raise UnavailableError(f"{self._path} is being opened by its task; repeat the request")

    def _static_content(self) -> tuple[int, int, int] | None:
        """Return what changes with the content of a file that nobody has open; None if there is a log."""
        if os.path.exists(f"{self._path}-wal"):
            return None
        found = os.stat(self._path)
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _opened(self, is_static: bool) -> sqlite3.Connection:
        uri = f"file:{quote(self._path)}?mode=ro{'&immutable=1' if is_static else ''}"
        return sqlite3.connect(uri, timeout=self._busy_timeout_s, isolation_level=None, uri=True)

    def _is_filled(self, connection: sqlite3.Connection) -> bool:
        """Check format and name of the file; return False if its task has not filled it yet."""
        tables: Any = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'namespace'").fetchone()
        found = connection.execute("SELECT format, name FROM namespace").fetchone() if tables[0] else None
        if found is None:
            return False
        if found[0] > self._newest_format:
            raise UsageError(
                f"{self._path} has format {found[0]}, and this version of Tupletree knows formats up to "
                f"{self._newest_format}: a newer version has written it"
            )
        if found[1] != self._namespace:
            raise UsageError(f"{self._path} holds the state {found[1]!r}, not {self._namespace!r}")
        return True

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
                raise UsageError(f"{self._path} is not an SQLite file") from error
            raise UnavailableError(f"{self._path}: {error}") from error
        except OSError as error:
            raise UnavailableError(f"{self._path}: {error}") from error
