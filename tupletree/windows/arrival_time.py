"""Processing time: the clock by which tuples arrive, and by which windows of a time end at ticks.

Ticks come once for each slide, each a little early or late. A window that ended by the bare clock would be found due by
a tick that was late, and by the next only, a whole slide later, if that one was early. So a tick stands *at* the end of
a window that is less than half an interval away: time leaps there, and what arrives after the tick belongs to the next
window whatever the clock says. Time never goes back: every tuple is in exactly the windows of its time.
"""

from __future__ import annotations


class ArrivalTime:
    """The time of one task, from 0 where it began. Times are whole microseconds."""

    def __init__(self, began_us: int, slide_us: int | None) -> None:
        """``slide_us``: windows end at its multiples; None where they end with a tuple."""
        self._began_us = began_us
        self._slide_us = slide_us
        self._now_us = 0

    def at(self, clock_us: int) -> int:
        """The time of what arrives now."""
        self._now_us = max(self._now_us, clock_us - self._began_us)
        return self._now_us

    def at_tick(self, clock_us: int, interval_us: int) -> int:
        """The time of a tick that comes now, as one of a row of such an interval."""
        now_us = self.at(clock_us)
        if self._slide_us is not None:
            end_us = (now_us // self._slide_us + 1) * self._slide_us
            if 2 * (end_us - now_us) < interval_us:
                self._now_us = end_us
        return self._now_us
