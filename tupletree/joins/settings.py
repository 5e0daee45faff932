"""Settings of joins, and their validation."""

from __future__ import annotations  # pure

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from tupletree.errors import TopologyError
from tupletree.keyed.settings import MILLISECOND
from tupletree.outputs import DEFAULT_STREAM

Side = str | tuple[str, str]
"""The source of one side: a component, or a component and one of its streams."""

_INTERVAL: Final = (
    "write before = timedelta(...) and after = timedelta(...): how much earlier and how much later than the left tuple "
    "the right one can be"
)


def input_streams(component: str, sides: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the component and the stream of each side.

    Raises:
        TopologyError: a side is neither a component nor a component and a stream, or both sides are the same stream.
    """
    found = {role: _stream(component, role, side) for role, side in sides.items()}
    if len(set(found.values())) < len(found):
        roles = " and ".join(found)
        refuse(component, next(iter(found)), f"{roles} are the same stream, and a join has two: emit one of them apart")
    return found


def _stream(component: str, role: str, side: Any) -> tuple[str, str]:
    names = (side, DEFAULT_STREAM) if isinstance(side, str) else side
    if isinstance(names, tuple) and len(names) == 2 and all(isinstance(name, str) and name for name in names):
        return names
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
