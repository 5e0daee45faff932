"""When executors of one run loop are parted, and when they come together again: the rules, without threads and clocks.

    shared loop --- found blocking ---------------------> own loop, ``is_blocking``
         ^  \\------ opens, prepares … for too long -----> own loop, not blocking    |
         |                              |                                          |
         +------ as soon as it has -----+                                          |
         +------ after a calm of 2.5 s, 5 s, 10 s … 10 min, twice as long each time +

A component that connects to a broker in ``open`` does not block, and one slow call of a minute ago says nothing of the
next. But a component that blocks every now and then would be moved to and fro. So each time the calm must last twice
as long, until the component has been back for ``MAX_CALM_S`` without blocking.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

FIRST_CALM_S = 2.5  # more than two of the windows over which waiting is judged
MAX_CALM_S = 600.0


class SetUp:
    """Whether a component of an executor is being set up (``open``, ``prepare``, ``activate``, ``init_state`` …).

    A context manager around such calls. ``has_been``: it was, in the present step; whoever judges the step clears it.
    """

    __slots__ = ("has_been", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self.has_been = False

    def __enter__(self) -> None:
        self.is_on = self.has_been = True

    def __exit__(self, *error: object) -> None:
        self.is_on = False


class SplitBackoff:
    """For how long an executor must not have blocked before it goes back to its neighbours."""

    __slots__ = ("_blocked_s", "_needed_s")

    def __init__(self) -> None:
        self._needed_s = 0.0
        self._blocked_s = -math.inf

    def parted(self, now_s: float) -> None:
        """It was found blocking, and has a loop of its own from now on."""
        has_behaved = now_s - self._blocked_s > self._needed_s + MAX_CALM_S
        self._needed_s = FIRST_CALM_S if has_behaved else min(max(FIRST_CALM_S, 2 * self._needed_s), MAX_CALM_S)
        self._blocked_s = now_s

    def blocked(self, now_s: float) -> None:
        """It has blocked in its own loop."""
        self._blocked_s = now_s

    def is_over(self, now_s: float) -> bool:
        """Whether it may go back."""
        return now_s - self._blocked_s >= self._needed_s


class Glance(NamedTuple):
    """What the watchdog saw: a step, when it saw it first, and how much processor time was wanted by then."""

    step: int
    at_s: float
    wanted_s: float


class Window(NamedTuple):
    """The beginning of a stretch of time over which waiting is added up."""

    began_s: float
    wanted_s: float
    stepped_s: Mapping[Any, float]  # by executor
