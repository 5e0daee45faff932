"""Connections to SQLite files: opening with a write-ahead log, a pool per process, and detection of replaced files."""

from __future__ import annotations

import functools
import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tupletree._stores.pool import Connections
from tupletree.errors import UnavailableError

R = TypeVar("R")

_BUSY_PAUSE_S = 0.01

Prepare = Callable[[sqlite3.Connection], object]
"""Prepares a new connection: creates tables and functions that do not exist. Repeated while the file is busy."""


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """An SQLite file and its pool of connections, which equal objects of one process share.

    The file and its directory are created if they do not exist. Every committed change survives a crash of the machine.
    """

    path: str
    busy_timeout_s: float
    prepare: Prepare

    def use(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Run ``work`` with a connection that nobody else uses meanwhile. If ``work`` fails, it is rolled back.

        Raises:
            UnavailableError: the file cannot be opened, or was deleted or replaced since this process opened it.
        """
        try:
            _file_in_use(self.path, os.getpid()).check()
            return self._connections().use(work)
        except OSError as error:
            raise UnavailableError(f"{self.path}: {error}") from error

    def close(self) -> None:
        """Close idle connections. They are opened again when needed."""
        self._connections().close()

    def _connections(self) -> Connections[sqlite3.Connection]:
        return _connections(self, os.getpid())


class WatchedFile:
    """The identity of a file that was opened, to detect another file of the same name. SQLite itself does not."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: tuple[int, int] | None = None

    def check(self) -> None:
        """Raise UnavailableError if the file is gone or replaced. Call this before using or opening a connection."""
        if self._known is not None and self._identity() != self._known:
            raise UnavailableError(
                f"{self._path} was deleted or replaced while it was in use: put it back; or kill the topology, forget "
                f"its progress and start again with a new file"
            )

    def opened(self) -> None:
        """Record that a connection was opened."""
        self._known = self._known or self._identity()

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino


def connect(
    path: str, busy_timeout_s: float, *, synchronous: str = "full", prepare: Prepare | None = None
) -> sqlite3.Connection:
    """Open a connection in autocommit mode to a file with a write-ahead log.

    Raises OSError if the directory cannot be created, sqlite3.DatabaseError if the file cannot be used.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False)
    deadline = time.monotonic() + busy_timeout_s
    while True:
        try:
            # If two processes create the file at the same time, one can get SQLITE_BUSY without any wait.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {synchronous.upper()}")
            if prepare is not None:
                prepare(connection)
            return connection
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                connection.close()
                raise
            time.sleep(_BUSY_PAUSE_S)


@functools.cache
def _file_in_use(path: str, process: int) -> WatchedFile:
    """Return the record of the file that a process uses."""
    return WatchedFile(path)


@functools.cache
def _connections(file: SqliteFile, process: int) -> Connections[sqlite3.Connection]:
    def opened() -> sqlite3.Connection:
        connection = connect(file.path, file.busy_timeout_s, prepare=file.prepare)
        _file_in_use(file.path, process).opened()
        return connection

    return Connections(opened)
