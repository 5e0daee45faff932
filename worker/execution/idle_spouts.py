"""Rests of sources: a source whose spouts have nothing to emit is not polled for a while, as in Storm.

Without rests, a spout that gets its tuples at a steady rate would be polled without a pause: each poll would yield one
tuple or none, and each batch would have one row. If tuples come more slowly, a rest would gather none and only delay
them, so the source is polled whenever its run loop wakes. Rests use the time of the run loop's thread, not simulated
time.

A source that has emitted nothing for long is polled less often, since each poll takes the processor 0.1 ms: see
``pause_s``. What arrives after an hour may wait as long as 10 ms, what arrives after 0.1 s may not.
"""

from __future__ import annotations  # pure

import math

WINDOW_S = 0.02
WORTH_TUPLES = 4
"""A source rests if it emits at least this many tuples in the time of a rest."""
IDLE_SHARE, MAX_PAUSE_S = 0.01, 0.01
"""A source pauses for this share of the time for which it has emitted nothing, but no longer than ``MAX_PAUSE_S``."""


def pause_s(length_s: float, idle_s: float) -> float:
    """Return the pause, at least ``length_s``, of a source that has emitted nothing for ``idle_s``; with 0 none."""
    return max(length_s, min(IDLE_SHARE * idle_s, MAX_PAUSE_S)) if length_s else 0.0


class IdleWait:
    """Rests of one executor. Pure: time is an argument.

    ``length_s``: length of each rest; 0 for none. ``is_on``: spouts are not polled in the current step, unless there is
    news. In each step, the executor sets ``ran_dry`` if nothing was left to emit, and adds to ``emitted``.
    """

    __slots__ = ("_is_worth_it", "_since_s", "emitted", "is_on", "length_s", "ran_dry", "until_s")

    def __init__(self, length_s: float = 0.0) -> None:
        self.length_s = length_s
        self.is_on = False
        self.ran_dry = False
        self.emitted = 0
        self.until_s = -math.inf
        self._is_worth_it = False
        self._since_s = -math.inf  # last time at which the emitted tuples were counted

    def begin_step(self, now_s: float) -> None:
        """Record that a step begins."""
        self.is_on = now_s < self.until_s
        self.ran_dry = False

    def end_step(self, now_s: float) -> None:
        """Record that the step has ended. A rest begins if the step ran dry and a rest is worthwhile."""
        elapsed_s = now_s - self._since_s
        if elapsed_s >= WINDOW_S:
            self._is_worth_it = self.emitted * self.length_s >= WORTH_TUPLES * elapsed_s
            self.emitted = 0
            self._since_s = now_s
        if not self.is_on:
            self.until_s = now_s + self.length_s if self.ran_dry and self._is_worth_it else -math.inf

    def end(self) -> None:
        """End the rest, so that the next step polls."""
        self.until_s = -math.inf
