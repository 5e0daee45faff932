"""Checks of what functions of a program return: keys and event times."""

from __future__ import annotations  # pure

import copy
from pathlib import PurePath
from types import NoneType
from typing import Any, Final

from tupletree.errors import ReportedFailedException
from tupletree.keyed.progress import is_tuple_key
from tupletree.keyed.settings import datetime_ms

ATOMS: Final = frozenset({int, float, str, bytes, bool, NoneType})
"""Types of values that cannot be changed."""


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


def check_results(function: Any, results: Any) -> None:
    """Check what the function of a ``flat_map`` returned, behind a TypeError. Raises TypeError if it is no iterable."""
    if hasattr(type(results), "__iter__") or hasattr(type(results), "__getitem__"):
        return
    raise TypeError(
        f"flat_map: {_title(function)} returned {results!r}; a list or another iterable was expected: "
        "return [] for no elements, or yield them"
    ) from None


def check_record(record: Any, element: Any) -> None:
    """Check an element of another type than the dataclass by whose fields it is to travel.

    Raises:
        TypeError: it is of a subclass with more fields, which would get lost.
    """
    more = sorted(getattr(element, "__dataclass_fields__", {}).keys() - record.__dataclass_fields__.keys())
    if more and isinstance(element, record):
        found = type(element).__name__
        raise TypeError(
            f"an element is a {found}, and an annotation says {record.__name__}, which has no {', '.join(more)}: "
            f"annotate with {found}; or, for elements of several classes, with their union, and mark each with "
            f"@tupletree.value"
        )


def _title(function: Any) -> str:
    """Return the name of a function, and where it is if that is known."""
    name = getattr(function, "__name__", "") or repr(function)
    code = getattr(function, "__code__", None)
    return name if code is None else f"{name} ({PurePath(code.co_filename).name}, line {code.co_firstlineno})"


def own_copy(value: Any) -> Any:
    """Return a copy of a value that a function may change in place; what cannot be changed is returned itself."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is dict:
        is_flat = ATOMS.issuperset(map(type, value)) and ATOMS.issuperset(map(type, value.values()))
        return value.copy() if is_flat else copy.deepcopy(value)
    if kind is list or kind is set:
        return value.copy() if ATOMS.issuperset(map(type, value)) else copy.deepcopy(value)
    if isinstance(value, tuple) and ATOMS.issuperset(map(type, value)):
        return value
    return copy.deepcopy(value)


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
