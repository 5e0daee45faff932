"""Whether a commit to a SQL table is to be made: decided by the note that the last one left there.

The note is a line of ``tupletree_commits``, written in the same transaction as the rows: so the table holds S(n), in
the words of tupletree/transactional/rules.py, exactly when the note is of txid n. Rows carry no txid. Under the opaque
rule ``tupletree_undo_<table>`` holds what the rows that n touched were in S(n - 1), and is rewritten with every commit:
a newer attempt of n first makes the table S(n - 1) by it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UsageError

COMMITS = "tupletree_commits"
"""The table of notes."""

FORMAT = 1
"""The version of the layout. It is raised when a version that knows the old one would go wrong."""


class Note(NamedTuple):
    """What the last commit to a table left. With txid 0 there was none."""

    transactional_id: str
    txid: int
    attempt: int
    format: int = FORMAT


class Step(Enum):
    """What a commit is to do."""

    NOTHING = auto()
    WRITE = auto()
    TAKE_BACK_AND_WRITE = auto()


def decide(table: str, note: Note, transactional_id: str, attempt: TransactionAttempt, is_opaque: bool) -> Step:
    """What a commit is to do. StaleAttemptError if its attempt is over, UsageError for another pipeline's table."""
    if note.format > FORMAT:
        raise UsageError(
            f"table {table!r}: its line in {COMMITS} has format {note.format}, and this version of Tupletree knows"
            f" formats up to {FORMAT}: a newer version has written it"
        )
    if note.transactional_id != transactional_id:
        raise UsageError(
            f"table {table!r} belongs to pipeline {note.transactional_id!r}, and this is {transactional_id!r}: each"
            f" pipeline wants tables of its own; if the other one is gone for good, delete its line from {COMMITS}"
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
    """What is raised where an attempt is to be taken back and nothing was kept for that."""
    return UsageError(
        f"table {table!r}: transaction {attempt.txid} was written by an earlier attempt under the transactional rule,"
        " and the source of the pipeline is opaque now: let the old source commit it, or give the pipeline a new id and"
        " a new table"
    )


def _stale(table: str, attempt: TransactionAttempt, why: str) -> StaleAttemptError:
    return StaleAttemptError(
        f"table {table!r}: {attempt} is over, since {why}. If this goes on, the table was written by another pipeline,"
        " or the progress of this one was deleted: give it a new table"
    )
