"""Contract of transactional sinks: rows written once per transaction, whatever crashes.

Every sink writes the rows of a transaction and a note of the transaction atomically. Asked again after a crash, the
sink finds its note. So a caller that does not know the end of a commit repeats it.

**Rules.** A sink has one note for each owner. ``(n, a)`` is the newest transaction and attempt that an owner has
committed. The owners of one table have disjoint keys.

    commit by the owner of        transactional rule             opaque rule
    a later transaction           writes, notes                  writes, notes
    n, the same attempt           does nothing                   does nothing
    n, another attempt            does nothing                   newer: takes back what a has written, writes, notes;
                                                                 older: StaleAttemptError
    an earlier transaction        StaleAttemptError              StaleAttemptError

The rules are argued in tupletree/transactional/rules.py. Under the transactional rule all attempts at a transaction
have the same rows.
"""

from __future__ import annotations  # pure

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError

Row = Sequence[Any]
"""The values of a sink's fields, in their order."""


class TransactionalSink(ABC):
    """A table, or something like one, as one task uses it. Made where the topology is built, and pickled.

    All calls come from one thread at a time. ``open`` is the first call, except for ``faults`` and ``write``.

    Errors of ``commit`` and ``write``: UnavailableError if the system is away or gives up; repeat the call. UsageError
    if the system refuses a row or the table; nothing of the call is written.

    Attributes:
        title: the name of the system, for messages to people.
        fields: the names of a row's values. A bolt takes the fields of these names from each tuple.
        key_fields: the fields by which a row replaces an earlier row; rows of one key must come through one task.
        gathers: the number of rows, and of seconds, that RowSinkBolt gathers for a ``write``; None: its own bounds.
        opaque_refusal: why the sink refuses the opaque rule; "" if it does not.
    """

    title: ClassVar[str] = "sink"
    fields: Sequence[str]
    key_fields: Sequence[str] = ()
    gathers: tuple[int, float] | None = None
    opaque_refusal: ClassVar[str] = ""

    @property
    @abstractmethod
    def target(self) -> str:
        """The place of the rows, for messages to people, without a password."""

    @abstractmethod
    def open(self, owner: str, *, is_opaque: bool = False) -> None:
        """Prepare to commit as an owner. Called again, by each new life of the owner.

        ``owner``: the id whose note is found again; a later life has the same id. ``is_opaque``: the opaque rule, for
        transactions whose attempts can have different rows. Does not connect.
        """

    def faults(self, rows: Sequence[Row]) -> Mapping[int, UsageError]:
        """Return the errors of rows that can never be stored, by index. Each names the field and the value.

        A row without a fault can be refused by the system nevertheless, as by a constraint of a table.
        """
        return {}

    @abstractmethod
    def commit(self, attempt: TransactionAttempt, rows: Sequence[Row]) -> None:
        """Write rows and the note of their transaction atomically and durably, or find the note and do nothing.

        Commit transactions in their order. Under the opaque rule commit each, also one without rows.

        Raises:
            StaleAttemptError: the owner has committed a later transaction or a newer attempt. Nothing is written.
            UnavailableError: the system is away. The rows are possibly written: repeat the call.
            UsageError: the system refuses a row or the table. Nothing is written.
        """

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows without a note: at least once. Raises the errors of ``commit``, except StaleAttemptError.

        Without rows, a UsageError means that the table is refused, and not a row: as by a missing column or right.
        """
        raise UsageError(f"{self.title}: {self.target} can be written in transactions alone")

    @abstractmethod
    def close(self) -> None:
        """Disconnect. A later call connects again. Never raises."""


def faults_of(store: Callable[[Sequence[Row]], Any], rows: Sequence[Row]) -> Mapping[int, UsageError]:
    """Return the errors of rows for which ``store``, given a row alone, raises UsageError, by index."""
    try:
        store(rows)
    except UsageError:
        return {index: fault for index, row in enumerate(rows) if (fault := _fault(store, row)) is not None}
    return {}


def _fault(store: Callable[[Sequence[Row]], Any], row: Row) -> UsageError | None:
    try:
        store([row])
    except UsageError as error:
        return error
    return None


def check_lengths(user: str, fields: Sequence[str], rows: Sequence[Row]) -> None:
    """Raise UsageError, which names the class ``user``, for a row that has not one value for each field."""
    if any(len(row) != len(fields) for row in rows):
        raise UsageError(f"{user}: a row has {len(fields)} values, those of {', '.join(fields)}")
