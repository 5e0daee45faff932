"""Counts by which a task knows that it has received all tuples of a request. Pure.

    task upstream  --tuples of the request-->  task   counts them by sender
                   --report: numbers sent-->          compares, when the sender has finished

Tuples of one sender arrive in order, and its report last, so a wrong number is final. The reports are the request's
tuple tree: a task holds them until it has finished the request. So a report that is lost with a process fails the tree,
a tuple that is lost makes a report wrong, and in both cases the request fails, once: its id is never used again.
"""

from __future__ import annotations  # pure

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Batch:
    """The tuples of one request at one task. ``held``: the reports that are to be acked or failed."""

    began_s: float
    received: dict[int, int] = field(default_factory=dict)
    reported: set[int] = field(default_factory=set)
    held: list[Any] = field(default_factory=list)
    error: BaseException | str | None = None
    work: Any = None


class RequestCounts:
    """The requests of one task. ``me``: the task's id. ``expected``: the number of tasks that report each request.

    ``keep_s``: the time after which a request that is not finished has certainly failed elsewhere, and is forgotten.
    """

    def __init__(self, me: int, expected: int, keep_s: float) -> None:
        self._me = me
        self._expected = expected
        self._keep_s = keep_s
        self._batches: dict[str, Batch] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def batch(self, request: str, now_s: float) -> Batch:
        """Return the batch of a request; a new one if there is none."""
        batch = self._batches.get(request)
        if batch is None:
            while self._batches and next(iter(self._batches.values())).began_s < now_s - self._keep_s:
                del self._batches[next(iter(self._batches))]
            batch = self._batches[request] = Batch(now_s)
        return batch

    def report(self, batch: Batch, sender: int, counts: Sequence[int]) -> bool:
        """Record a report; return true if the batch is complete. Sets ``error`` if a number is wrong.

        ``counts``: task ids, each followed by the number of tuples that were sent to the task.
        """
        sent = next((counts[place + 1] for place in range(0, len(counts), 2) if counts[place] == self._me), 0)
        found = batch.received.get(sender, 0)
        batch.reported.add(sender)
        if batch.error is None and found != sent:
            batch.error = f"{found} of {sent} tuples of the request have arrived at task {self._me}: the rest was lost"
        if batch.error is not None or len(batch.reported) < self._expected:
            return False
        if not batch.received.keys() <= batch.reported:
            batch.error = f"task {self._me} has received tuples of the request from a task that has not reported them"
        return batch.error is None

    def forget(self, request: str) -> None:
        """Drop a request that is finished."""
        self._batches.pop(request, None)
