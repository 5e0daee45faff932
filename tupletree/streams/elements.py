"""Checks of what functions of a program return: keys and event times."""

from __future__ import annotations  # pure

import datetime as dt
from typing import Any, Final

from tupletree.errors import ReportedFailedException

PLAIN: Final = frozenset({str, bytes, int})
"""The types of keys of one part."""

_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


def checked_key(key: Any) -> None:
    """Check a key that is not plain. Raises ReportedFailedException if it is not a tuple of plain parts."""
    if type(key) is not tuple or not key or not all(type(part) in PLAIN for part in key):
        raise ReportedFailedException(f"key_by returned {key!r}; a str, bytes, an int or a tuple of these was expected")


def check_pair(result: Any) -> None:
    """Check a result that is no tuple of two. Raises TypeError if it is not another pair."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TypeError(
            f"update_state returned {result!r}; a pair of the key's new state and the element to pass on was expected"
        )


def milliseconds(time: Any) -> int:
    """Return an event time that is no int in milliseconds.

    Raises:
        ReportedFailedException: it is not a datetime with a time zone.
    """
    if isinstance(time, dt.datetime) and time.tzinfo is not None:
        return round((time - _EPOCH) / _MILLISECOND)
    raise ReportedFailedException(
        f"event_time returned {time!r}; a whole number of milliseconds or a datetime with a time zone was expected"
    )
