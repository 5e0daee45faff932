"""Internal streams of a transactional topology, in addition to the streams that its components declare."""

from __future__ import annotations  # pure

from collections.abc import Sequence
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.outputs import REPORT_STREAM, Stream

MAX_GROUP = 64
"""The maximum number of transactions that begin together, and that commit together in a topology of GroupCommitters."""

BATCH_STREAM = "batch"
COMMIT_STREAM = "commit"

BATCH = Stream(BATCH_STREAM, ("attempt", "metadata", "committed"))
"""Coordinator to every emitter: emit this batch. ``committed``: the last committed transaction."""

COMMIT = Stream(COMMIT_STREAM, ("attempt",))
"""Coordinator to every committer: finish this batch."""

GROUP_COMMIT = Stream(COMMIT_STREAM, ("attempt", "following"))
"""The same if transactions commit in groups. ``following``: the attempt numbers of the transactions after the first."""

REPORT = Stream(REPORT_STREAM, ("attempt", "count", "committed"), direct=True)
"""Each task to each downstream task: I have finished this batch and sent you ``count`` tuples of it."""


def commit_values(attempts: Sequence[TransactionAttempt], *, in_groups: bool) -> list[Any]:
    """Return the values of the commit tuple of a group: attempts of consecutive transactions."""
    return [attempts[0], [attempt.attempt for attempt in attempts[1:]]] if in_groups else [attempts[0]]


def attempts_of(values: Sequence[Any]) -> Sequence[TransactionAttempt]:
    """Return the attempts that a commit tuple names, in the order of their transactions."""
    first, *following = values
    numbers = following[0] if following else ()
    return first, *(TransactionAttempt(first.txid + 1 + index, number) for index, number in enumerate(numbers))


def coordinator_id(spout_id: str) -> str:
    """The component id of the coordinator that belongs to the emitters ``spout_id``."""
    return f"{spout_id}:coordinator"
