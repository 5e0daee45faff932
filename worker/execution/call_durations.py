"""For how long tasks have been in their present call, seen from one report to the next. Pure.

A step is a few milliseconds of work unless one call of user code takes longer, or many calls of a spout's ``ack`` and
``fail`` follow each other: these are told apart by what they count. Seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

Present = tuple[Hashable, Hashable, Sequence[int]]
"""A run loop, what identifies its present call, and the tasks that are in the call; none if the loop is in no call."""


class CallDurations:
    """The calls that were under way at the last look."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[Hashable, float]] = {}

    def look(self, loops: Iterable[Present], now_s: float) -> dict[int, float]:
        """Note the present calls; return by task for how long it has been in the same one."""
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
