"""Rests of sources: one whose spouts have nothing to emit is not asked again for a while, as a spout of Storm is not.

A spout that gets its tuples at a steady rate would else be asked without a pause: each time it would have one tuple or
none, and each batch one row. The time is that of the run loop's thread: simulated time does not stop a rest.
"""

from __future__ import annotations

import math


class Rest:
    """The rest of one executor. Pure: time is an argument.

    ``length_s``: of each rest; 0 for none. ``is_on``: nothing is asked in the present step, unless there is news.
    ``ran_dry``: set by the executor, if nothing was left to emit in the present step.
    """

    __slots__ = ("is_on", "length_s", "ran_dry", "until_s")

    def __init__(self, length_s: float = 0.0) -> None:
        self.length_s = length_s
        self.is_on = False
        self.ran_dry = False
        self.until_s = -math.inf

    def begin_step(self, now_s: float) -> None:
        """A step begins."""
        self.is_on = now_s < self.until_s
        self.ran_dry = False

    def end_step(self, now_s: float) -> None:
        """The step has ended: a rest begins if it ran dry."""
        if not self.is_on:
            self.until_s = now_s + self.length_s if self.ran_dry else -math.inf

    def end(self) -> None:
        """The next step asks."""
        self.until_s = -math.inf
