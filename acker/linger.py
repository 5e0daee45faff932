"""For how long verdicts and updates of a topology are gathered: a share of the time that its trees take anyhow.

By Little's law trees take pending / (completed per second) on average. At rates where processors are what bounds, they
take long because they wait in queues; a verdict that comes a little later costs nothing then, and each message saved
gives both ends 0.1 to 0.2 ms of processor time back. Where trees complete soon, or there are few of them, nothing is
gathered. A longer pause makes trees take longer, and so itself: updates and verdicts both wait, so T = T0 + 2 SHARE T
at most, a third more. ``MAX_S`` bounds it once more.

What it costs: trees that are quicker than the average of their topology wait up to 2 ``MAX_S`` for their verdicts. And
a topology whose rate is bounded by its pending trees, while processors are idle, loses up to a quarter of it; which is
why nothing is gathered at rates that leave them idle as a rule.
"""

from __future__ import annotations

import math

WINDOW_S = 0.05
SHARE = 1 / 8
MAX_S = 0.015
BUSY_PER_S = 20_000, 40_000
"""Trees completed a second, in one acker: up to the first, messages are few anyhow and nothing is gathered; from the
second on, in full; between them in part, so that a pause which lowers the rate is not dropped and taken up by turns.
"""


class Linger:
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
        idle, busy = BUSY_PER_S
        part = min(1.0, (rate_per_s - idle) / (busy - idle))
        self.pause_s = part * min(MAX_S, SHARE * pending / rate_per_s) if part > 0 else 0.0
        self._completed = completed
        self._since_s = now_s
