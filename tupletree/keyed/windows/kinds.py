"""The kinds of windows per key, and the bounds of one window.

The values are checked when the topology is built, by ``WindowSettings``.
"""

from __future__ import annotations  # pure

import datetime as dt
from dataclasses import dataclass
from typing import Literal, NamedTuple

NO_OFFSET = dt.timedelta(0)


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of equal size, one after the other: each tuple is in one.

    Windows begin at multiples of ``size`` since 1970, in UTC, plus ``offset``.
    """

    size: dt.timedelta
    offset: dt.timedelta = NO_OFFSET


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of equal size that overlap: a new one begins ``every`` so much time.

    Windows begin at multiples of ``every`` since 1970, in UTC, plus ``offset``. ``every`` is at most ``size``.
    """

    size: dt.timedelta
    every: dt.timedelta
    offset: dt.timedelta = NO_OFFSET


@dataclass(frozen=True, slots=True)
class Session:
    """Windows of tuples that follow each other within less than ``gap``.

    A session ends ``gap`` after its newest tuple. A tuple whose distance to two sessions is less than ``gap`` merges
    them.
    """

    gap: dt.timedelta


@dataclass(frozen=True, slots=True)
class CountWindow:
    """Windows of the last ``size`` tuples of a key, one after ``every`` so many tuples; None: as many as ``size``.

    While a key has had fewer than ``size`` tuples, its windows have all of them. ``every`` is at most ``size``.
    """

    size: int
    every: int | None = None


Kind = Tumbling | Sliding | Session | CountWindow

Timing = Literal["early", "on_time", "late"]


class WindowBounds(NamedTuple):
    """The bounds of a window, and why it was emitted.

    Attributes:
        start, end: the window contains the times from ``start`` up to but not including ``end``, in milliseconds. Of
            a CountWindow: the numbers of tuples of the key, from 0.
        timing: "early": by a trigger, before the window was over. "on_time": when it was over. "late": again, after a
            late tuple.
    """

    start: int
    end: int
    timing: Timing = "on_time"
