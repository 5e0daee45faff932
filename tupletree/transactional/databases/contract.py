"""What a database must do for TransactionalMap and OpaqueMap: apply a decision about some rows atomically.

The rule that makes an update count once is not the database's business (rules.py has it): it is handed over as a
function from what is stored to what is to be changed. A database reads for it, and writes what it returns, in one
transaction that is isolated from every other on the same table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tupletree.attempt import TransactionAttempt

JsonValue = Any
"""What JSON can carry: None, bool, int, float, str, list, dict with string keys."""


@dataclass(frozen=True, slots=True)
class Row:
    """A value and the transaction that it was last changed by.

    ``previous``: the value before that transaction, for the opaque rule. ``has_previous`` False: there was none, the
    row did not exist (or the rule in use keeps no previous value).
    """

    txid: int
    value: JsonValue
    previous: JsonValue = None
    has_previous: bool = False


class View(Protocol):
    """What a decision may read, all as of one moment."""

    def mark(self) -> TransactionAttempt | None:
        """The newest attempt that the table was changed by, if decisions keep a mark."""

    def rows(self, keys: Collection[str]) -> Mapping[str, Row]:
        """Those of the keys that are stored."""

    def rows_of(self, txid: int) -> Mapping[str, Row]:
        """Every row whose last change was by that transaction."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a decision wants: rows to put, keys to delete, and the new mark (None: leave it)."""

    puts: Mapping[str, Row] = field(default_factory=dict)
    deletes: Collection[str] = ()
    mark: TransactionAttempt | None = None


class Database(ABC):
    """Tables of rows by string key.

    An object of this class may be copied to tasks: pickling and deep copies keep the address, not the connection, which
    is opened on first use; copies within one process share it. A table is created on first use.

    Raises, from every method: UnavailableError if the database cannot be reached or gives up (a lock that is not freed,
    a full disk); the caller may try again, everything here is idempotent through the rules. UsageError for a table name
    that is none (encoding.py), a value that JSON does not carry, and a table that a newer version of Tupletree, or
    something else, has made.
    """

    @abstractmethod
    def apply(self, table: str, decide: Callable[[View], Changes]) -> Changes:
        """Run ``decide`` and write what it returns, atomically and durably; return it.

        ``decide`` is pure and may be run several times, where a concurrent change was met. What it raises is passed on
        and nothing is written.
        """

    @abstractmethod
    def read(self, table: str, keys: Collection[str] | None = None) -> dict[str, Row]:
        """Those of the keys that are stored; without keys the whole table."""

    @abstractmethod
    def close(self) -> None:
        """Give the connection up. It is opened again if it is needed."""
