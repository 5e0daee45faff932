"""The decision about a commit to a SQL table, based on the note of the last commit.

The note is a row of ``tupletree_commits``, written in the same transaction as the data. So the table holds S(n), in the
terms of tupletree/transactional/rules.py, exactly when the note has txid n. Data rows carry no txid. Under the opaque
rule ``tupletree_undo_<table>`` holds the rows touched by n as they were in S(n - 1), and is rewritten with every
commit: a newer attempt of n first restores S(n - 1) from it.
"""

from __future__ import annotations  # pure

from enum import Enum, auto
from typing import NamedTuple

from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UsageError

COMMITS = "tupletree_commits"
"""The table of notes."""

FORMAT = 1
"""The version of the layout. Incremented when older versions of Tupletree would misread the layout."""


class Note(NamedTuple):
    """The note of the last commit to a table. txid 0 means no commit."""

    transactional_id: str
    txid: int
    attempt: int
    format: int = FORMAT


class Step(Enum):
    """The action of a commit."""

    NOTHING = auto()
    WRITE = auto()
    TAKE_BACK_AND_WRITE = auto()


def decide(table: str, note: Note, transactional_id: str, attempt: TransactionAttempt, is_opaque: bool) -> Step:
    """Decide on a commit. StaleAttemptError if its attempt is over, UsageError if another pipeline owns the table."""
    if note.format > FORMAT:
        raise UsageError(
            f"table {table!r}: its row in {COMMITS} has format {note.format}, and this version of Tupletree knows"
            f" formats up to {FORMAT}: a newer version has written it"
        )
    if note.transactional_id != transactional_id:
        raise UsageError(
            f"table {table!r} belongs to pipeline {note.transactional_id!r}, and this is {transactional_id!r}: use"
            f" another table, or, if the other pipeline is gone for good, delete the table's row from {COMMITS}"
        )
    if note.txid < attempt.txid:
        return Step.WRITE
    if note.txid > attempt.txid:
        raise _stale(table, attempt, f"transaction {note.txid} has written it")
    if not is_opaque or note.attempt == attempt.attempt:
        return Step.NOTHING
    newest = TransactionAttempt(note.txid, note.attempt)
    if newest > attempt:
        raise _stale(table, attempt, f"{newest} has written it")
    return Step.TAKE_BACK_AND_WRITE


def no_undo(table: str, attempt: TransactionAttempt) -> UsageError:
    """Return the error for an attempt that must be undone without an undo table."""
    return UsageError(
        f"table {table!r}: transaction {attempt.txid} was written by an earlier attempt under the transactional rule,"
        " and the source of the pipeline is opaque now: let the old source commit it, or give the pipeline a new id and"
        " a new table"
    )


def _stale(table: str, attempt: TransactionAttempt, why: str) -> StaleAttemptError:
    return StaleAttemptError(
        f"table {table!r}: {attempt} is over, since {why}. If this persists, another pipeline writes to the table, or"
        " the progress of this pipeline was deleted: give this pipeline a new table"
    )
