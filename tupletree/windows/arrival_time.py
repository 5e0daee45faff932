"""Processing time: the clock that gives tuples their arrival times and, at ticks, ends windows of a Duration slide.

There is one tick per slide, and each comes a little early or late. If windows ended by the clock alone, an early tick
would miss the end of its window, which would then be evaluated a whole slide later. So a tick that is less than half an
interval before the end of a window counts as *at* that end: time jumps there, and tuples that arrive after the tick
belong to the next window. Time never goes backwards: every tuple is in exactly the windows of its time.
"""

from __future__ import annotations  # pure


class ArrivalTime:
    """The clock of one task, from 0 at its start. Times are whole microseconds."""

    def __init__(self, began_us: int, slide_us: int | None) -> None:
        """``slide_us``: windows end at its multiples. None if windows end at a tuple."""
        self._began_us = began_us
        self._slide_us = slide_us
        self._now_us = 0

    def at(self, clock_us: int) -> int:
        """Return the time of a tuple that arrives now."""
        self._now_us = max(self._now_us, clock_us - self._began_us)
        return self._now_us

    def at_tick(self, clock_us: int, interval_us: int) -> int:
        """Return the time of a tick that comes now, of a series of ticks with the given interval."""
        now_us = self.at(clock_us)
        if self._slide_us is not None:
            end_us = (now_us // self._slide_us + 1) * self._slide_us
            if 2 * (end_us - now_us) < interval_us:
                self._now_us = end_us
        return self._now_us
