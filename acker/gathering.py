"""For how long verdicts and updates of a topology are gathered: a share of the time that its trees take anyhow.

By Little's law trees take pending / (completed per second) on average. Where many are pending for each that completes,
they wait in queues, and nobody notices a verdict that comes a little later; but every message costs both ends 0.1 to
0.2 ms of processor time, which is then what bounds the rate. Where trees complete soon, or there are few of them,
nothing is gathered. A longer pause makes trees take longer, and so itself: with both of its ends in the time of a tree,
by at most 2 × ``SHARE``, which leaves it bounded; ``MOST_S`` bounds it once more.
"""

from __future__ import annotations

import math

WINDOW_S = 0.05
SHARE = 1 / 6
MOST_S = 0.015
BUSY_PER_S = 20_000
"""Completed trees a second below which messages are few anyhow."""


class Gathering:
    """The pause that fits the last complete window of ``WINDOW_S`` or more. Pure: time is an argument."""

    def __init__(self) -> None:
        self.pause_s = 0.0
        self._completed = 0
        self._since_s = -math.inf

    def look(self, pending: int, completed: int, now_s: float) -> None:
        """So many trees are pending now, and so many have been completed since the ledgers began."""
        elapsed_s = now_s - self._since_s
        if elapsed_s < WINDOW_S:
            return
        rate_per_s = (completed - self._completed) / elapsed_s
        self.pause_s = min(MOST_S, SHARE * pending / rate_per_s) if rate_per_s > BUSY_PER_S else 0.0
        self._completed = completed
        self._since_s = now_s
