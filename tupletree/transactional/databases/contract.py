"""Database contract of TransactionalMap and OpaqueMap: apply a decision about some rows atomically.

The rule that makes an update take effect once is not part of the database (see rules.py). The database gets the rule as
a function that reads stored rows and returns changes. The database does these reads and writes the changes in one
transaction, isolated from every other transaction on the same table.
"""

from __future__ import annotations  # pure

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tupletree.attempt import TransactionAttempt

JsonValue = Any
"""A value that JSON can represent: None, bool, int, float, str, list, dict with string keys."""


Key = str | tuple[str | int, ...]
"""A key of a map. A database has it as text (encoding.py)."""


@dataclass(frozen=True, slots=True)
class Row:
    """A value and the transaction that last changed it.

    ``previous``: the value before that transaction, for the opaque rule. ``has_previous``: false if the row did not
    exist before that transaction, or if the rule in use keeps no previous value.
    """

    txid: int
    value: JsonValue
    previous: JsonValue = None
    has_previous: bool = False


class View(Protocol):
    """A view of a table, for the reads of a decision. A decision is written only if all its reads are consistent."""

    def mark(self) -> TransactionAttempt | None:
        """Return the newest attempt that has changed the table, if decisions keep a mark."""

    def rows(self, keys: Collection[str]) -> Mapping[str, Row]:
        """Return the stored rows of the keys."""

    def rows_of(self, txid: int) -> Mapping[str, Row]:
        """Return every row that was last changed by a transaction."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The result of a decision: rows to put, keys to delete, and the new mark (None to keep the mark)."""

    puts: Mapping[str, Row] = field(default_factory=dict)
    deletes: Collection[str] = ()
    mark: TransactionAttempt | None = None


class Database(ABC):
    """Tables of rows by string key.

    A Database can be copied to tasks. Pickles and deep copies keep the address but not the connection, which is opened
    on first use and shared by the copies within one process. A table is created on first use.

    Every method raises UnavailableError if the database cannot be reached or gives up (a lock that is not freed, a full
    disk). The call can be repeated, because the rules make all updates idempotent. Every method raises UsageError for
    an invalid table name (encoding.py), for a value that JSON cannot represent, and for a table that a newer version of
    Tupletree or another program has created.
    """

    @abstractmethod
    def apply(self, table: str, decide: Callable[[View], Changes]) -> Changes:
        """Run ``decide``, write the changes that it returns atomically and durably, and return them.

        ``decide`` is pure: it runs again after a conflict with a concurrent change. Its exceptions are passed on, and
        then nothing is written.
        """

    @abstractmethod
    def read(self, table: str, keys: Collection[str] | None = None) -> dict[str, Row]:
        """Return the stored rows of the keys, or the whole table if ``keys`` is None."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. It is reopened when needed."""
