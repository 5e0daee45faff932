"""A schedule of actions, carried out by one thread."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable


class Agenda:
    """A schedule of actions. Times are seconds since the agenda was made."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._due: list[tuple[float, int, Callable[[], None]]] = []  # a heap: (time, sequence number, action)
        self._numbers = itertools.count()

    def at(self, at_s: float, do: Callable[[], None]) -> None:
        """Schedule an action at a time."""
        heapq.heappush(self._due, (at_s, next(self._numbers), do))

    def after(self, pause_s: float, do: Callable[[], None]) -> None:
        """Schedule an action after a pause."""
        self.at(self.elapsed_s() + pause_s, do)

    def elapsed_s(self) -> float:
        """Return the current time."""
        return time.monotonic() - self._began_s

    def work_off(self) -> None:
        """Carry out all actions, including those added meanwhile; return when none is left."""
        while self._due:
            at_s, _, do = heapq.heappop(self._due)
            time.sleep(max(0.0, at_s - self.elapsed_s()))
            do()
