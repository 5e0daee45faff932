"""Checks of what functions of a program return: keys and event times."""

from __future__ import annotations  # pure

from typing import Any

from tupletree.errors import ReportedFailedException
from tupletree.keyed.progress import is_tuple_key
from tupletree.keyed.settings import datetime_ms


def checked_key(key: Any) -> None:
    """Check a key that is not plain. Raises ReportedFailedException if it is not a tuple of plain parts."""
    if not is_tuple_key(key):
        raise ReportedFailedException(f"key_by returned {key!r}; a str, bytes, an int or a tuple of these was expected")


def check_pair(result: Any) -> None:
    """Check a result that is no tuple of two. Raises TypeError if it is not another pair."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TypeError(
            f"update_state returned {result!r}; a pair of the key's new state and the element to pass on was expected"
        )


def second(first: Any, second: Any) -> Any:
    """Return the newer of two elements."""
    return second


def milliseconds(time: Any) -> int:
    """Return an event time that is no number of milliseconds in milliseconds.

    Raises:
        ReportedFailedException: it is not a datetime with a time zone.
    """
    time_ms = datetime_ms(time)
    if time_ms is not None:
        return time_ms
    raise ReportedFailedException(
        f"event_time returned {time!r}; a whole number of milliseconds or a datetime with a time zone was expected"
    )
