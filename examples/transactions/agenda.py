"""What is to be done at which time, by one thread."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable


class Agenda:
    """Times are seconds since it was made."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._due: list[tuple[float, int, Callable[[], None]]] = []  # a heap: when, in which order, what
        self._numbers = itertools.count()

    def at(self, at_s: float, do: Callable[[], None]) -> None:
        """Do it then."""
        heapq.heappush(self._due, (at_s, next(self._numbers), do))

    def after(self, pause_s: float, do: Callable[[], None]) -> None:
        """Do it so much later than now."""
        self.at(self.elapsed_s() + pause_s, do)

    def elapsed_s(self) -> float:
        """The time now."""
        return time.monotonic() - self._began_s

    def work_off(self) -> None:
        """Do it all, also what is added meanwhile; return when nothing is left."""
        while self._due:
            at_s, _, do = heapq.heappop(self._due)
            time.sleep(max(0.0, at_s - self.elapsed_s()))
            do()
