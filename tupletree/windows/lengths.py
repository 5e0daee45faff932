"""Lengths of windows: a number of tuples, or a time.

Inside this package times are whole microseconds, so that window boundaries can be compared exactly.
"""

from __future__ import annotations  # pure

import datetime as dt
import math
from dataclasses import dataclass

from tupletree.errors import UsageError

MICROSECONDS = 1_000_000
"""Microseconds per second."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of tuples.

    Raises:
        UsageError: the value is not a whole number, or is negative.
    """

    value: int

    def __post_init__(self) -> None:
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 0:
            raise UsageError(f"a Count is a whole number of tuples, not {self.value!r}")

    def __str__(self) -> str:
        return f"Count({self.value})"


@dataclass(frozen=True, slots=True)
class Duration:
    """A time in seconds. ``Duration(timedelta(minutes=5))`` works too.

    Raises:
        UsageError: the value is not a number, is negative or not finite, or is above 0 but less than a millisecond.
    """

    seconds: float

    def __post_init__(self) -> None:
        seconds = self.seconds.total_seconds() if isinstance(self.seconds, dt.timedelta) else self.seconds
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not math.isfinite(seconds):
            raise UsageError(f"a Duration is a number of seconds or a timedelta, not {self.seconds!r}")
        if seconds < 0 or 0 < seconds < 0.001:
            raise UsageError(f"a Duration is at least a millisecond, not {seconds!r} seconds")
        object.__setattr__(self, "seconds", seconds)

    @property
    def us(self) -> int:
        """The duration in microseconds."""
        return round(self.seconds * MICROSECONDS)

    def __str__(self) -> str:
        return f"Duration({self.seconds})"


Length = Count | Duration


def length_of(value: object) -> Length | None:
    """Return a number of tuples or a time as a length, or None for any other value.

    Raises:
        UsageError: the number is negative, or the time is shorter than a millisecond.
    """
    if isinstance(value, Count | Duration):
        return value
    if isinstance(value, dt.timedelta):
        return Duration(value.total_seconds())
    if isinstance(value, int) and not isinstance(value, bool):
        return Count(value)
    return None


def microseconds(timestamp: object) -> int:
    """Convert a timestamp, in seconds or as a datetime with a time zone, to microseconds.

    Raises:
        ValueError: the timestamp is neither. The message describes the actual value.
    """
    if isinstance(timestamp, dt.datetime):
        if timestamp.tzinfo is None:
            raise ValueError(f"a datetime without a time zone, {timestamp}")
        return round((timestamp - _EPOCH) / _MICROSECOND)
    if not isinstance(timestamp, int | float) or isinstance(timestamp, bool):
        raise ValueError(f"{timestamp!r}, which is not a number of seconds")
    if not math.isfinite(timestamp):
        raise ValueError(f"{timestamp!r}, which is not a time")
    return round(timestamp * MICROSECONDS)


_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
