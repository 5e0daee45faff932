"""For how long executors have been in their present step, seen from one report to the next. Pure.

A step is a few milliseconds of work unless one call of user code takes longer. Seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

Present = tuple[Hashable, int, Sequence[int]]
"""A run loop, the number of its present step, and the tasks of the executor that is in it; none if it is in none."""


class Calls:
    """The steps that were under way at the last look."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[int, float]] = {}

    def look(self, loops: Iterable[Present], now_s: float) -> dict[int, float]:
        """Note the present steps; return by task for how long its executor has been in the same one."""
        seen, found = {}, {}
        for loop, step, tasks in loops:
            if not tasks:
                continue
            before = self._seen.get(loop)
            since_s = before[1] if before is not None and before[0] == step else now_s
            seen[loop] = step, since_s
            if since_s < now_s:
                found.update(dict.fromkeys(tasks, now_s - since_s))
        self._seen = seen
        return found
