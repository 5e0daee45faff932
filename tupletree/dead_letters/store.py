"""Stores of dead letters: an SQLite file, or Redis."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode

from tupletree._stores.redis import RedisAddress
from tupletree._wire.codec import decode_value, encode_value
from tupletree.dead_letters.letter import Letter
from tupletree.errors import UnavailableError, UsageError

R = TypeVar("R")

_BUSY_S: Final = 10.0
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS letters (id TEXT PRIMARY KEY, name TEXT NOT NULL, at_s REAL NOT NULL, message TEXT, "
    '"values" TEXT, stream TEXT, attempts INTEGER, component TEXT, task INTEGER, error TEXT, traceback TEXT, '
    "row BLOB NOT NULL, is_replayed INTEGER NOT NULL)"
)
_FIELDS: Final = tuple(field.name for field in dataclasses.fields(Letter))
_COLUMNS: Final = tuple(f'"{name}"' for name in _FIELDS)  # "values" is a word of SQL


class DeadLetterStore(ABC):
    """Letters by id. Every method can raise UnavailableError; a write then happened or did not, and can be repeated."""

    @abstractmethod
    def add(self, letters: Sequence[Letter]) -> None:
        """Store letters durably, all or none. A letter stored before keeps its time, and loses its mark for replay."""

    @abstractmethod
    def letters(self, name: str = "", *, replayed: bool | None = None, limit: int = 1000) -> list[Letter]:
        """Return the oldest letters of a topology ("" for all). ``replayed``: only marked or only unmarked letters."""

    @abstractmethod
    def replay(self, ids: Iterable[str]) -> None:
        """Mark letters for a DeadLetterSpout. Unknown ids are skipped."""

    @abstractmethod
    def remove(self, ids: Iterable[str]) -> None:
        """Remove letters. Unknown ids are skipped."""


def open_store(url: str) -> DeadLetterStore:
    """Return the store at ``sqlite:PATH`` or ``redis://HOST:PORT/DB?prefix=NAME``.

    Raises:
        UsageError: the URL is neither.
    """
    if url.startswith("sqlite:") and url.removeprefix("sqlite:").strip("/"):
        return SqliteLetters(url.removeprefix("sqlite:"))
    if url.startswith(("redis://", "rediss://", "unix://")):
        return RedisLetters(url)
    raise UsageError(f"a store of dead letters is sqlite:PATH or redis://HOST:PORT/DB, not {url!r}")


class SqliteLetters(DeadLetterStore):
    """Letters in a file of one machine."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)

    def add(self, letters: Sequence[Letter]) -> None:
        columns = ", ".join(_COLUMNS)
        marks = ", ".join("?" * len(_FIELDS))
        changed = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in ('"id"', '"at_s"'))
        statement = f"INSERT INTO letters ({columns}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {changed}"
        self._run(lambda connection: connection.executemany(statement, map(_values, letters)))

    def letters(self, name: str = "", *, replayed: bool | None = None, limit: int = 1000) -> list[Letter]:
        statement = (
            f"SELECT {', '.join(_COLUMNS)} FROM letters WHERE (? = '' OR name = ?) AND (? IS NULL OR is_replayed = ?) "
            f"ORDER BY at_s, id LIMIT ?"
        )
        rows = self._run(lambda one: one.execute(statement, (name, name, replayed, replayed, limit)).fetchall())
        return [dataclasses.replace(_of(row), is_replayed=bool(row[-1])) for row in rows]

    def replay(self, ids: Iterable[str]) -> None:
        pairs = [(one,) for one in ids]
        self._run(lambda connection: connection.executemany("UPDATE letters SET is_replayed = 1 WHERE id = ?", pairs))

    def remove(self, ids: Iterable[str]) -> None:
        pairs = [(one,) for one in ids]
        self._run(lambda connection: connection.executemany("DELETE FROM letters WHERE id = ?", pairs))

    def _run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Do work in one transaction. The file is opened for each transaction: letters are rare."""
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=_BUSY_S)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(_TABLE)
                with connection:
                    return work(connection)
        except (sqlite3.Error, OSError) as error:
            raise UnavailableError(f"dead letters in {self._path}: {error}") from error


class RedisLetters(DeadLetterStore):
    """Letters in Redis 5 or newer: a hash of letters by id. The URL's query can set the ``prefix`` of its key."""

    def __init__(self, url: str) -> None:
        address, _, query = url.partition("?")
        options = dict(parse_qsl(query))
        self._key = f"{options.pop('prefix', 'tupletree')}:dead-letters"
        own = f"{address}?{urlencode(options)}" if options else address
        self._address = RedisAddress("a store of dead letters", own, _BUSY_S)

    def add(self, letters: Sequence[Letter]) -> None:
        with self._address.client() as redis:
            known = redis.hmget(self._key, [letter.id for letter in letters]) if letters else []
            found = [
                letter if old is None else dataclasses.replace(letter, at_s=_letter(old).at_s)
                for letter, old in zip(letters, known, strict=True)
            ]
            if found:
                redis.hset(self._key, mapping={letter.id: encode_value(_values(letter)) for letter in found})

    def letters(self, name: str = "", *, replayed: bool | None = None, limit: int = 1000) -> list[Letter]:
        with self._address.client() as redis:
            found = [_letter(data) for _, data in redis.hscan_iter(self._key, count=500)]
        kept = [one for one in found if name in ("", one.name) and replayed in (None, one.is_replayed)]
        return sorted(kept, key=lambda letter: (letter.at_s, letter.id))[:limit]

    def replay(self, ids: Iterable[str]) -> None:
        with self._address.client() as redis:
            for one in ids:
                data = redis.hget(self._key, one)
                if data is not None:
                    letter = dataclasses.replace(_letter(data), is_replayed=True)
                    redis.hset(self._key, one, encode_value(_values(letter)))

    def remove(self, ids: Iterable[str]) -> None:
        found = list(ids)
        with self._address.client() as redis:
            if found:
                redis.hdel(self._key, *found)


def _values(letter: Letter) -> list[Any]:
    return [getattr(letter, name) for name in _FIELDS]


def _letter(data: bytes) -> Letter:
    return _of(decode_value(data))


def _of(values: Sequence[Any]) -> Letter:
    return Letter(**dict(zip(_FIELDS, values, strict=True)))
