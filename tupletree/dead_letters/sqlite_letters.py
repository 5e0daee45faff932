"""Dead letters in an SQLite file of one machine."""

from __future__ import annotations

import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final, TypeVar
from urllib.parse import quote

from tupletree.dead_letters.letter import FIELDS, Letter
from tupletree.dead_letters.store import Damaged, DeadLetterStore, Position
from tupletree.errors import ProtocolError, UnavailableError

R = TypeVar("R")

_BUSY_S: Final = 10.0
_STEPS: Final = 10_000  # of SQLite's machine between two looks at the clock
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS letters (id TEXT PRIMARY KEY, name TEXT NOT NULL, at_s REAL NOT NULL, message TEXT, "
    '"values" TEXT, stream TEXT, attempts INTEGER, component TEXT, task INTEGER, error TEXT, traceback TEXT, '
    "row BLOB NOT NULL, is_replayed INTEGER NOT NULL)"
)
_INDEX: Final = "CREATE INDEX IF NOT EXISTS letters_in_order ON letters (at_s, id)"
_REPLAYED: Final = "CREATE INDEX IF NOT EXISTS letters_replayed ON letters (at_s, id) WHERE is_replayed = 1"
_COLUMNS: Final = tuple(f'"{name}"' for name in FIELDS)  # "values" is a word of SQL
_ALL: Final = ", ".join(_COLUMNS)
# A number rather than a parameter: SQLite uses the index of replayed letters for a query that has its condition.
_CHOSEN: Final = {
    replayed: "(? = '' OR name = ?)" + ("" if replayed is None else f" AND is_replayed = {replayed:d}")
    for replayed in (None, False, True)
}
_WITHOUT_ROW: Final = _ALL.replace('"row"', "x''")


class SqliteLetters(DeadLetterStore):
    """Letters in a file, which the first write makes. The file is opened for each call: letters are rare."""

    def __init__(self, path: str, timeout_s: float | None = None) -> None:
        self._path = os.path.abspath(path)
        self._timeout_s = timeout_s

    def add(self, letters: Sequence[Letter]) -> None:
        marks = ", ".join("?" * len(FIELDS))
        changed = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in ('"id"', '"at_s"'))
        statement = f"INSERT INTO letters ({_ALL}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {changed}"
        rows = [letter.stored() for letter in letters]

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute(_TABLE)
            connection.execute(_INDEX)
            connection.execute(_REPLAYED)
            connection.executemany(statement, rows)

        self._reached(lambda: os.makedirs(os.path.dirname(self._path), exist_ok=True))
        self._reached(lambda: self._run(insert, "rwc"))

    def count(self) -> int | None:
        return self._if_there(lambda one: int(one.execute("SELECT count(*) FROM letters").fetchone()[0]), None)

    def letters(
        self,
        name: str = "",
        *,
        replayed: bool | None = None,
        limit: int = 1000,
        newest: bool = False,
        after: Position | None = None,
        rows: bool = True,
        damaged: Damaged | None = None,
    ) -> list[Letter]:
        order, follows = ("DESC", "<") if newest else ("ASC", ">")
        at_s, id = (None, None) if after is None else after
        table = "letters INDEXED BY letters_replayed" if replayed else "letters"
        statement = (
            f"SELECT {_ALL if rows else _WITHOUT_ROW} FROM {table} WHERE {_CHOSEN[replayed]} "
            f"AND (? IS NULL OR (at_s, id) {follows} (?, ?)) ORDER BY at_s {order}, id {order}"
        )

        def read(connection: sqlite3.Connection) -> list[Letter]:
            if replayed:
                connection.execute(_REPLAYED)  # an earlier version has made the file
            found = connection.execute(statement, (name, name, at_s, at_s, id))
            return list(itertools.islice(self._whole(found, damaged), limit))

        return self._if_there(read, [])

    def find(self, id: str) -> Letter | None:
        statement = f"SELECT {_WITHOUT_ROW} FROM letters WHERE id = ?"
        row: tuple[Any, ...] | None = self._if_there(lambda one: one.execute(statement, (id,)).fetchone(), None)
        return None if row is None else self._letter(row)

    def ids(
        self, name: str = "", *, replayed: bool | None = None, until_s: float | None = None, limit: int = 1000
    ) -> list[str]:
        statement = (
            f"SELECT id FROM letters WHERE {_CHOSEN[replayed]} AND (? IS NULL OR at_s <= ?) ORDER BY at_s, id LIMIT ?"
        )
        values = (name, name, until_s, until_s, limit)
        found: list[tuple[str]] = self._if_there(lambda one: one.execute(statement, values).fetchall(), [])
        return [id for (id,) in found]

    def replay(self, ids: Iterable[str]) -> None:
        self._change("UPDATE letters SET is_replayed = 1 WHERE id = ?", ids)

    def remove(self, ids: Iterable[str]) -> None:
        self._change("DELETE FROM letters WHERE id = ?", ids)

    def _change(self, statement: str, ids: Iterable[str]) -> None:
        values = [(one,) for one in ids]
        self._if_there(lambda one: one.executemany(statement, values), None)

    def _if_there(self, work: Callable[[sqlite3.Connection], R], otherwise: R) -> R:
        """Do work in one transaction, or return ``otherwise`` if there is no file, or none with letters."""

        def checked(connection: sqlite3.Connection) -> R:
            tables = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'letters'")
            return work(connection) if tables.fetchone() else otherwise

        def read() -> R:
            try:
                os.stat(self._path)
            except FileNotFoundError:
                return otherwise
            return self._run(checked, "rw")

        return self._reached(read)

    def _run(self, work: Callable[[sqlite3.Connection], R], mode: str) -> R:
        where = f"file:{quote(self._path)}?mode={mode}"
        busy_s = _BUSY_S if self._timeout_s is None else self._timeout_s
        with closing(sqlite3.connect(where, timeout=busy_s, uri=True)) as connection:
            if self._timeout_s is not None:
                ends_s = time.monotonic() + self._timeout_s
                connection.set_progress_handler(lambda: time.monotonic() > ends_s, _STEPS)
            connection.execute("PRAGMA synchronous = FULL")
            with connection:
                return work(connection)

    def _reached(self, work: Callable[[], R]) -> R:
        try:
            return work()
        except (sqlite3.Error, OSError) as error:
            why = f"no answer within {self._timeout_s:g} s" if str(error) == "interrupted" else error
            raise UnavailableError(f"dead letters in {self._path}: {why}") from error

    def _whole(self, rows: Iterable[tuple[Any, ...]], damaged: Damaged | None) -> Iterator[Letter]:
        """Yield the letters, and hand over the entries that are none."""
        for row in rows:
            try:
                letter = self._letter(row)
            except ProtocolError as error:
                if damaged is None:
                    raise
                damaged(str(row[0]), error)
            else:
                yield letter

    def _letter(self, row: tuple[Any, ...]) -> Letter:
        try:
            return Letter.from_stored(row)
        except ProtocolError as error:
            raise ProtocolError(f"dead letters in {self._path}: the entry {str(row[0])[:40]!r}: {error}") from error
