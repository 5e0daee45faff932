"""The pause during which a worker gathers output before passing it to the links. The pause grows with the rate."""

from __future__ import annotations

WINDOW_S = 0.02
PAUSES = ((150_000, 0.005), (100_000, 0.001))
"""Pairs (rate, pause): above this many tuples and updates per second, pause this many seconds. Below the lowest rate
there is no pause. A message costs both ends 0.1 to 0.2 ms of CPU time, whatever its size. Below 100,000 per second this
cost does not matter; above, it limits the rate."""


class Linger:
    """The pause for the rate over the last complete window of at least ``WINDOW_S``. Pure: time is an argument."""

    def __init__(self, now_s: float) -> None:
        self.pause_s = 0.0
        self._count = 0
        self._since_s = now_s

    def add(self, count: int, now_s: float) -> None:
        """Count tuples and updates passed on now, and update ``pause_s`` at the end of a window."""
        self._count += count
        elapsed_s = now_s - self._since_s
        if elapsed_s >= WINDOW_S:
            fitting = (pause_s for rate, pause_s in PAUSES if self._count > rate * elapsed_s)
            self.pause_s = next(fitting, 0.0)
            self._count = 0
            self._since_s = now_s
