"""Tables in this process, for tests, simulation and experiments."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError
from tupletree.transactional.databases.contract import Changes, Database, Row, View
from tupletree.transactional.databases.encoding import check_table, decode, encode

_databases: dict[str, MemoryDatabase] = {}
"""The databases that were pickled, by token."""


class MemoryDatabase(Database):
    """Tables that last as long as this process. Copies share the tables, and so do pickles within this process.

    Values are stored as JSON, so a value that another database refuses is refused here too.
    """

    def __init__(self) -> None:
        self._token = uuid.uuid4().hex
        self._tables: dict[str, _Table] = {}
        self._lock = threading.RLock()

    def apply(self, table: str, decide: Callable[[View], Changes]) -> Changes:
        with self._lock:
            stored = self._tables.setdefault(check_table(table), _Table())
            changes = decide(stored)
            puts = {key: _encoded(table, key, row) for key, row in changes.puts.items()}
            for key in changes.deletes:
                stored.stored.pop(key, None)
            stored.stored.update(puts)
            stored.newest = changes.mark or stored.newest
            return changes

    def read(self, table: str, keys: Collection[str] | None = None) -> dict[str, Row]:
        with self._lock:
            stored = self._tables.get(check_table(table), _Table())
            return dict(stored.rows(stored.stored.keys() if keys is None else keys))

    def close(self) -> None:
        """Do nothing: the tables stay."""

    def __copy__(self) -> MemoryDatabase:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> MemoryDatabase:
        return self

    def __reduce__(self) -> tuple[Callable[[str], MemoryDatabase], tuple[str]]:
        _databases[self._token] = self
        return _find, (self._token,)


def _find(token: str) -> MemoryDatabase:
    """Return the database that was pickled under a token."""
    if token not in _databases:
        raise UsageError("a MemoryDatabase works only in one process: use a SqliteDatabase, or a database server")
    return _databases[token]


@dataclass(slots=True)
class _Table:
    """Stored rows, with their values as JSON text. This is also the View passed to decisions."""

    stored: dict[str, Row] = field(default_factory=dict)
    newest: TransactionAttempt | None = None

    def mark(self) -> TransactionAttempt | None:
        return self.newest

    def rows(self, keys: Collection[str]) -> Mapping[str, Row]:
        return {key: _decoded(self.stored[key]) for key in keys if key in self.stored}

    def rows_of(self, txid: int) -> Mapping[str, Row]:
        return {key: _decoded(row) for key, row in self.stored.items() if row.txid == txid}


def _encoded(table: str, key: str, row: Row) -> Row:
    previous = encode(table, key, row.previous) if row.has_previous else None
    return Row(row.txid, encode(table, key, row.value), previous, row.has_previous)


def _decoded(row: Row) -> Row:
    return Row(row.txid, decode(row.value), decode(row.previous) if row.has_previous else None, row.has_previous)
