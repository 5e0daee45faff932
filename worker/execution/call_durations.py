"""Durations of the current calls of tasks, measured from report to report. Pure.

A step takes a few milliseconds, unless one call of user code takes longer or many calls of a spout's ``ack`` and
``fail`` follow each other. The two cases are told apart by the spout's counters. Times are seconds of a monotonic
clock.
"""

from __future__ import annotations  # pure

from collections.abc import Hashable, Iterable, Sequence

Present = tuple[Hashable, Hashable, Sequence[int]]
"""A run loop, a value that identifies its current call, and the tasks in the call (empty if there is no call)."""


class CallDurations:
    """The calls that were under way at the last ``observe``."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[Hashable, float]] = {}

    def observe(self, loops: Iterable[Present], now_s: float) -> dict[int, float]:
        """Record the current calls. Return, by task, the seconds for which the task has been in the same call."""
        seen, found = {}, {}
        for loop, call, tasks in loops:
            if not tasks:
                continue
            before = self._seen.get(loop)
            since_s = before[1] if before is not None and before[0] == call else now_s
            seen[loop] = call, since_s
            if since_s < now_s:
                found.update(dict.fromkeys(tasks, now_s - since_s))
        self._seen = seen
        return found
