"""The pause during which a worker gathers output before passing it to the links.

The pause grows with the rate, and with how late the worker's asyncio thread is: that thread is late where the
processors are busy. Many workers exchange many small messages, and a message costs the same whatever its size. What
busy processors save by larger messages makes up for the pause; idle ones are not late, and do not pause.
"""

from __future__ import annotations  # pure

WINDOW_S = 0.02
PAUSES = ((150_000, 0.005), (100_000, 0.001))
"""Pairs (rate, pause): above this many tuples and updates per second, pause this many seconds. Below the lowest rate
there is no pause. A message costs both ends 0.1 to 0.2 ms of CPU time, whatever its size. Below 100,000 per second this
cost does not matter; above, it limits the rate."""
SMOOTHING = 8
LATE_SHARE = 4
MAX_LATE_INTERVALS = 20
"""The pause is ``LATE_SHARE`` times the mean lateness for each peer but the first, up to so many flush intervals."""


class Linger:
    """The pause for the rate over the last complete window of at least ``WINDOW_S``, and for the mean lateness.

    Pure: time is an argument. ``interval_s``: the longest pause for the rate; for lateness, ``MAX_LATE_INTERVALS``
    times as much.
    """

    def __init__(self, now_s: float, interval_s: float) -> None:
        self.pause_s = 0.0
        self._interval_s = interval_s
        self._count = 0
        self._since_s = now_s
        self._late_s = 0.0  # mean of the last ones

    def add(self, count: int, late_s: float, peers: int, now_s: float) -> None:
        """Count tuples and updates passed on now, and update ``pause_s`` at the end of a window.

        ``late_s``: the time since they should have been passed on. ``peers``: the number of other workers.
        """
        self._count += count
        self._late_s += (late_s - self._late_s) / SMOOTHING
        elapsed_s = now_s - self._since_s
        if elapsed_s >= WINDOW_S:
            for_rate_s = next((pause_s for rate, pause_s in PAUSES if self._count > rate * elapsed_s), 0.0)
            for_lateness_s = min(LATE_SHARE * max(peers - 1, 0) * self._late_s, MAX_LATE_INTERVALS * self._interval_s)
            self.pause_s = max(min(for_rate_s, self._interval_s), for_lateness_s)
            self._count = 0
            self._since_s = now_s
