"""The decision about a commit to a SQL table, based on the note of the last commit.

The note is a row of ``tupletree_commits``, written in the same transaction as the data. So the table holds S(n), in the
terms of tupletree/transactional/rules.py, exactly when the note has txid n. Data rows carry no txid. Under the opaque
rule an undo table holds the rows touched by n as they were in S(n - 1), and is rewritten with every commit: a newer
attempt of n first restores S(n - 1) from it.

A table has one note of its own, or one for each of its writers, whose keys are then disjoint: S(n) is the part of the
table that a writer has written.
"""

from __future__ import annotations  # pure

from dataclasses import dataclass
from enum import Enum, auto
from hashlib import blake2b
from typing import NamedTuple

from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UsageError

COMMITS = "tupletree_commits"
"""The table of notes."""

FORMAT = 1
"""The version of the layout. Incremented when older versions of Tupletree would misread the layout."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a table.

    Attributes:
        id: the id of a pipeline, or of one of several writers.
        note: the name of its note.
        undo: the name of its undo table.
        is_opaque: True under the opaque rule.
    """

    id: str
    note: str
    undo: str
    is_opaque: bool


def sole_writer(table: str, id: str, is_opaque: bool) -> Writer:
    """Return the only writer of a table. The note of another id is refused."""
    return Writer(id, table, undo_table(table), is_opaque)


def one_of_writers(table: str, id: str, is_opaque: bool) -> Writer:
    """Return one of the writers of a table, each of which has a note of its own."""
    digest = blake2b(f"{table}\0{id}".encode(), digest_size=16).hexdigest()
    return Writer(id, f"{table}/{id}", undo_table(digest), is_opaque)


def undo_table(name: str) -> str:
    """Return the name of an undo table: at most 63 characters for a name of at most 48."""
    return f"tupletree_undo_{name}"


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
    REFUSE = auto()


def next_step(newest: TransactionAttempt, attempt: TransactionAttempt, is_opaque: bool) -> Step:
    """Return the action of a commit after the newest that was written: the rules of connectors/transactional_sink.py.

    REFUSE: the attempt is over.
    """
    if newest.txid < attempt.txid:
        return Step.WRITE
    if newest.txid > attempt.txid:
        return Step.REFUSE
    if not is_opaque or newest.attempt == attempt.attempt:
        return Step.NOTHING
    return Step.REFUSE if newest > attempt else Step.TAKE_BACK_AND_WRITE


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
    newest = TransactionAttempt(note.txid, note.attempt)
    step = next_step(newest, attempt, is_opaque)
    if step == Step.REFUSE:
        later = newest if newest.txid == attempt.txid else f"transaction {newest.txid}"
        raise _stale(table, note, attempt, f"{later} has written it")
    return step


def no_undo(table: str, attempt: TransactionAttempt) -> UsageError:
    """Return the error for an attempt that must be undone without an undo table."""
    return UsageError(
        f"table {table!r}: transaction {attempt.txid} was written by an earlier attempt under the transactional rule,"
        " and the source is opaque now: let the old source commit it, or choose a new id and a new table"
    )


def _stale(table: str, note: Note, attempt: TransactionAttempt, why: str) -> StaleAttemptError:
    return StaleAttemptError(
        f"table {table!r}: {attempt} is over, since {why}. If this persists, another program writes with the id"
        f" {note.transactional_id!r}, or the progress kept for that id was deleted: give it a new table"
    )
