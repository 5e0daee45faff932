"""The linger of verdicts and updates: batching for a fraction of a topology's mean complete latency.

By Little's law the mean complete latency of trees is pending / (completed per second). At rates where the CPU is the
bottleneck, trees take long because they wait in queues. A slightly later verdict then costs nothing, and each message
saved frees 0.1 to 0.2 ms of CPU time at both ends. If trees complete quickly, or there are few trees, there is no
linger. A longer linger increases the latency, which in turn increases the linger: updates and verdicts both wait, so
T = T0 + 2 SHARE T at most, a third more than T0. ``MAX_S`` is a second bound.

The cost: trees faster than their topology's mean wait up to 2 ``MAX_S`` for their verdicts. A topology whose rate is
limited by its pending trees, while the CPU is idle, loses up to a quarter of the rate. Therefore there is no linger at
rates that usually leave the CPU idle.
"""

from __future__ import annotations  # pure

import math

WINDOW_S = 0.05
SHARE = 1 / 8
MAX_S = 0.015
BUSY_PER_S = 20_000, 40_000
"""Trees completed per second in one acker. Up to the first rate messages are few and there is no linger; from the
second rate on the linger is full. In between it rises linearly: a linger lowers the rate, and one with a single
threshold would therefore switch on and off in turn.
"""


class Linger:
    """The linger computed from the last complete window of at least ``WINDOW_S``. Pure: time is an argument."""

    def __init__(self) -> None:
        self.pause_s = 0.0
        self._completed = 0
        self._since_s = -math.inf

    def update(self, pending: int, completed: int, now_s: float) -> None:
        """Update the linger from the trees pending now and the trees completed since the ledgers began."""
        elapsed_s = now_s - self._since_s
        if elapsed_s < WINDOW_S:
            return
        rate_per_s = (completed - self._completed) / elapsed_s
        idle, busy = BUSY_PER_S
        part = min(1.0, (rate_per_s - idle) / (busy - idle))
        self.pause_s = part * min(MAX_S, SHARE * pending / rate_per_s) if part > 0 else 0.0
        self._completed = completed
        self._since_s = now_s
