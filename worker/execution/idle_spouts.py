"""Rests of sources: one whose spouts have nothing to emit is not asked again for a while, as a spout of Storm is not.

A spout that gets its tuples at a steady rate would else be asked without a pause: each time it would have one tuple or
none, and each batch one row. Where tuples come more slowly, a rest would gather none and only delay them: a source is
asked then whenever its run loop has woken. The time is that of the run loop's thread: simulated time stops no rest.
"""

from __future__ import annotations

import math

WINDOW_S = 0.02
WORTH_TUPLES = 4
"""A source rests if it emits so many in the time of a rest, or more."""


class IdleWait:
    """The rests of one executor. Pure: time is an argument.

    ``length_s``: of each; 0 for none. ``is_on``: nothing is asked in the present step, unless there is news. The
    executor says of each step whether it ``ran_dry``, so that nothing was left to emit, and adds to ``emitted``.
    """

    __slots__ = ("_is_worth_it", "_since_s", "emitted", "is_on", "length_s", "ran_dry", "until_s")

    def __init__(self, length_s: float = 0.0) -> None:
        self.length_s = length_s
        self.is_on = False
        self.ran_dry = False
        self.emitted = 0
        self.until_s = -math.inf
        self._is_worth_it = False
        self._since_s = -math.inf  # when the tuples were counted last

    def begin_step(self, now_s: float) -> None:
        """A step begins."""
        self.is_on = now_s < self.until_s
        self.ran_dry = False

    def end_step(self, now_s: float) -> None:
        """The step has ended: a rest begins if it ran dry."""
        elapsed_s = now_s - self._since_s
        if elapsed_s >= WINDOW_S:
            self._is_worth_it = self.emitted * self.length_s >= WORTH_TUPLES * elapsed_s
            self.emitted = 0
            self._since_s = now_s
        if not self.is_on:
            self.until_s = now_s + self.length_s if self.ran_dry and self._is_worth_it else -math.inf

    def end(self) -> None:
        """The next step asks."""
        self.until_s = -math.inf
