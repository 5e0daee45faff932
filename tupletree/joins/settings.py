"""Settings of joins, and their validation."""

from __future__ import annotations  # pure

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from tupletree.errors import TopologyError
from tupletree.keyed.settings import MILLISECOND
from tupletree.outputs import DEFAULT_STREAM

Side = str | tuple[str, str] | list[tuple[str, str]]
"""The source of one side: a component, a component and one of its streams, or several such pairs."""

_INTERVAL: Final = (
    "write before = timedelta(...) and after = timedelta(...): how much earlier and how much later than the left tuple "
    "the right one can be"
)


def input_streams(component: str, sides: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Return the components and streams of each side.

    Raises:
        TopologyError: a side is neither a component nor components and streams, or a stream is on both sides.
    """
    found = {role: _streams(component, role, side) for role, side in sides.items()}
    first, second = found.values()
    if set(first) & set(second):
        roles = " and ".join(found)
        refuse(
            component,
            next(iter(found)),
            f"{roles} are the same stream, and a join needs two: emit it on a second one too",
        )
    return found


def _streams(component: str, role: str, side: Any) -> list[tuple[str, str]]:
    streams = side if isinstance(side, list) and side else [(side, DEFAULT_STREAM) if isinstance(side, str) else side]
    if all(
        isinstance(one, tuple) and len(one) == 2 and all(isinstance(name, str) and name for name in one)
        for one in streams
    ):
        return list(streams)
    refuse(component, role, f"{role} must be the id of a component, or (component, stream), not {side!r}")


def check_kind(component: str, kind: Any, allowed: Iterable[str]) -> None:
    """Raise TopologyError if the kind of a join is not one of those allowed."""
    names = list(allowed)
    if kind not in names:
        *others, last = map(repr, names)
        refuse(component, "kind", f"kind must be {', '.join(others)} or {last}, not {kind!r}")


def interval_ms(component: str, before: Any, after: Any) -> tuple[int, int]:
    """Return both bounds of an interval in milliseconds.

    Raises:
        TopologyError: a bound is missing or no timedelta, or the interval is empty.
    """
    for name, value in (("before", before), ("after", after)):
        if value is None:
            refuse(component, name, f"{name} is missing: {_INTERVAL}")
        if not isinstance(value, dt.timedelta):
            refuse(component, name, f"{name} must be a timedelta, not {value!r}")
    if before + after < dt.timedelta(0):
        refuse(component, "before", f"no time is from {before} before to {after} after the left tuple's time")
    return round(before / MILLISECOND), round(after / MILLISECOND)


def refuse(component: str, field: str, fault: str) -> NoReturn:
    """Raise the TopologyError of a bolt."""
    raise TopologyError(f"bolt '{component}': {fault}", component=component, field=field)
