"""Tables of a lakehouse as sinks: rows are appended, and the note of their transaction in the same commit.

All writers of a table change one thing: the pointer to its newest version. A commit names the version that it was made
from, and is refused if that is the newest no more. The loop here is that of every writer: load the newest version, find
the note there, append, and restart if another writer was faster. So a note that was not there is still not there at the
commit, unless the commit is refused.
"""

from __future__ import annotations

import random
import re
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from tupletree._arrow import pa
from tupletree._sinks.sql_rules import Note, Step, decide
from tupletree.attempt import TransactionAttempt
from tupletree.backoff import Backoff
from tupletree.connectors.arguments import check_seconds
from tupletree.connectors.transactional_sink import Row, TransactionalSink, faults_of
from tupletree.connectors.typed_rows import Columns, TypedRows
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError

CONFLICTS: Final = Backoff(first_s=0.02, factor=2, max_s=2, max_attempts=None)
"""The pauses after commits that another writer has overtaken; each is halved at random, so that writers part."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_MAX_TEXT = 400


class OvertakenError(Exception):
    """A commit was refused, because another writer has committed since the table was loaded. Nothing is written."""


class LakeSink(TransactionalSink):
    """A table to which rows are appended. Subclasses know the kind of table. Not thread-safe."""

    opaque_refusal: ClassVar[str] = (
        "another attempt can have other rows, and rows that were appended are not taken back, since they may have been "
        "compacted with others"
    )

    def __init__(self, user: str, table: str, columns: Columns, timeout_s: float) -> None:
        check_seconds(user, "timeout_s", timeout_s)
        self._typed = TypedRows(user, columns)
        self.fields = self._typed.fields
        self._table = table
        self._timeout_s = timeout_s
        self._owner: str | None = None

    def open(self, owner: str, *, is_opaque: bool = False) -> None:
        """Prepare to commit as an owner. Raises UsageError for opaque transactions."""
        if is_opaque:
            raise UsageError(f"{self.target} cannot be written behind an opaque source: {self.opaque_refusal}")
        self._owner = owner

    def faults(self, rows: Sequence[Row]) -> Mapping[int, UsageError]:
        return faults_of(self.arrow, rows)

    def arrow(self, rows: Sequence[Row]) -> pa.Table:
        """Return rows as a table. UsageError, which names the value if there is one row, if a value does not fit."""
        return self._typed.table(self.target, rows)

    def commit(self, attempt: TransactionAttempt, rows: Sequence[Row]) -> None:
        assert self._owner is not None, "open comes first"
        self._append_once(self.arrow(rows), attempt)

    def write(self, rows: Sequence[Row]) -> None:
        self._append_once(self.arrow(rows), None)

    def _append_once(self, rows: pa.Table, attempt: TransactionAttempt | None) -> None:
        deadline_s, attempts = time.monotonic() + self._timeout_s, 0
        while True:
            try:
                self.load()
                if attempt is not None and not self._is_next(attempt):
                    return
                self.check()
                if rows.num_rows:
                    self.append(rows, self._owner or "", None if attempt is None else attempt.txid)
                return
            except OvertakenError as error:
                attempts += 1
                pause_s = CONFLICTS.pause_s(attempts) * random.uniform(0.5, 1)
                if time.monotonic() + pause_s > deadline_s:
                    raise UnavailableError(f"{self.target}: {error}") from error
                time.sleep(pause_s)
            except BaseException as error:
                if not isinstance(error, StaleAttemptError):
                    self.close()  # whatever the table's object has in memory, the next call loads the table
                raise

    def _is_next(self, attempt: TransactionAttempt) -> bool:
        """Return False if the transaction is written. Raises StaleAttemptError if a later one is."""
        owner = self._owner or ""
        noted = Note(owner, self.noted(owner), 0)
        return decide(self._table, noted, owner, attempt, False) != Step.NOTHING

    @abstractmethod
    def load(self) -> None:
        """Load the newest version of the table. Create the table if it does not exist.

        Errors of all methods: OvertakenError, UnavailableError, UsageError.
        """

    @abstractmethod
    def noted(self, owner: str) -> int:
        """Return the newest transaction of an owner in the loaded version, 0 if there is none."""

    @abstractmethod
    def check(self) -> None:
        """Raise UsageError unless the columns fit those of the loaded version."""

    @abstractmethod
    def append(self, rows: pa.Table, owner: str, txid: int | None) -> None:
        """Append rows to the loaded version, with a note unless txid is None, in one commit."""


def text_of(error: BaseException) -> str:
    """Return the text of a library's error in one line, without colours and stacks."""
    lines = _COLOURS.sub("", str(error)).splitlines()
    kept = []
    for line in lines:
        if re.match(r"\s*\d+: ", line):  # a stack
            break
        kept.append(line.strip())
    text = " ".join(" ".join(kept).split()) or type(error).__name__
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
