"""Windows of a number of tuples: tumbling or sliding windows over the positions of the tuples of a key, from 0.

A position is reached by its tuple, so there are no timers and no late tuples.
"""

from __future__ import annotations  # pure

from typing import Any

from tupletree.keyed.windows.aligned import AlignedWindows
from tupletree.keyed.windows.record import NEXT, Aggregate, Firing, Outcome, Record


class CountWindows:
    """The last ``size`` tuples of a key, after every ``every`` tuples."""

    def __init__(
        self, aggregate: Aggregate, size: int, every: int, *, has_panes: bool = True, is_early: bool = False
    ) -> None:
        self._every = every
        self._windows = AlignedWindows(
            aggregate, size, every, -size % every, has_panes=has_panes, is_early=is_early
        )  # ends at multiples of `every`

    def add(self, record: Record, item: Any, at_ms: int, floor_ms: int) -> Outcome | None:
        """Add a tuple, whenever it comes."""
        extras = record[1]
        position = extras.get(NEXT, 0)
        self._windows.add(record, item, position, position)
        extras[NEXT] = position + 1
        if (position + 1) % self._every:
            return None
        return Outcome(_from_zero(self._windows.reach(record, position + 1).firings))

    def reach(self, record: Record, time_ms: int) -> Outcome:
        """Do nothing: time ends no window."""
        return Outcome()

    def early(self, record: Record, floor_ms: int) -> list[Firing]:
        """Return the windows that are not full and have tuples that no emitted window had."""
        return _from_zero(self._windows.early(record, record[1][NEXT]))


def _from_zero(firings: list[Firing]) -> list[Firing]:
    """Let windows that began before the first tuple begin with it."""
    return [(bounds._replace(start=max(0, bounds.start)), value) for bounds, value in firings]
