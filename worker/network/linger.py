"""How long a worker gathers what is for others before it hands it to the links: the more there is, the longer."""

from __future__ import annotations

WINDOW_S = 0.02
PAUSES = ((150_000, 0.005), (100_000, 0.001))
"""From so many tuples and updates a second on, so many seconds; below, none. A message costs both ends 0.1 to 0.2 ms of
processor time, whatever is in it: below a hundred thousand a second nobody misses that, and above it is what bounds the
rate."""


class Linger:
    """The pause that fits the rate over the last complete window of ``WINDOW_S`` or more. Pure: time is an argument."""

    def __init__(self, now_s: float) -> None:
        self.pause_s = 0.0
        self._count = 0
        self._since_s = now_s

    def add(self, count: int, now_s: float) -> None:
        """So many are handed over now."""
        self._count += count
        elapsed_s = now_s - self._since_s
        if elapsed_s >= WINDOW_S:
            fitting = (pause_s for rate, pause_s in PAUSES if self._count > rate * elapsed_s)
            self.pause_s = next(fitting, 0.0)
            self._count = 0
            self._since_s = now_s
