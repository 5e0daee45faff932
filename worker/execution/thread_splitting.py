"""Rules for parting executors of one run loop and for bringing them together again, without threads and clocks.

    shared loop --- found blocking ---------------------> own loop, ``is_blocking``
         ^  \\------ opens, prepares … for too long -----> own loop, not blocking    |
         |                              |                                          |
         +------ once it is set up -----+                                          |
         +------ after a calm of 2.5 s, 5 s, 10 s … 10 min, twice as long each time +

A component that connects to a broker in ``open`` does not count as blocking, and one slow call a minute ago says
nothing about the next call. But a component that blocks now and then would be moved to and fro. So the required calm
doubles each time, until the component has been back for ``MAX_CALM_S`` without blocking.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

FIRST_CALM_S = 2.5  # more than two of the windows over which waiting is judged
MAX_CALM_S = 600.0


class SplitBackoff:
    """Time without blocking that an executor needs before it goes back to its neighbours."""

    __slots__ = ("_blocked_s", "_needed_s")

    def __init__(self) -> None:
        self._needed_s = 0.0
        self._blocked_s = -math.inf

    def parted(self, now_s: float) -> None:
        """Record that the executor was found blocking and now gets a loop of its own."""
        has_behaved = now_s - self._blocked_s > self._needed_s + MAX_CALM_S
        self._needed_s = FIRST_CALM_S if has_behaved else min(max(FIRST_CALM_S, 2 * self._needed_s), MAX_CALM_S)
        self._blocked_s = now_s

    def blocked(self, now_s: float) -> None:
        """Record that the executor has blocked in its own loop."""
        self._blocked_s = now_s

    def is_over(self, now_s: float) -> bool:
        """True if the executor may go back."""
        return now_s - self._blocked_s >= self._needed_s


class Glance(NamedTuple):
    """A step, the time at which the watchdog first saw it, and the processor time wanted by then."""

    step: int
    at_s: float
    wanted_s: float


class Window(NamedTuple):
    """State at the start of a time window over which waiting is added up."""

    began_s: float
    wanted_s: float
    stepped_s: Mapping[Any, float]  # by executor
