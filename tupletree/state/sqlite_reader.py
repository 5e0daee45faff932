"""Reader of a state in an SQLite file (sqlite.py has the tables), open for reading only.

While a task has the file open, there is a write-ahead log beside it. Each call is one statement, which sees one
checkpoint: a reader and the writer do not wait for each other.

Without a log nobody has the file open, and its content is whole. It is then read as a file that does not change, so
that no log is created, which the next writer, perhaps of another user, would find. Afterwards the reader checks that
the file has not changed and that there is no log still.

With a log the connection is kept between calls, as long as the file is the same one. Between calls it is in no
transaction, so it holds up neither commits nor the log's checkpoints.
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
from tupletree.state.sizes import MAX_LARGEST, MAX_LARGEST_KEY_BYTES, Counted, Known, LargeEntry

R = TypeVar("R")

_TRIES: Final = 3
_MAX_ROWS: Final = 500_000


class SqliteReader(StateReader):
    """The committed values of one file; empty if there is no file."""

    is_kept = True

    def __init__(self, namespace: str, path: str, busy_timeout_s: float, newest_format: int) -> None:
        self._namespace = namespace
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._newest_format = newest_format
        self._connection: sqlite3.Connection | None = None  # while there is a log
        self._inode = 0  # of the file of the connection

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

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

    def count(self) -> Counted:
        def read(connection: sqlite3.Connection) -> Counted:
            some = f"SELECT key, length(key) + length(value) AS size FROM entries LIMIT {_MAX_ROWS}"
            keys, size = connection.execute(f"SELECT count(*), coalesce(sum(size), 0) FROM ({some})").fetchone()
            largest = connection.execute(
                f"SELECT size, key FROM ({some}) WHERE length(key) <= {MAX_LARGEST_KEY_BYTES} "
                f"ORDER BY size DESC LIMIT {MAX_LARGEST}"
            )
            return Counted(keys, size, keys < _MAX_ROWS, tuple(LargeEntry(*row) for row in largest))

        return self._use(read, Counted(0, 0, True))

    def known(self) -> Known:
        """Return the bytes of the pages in use, which prepared changes share."""

        def read(connection: sqlite3.Connection) -> Known:
            pages, free, size = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            return Known(bytes=(pages - free) * size)

        return self._use(read, Known())

    def _use(self, read: Callable[[sqlite3.Connection], R], nothing: R) -> R:
        with self._translated():
            for _ in range(_TRIES):
                try:
                    inode, before = self._seen()
                except FileNotFoundError:
                    self.close()
                    return nothing
                try:
                    found = self._from_static(read, nothing) if before else self._from_live(inode, read, nothing)
                except sqlite3.DatabaseError:
                    self.close()
                    if before == self._seen()[1]:
                        raise
                    continue
                if before is None or before == self._seen()[1]:
                    return found
        raise UnavailableError(f"{self._path} is being opened by its task; repeat the request")

    def _from_live(self, inode: int, read: Callable[[sqlite3.Connection], R], nothing: R) -> R:
        """Read on the kept connection to a file with a log."""
        if self._connection is None or self._inode != inode:
            self.close()
            connection = self._opened(is_static=False)
            try:
                is_filled = self._is_filled(connection)
            except BaseException:
                connection.close()
                raise
            if not is_filled:
                connection.close()
                return nothing
            self._connection, self._inode = connection, inode
        return read(self._connection)

    def _from_static(self, read: Callable[[sqlite3.Connection], R], nothing: R) -> R:
        self.close()
        with closing(self._opened(is_static=True)) as connection:
            return read(connection) if self._is_filled(connection) else nothing

    def _seen(self) -> tuple[int, tuple[int, int, int] | None]:
        """Return the inode of the file, and what changes with the content of a file that nobody has open; None instead
        if there is a log. Raises FileNotFoundError if there is no file.
        """
        found = os.stat(self._path)
        if os.path.exists(f"{self._path}-wal"):
            return found.st_ino, None
        return found.st_ino, (found.st_ino, found.st_size, found.st_mtime_ns)

    def _opened(self, is_static: bool) -> sqlite3.Connection:
        uri = f"file:{quote(self._path)}?mode=ro{'&immutable=1' if is_static else ''}"
        timeout_s = self._busy_timeout_s
        return sqlite3.connect(uri, timeout=timeout_s, isolation_level=None, check_same_thread=False, uri=True)

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
