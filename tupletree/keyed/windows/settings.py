"""Settings of a KeyedWindow, and their validation."""

from __future__ import annotations  # pure

import datetime as dt
from dataclasses import dataclass
from typing import Any, Protocol

from tupletree.keyed.settings import MILLISECOND, milliseconds, optional_ms, refuse
from tupletree.keyed.windows.aligned import AlignedWindows
from tupletree.keyed.windows.counts import CountWindows
from tupletree.keyed.windows.kinds import CountWindow, Kind, Session, Sliding, Tumbling
from tupletree.keyed.windows.record import Aggregate, Windows
from tupletree.keyed.windows.sessions import SessionWindows

FORMAT = 1


class Settable(Aggregate, Protocol):
    """The attributes of a KeyedWindow that its settings are made of."""

    window: Kind | None
    event_time: str | None
    ttl: dt.timedelta | None
    default_factory: Any
    allowed_lateness: dt.timedelta
    early_every: dt.timedelta | None
    early_count: int | None


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """The settings of one KeyedWindow.

    Attributes:
        layout: how windows are stored: another layout cannot read them.
    """

    windows: Windows
    early_every_ms: int | None
    layout: list[Any]

    @classmethod
    def of(cls, component: str, bolt: Settable, *, has_merge: bool) -> WindowSettings:
        """Return the settings of a bolt. ``has_merge``: ``merge`` fits the accumulators.

        Raises:
            TopologyError: there is no window, a setting has an invalid value, or does not fit the kind of window.
        """
        if bolt.default_factory is not None:
            refuse(component, "default_factory", "is not used by windows: define initial, which begins a window")
        early_every_ms = optional_ms(component, "early_every", bolt.early_every)
        if bolt.early_count is not None:
            _check_number(component, "early_count", bolt.early_count)
        is_early = early_every_ms is not None or bolt.early_count is not None
        if isinstance(bolt.window, CountWindow):
            windows, layout = _counted(component, bolt, bolt.window, has_merge, is_early)
        else:
            windows, layout = _timed(component, bolt, has_merge, is_early)
        return cls(windows, early_every_ms, [FORMAT, *layout])


def _counted(
    component: str, bolt: Settable, window: CountWindow, has_merge: bool, is_early: bool
) -> tuple[Windows, list[Any]]:
    """Return windows of numbers of tuples, and their layout."""
    reason = "a CountWindow counts tuples in the order in which they come"
    if bolt.event_time is not None:
        refuse(component, "event_time", f"has no use: {reason}")
    if bolt.allowed_lateness:
        refuse(component, "allowed_lateness", f"has no use: {reason}")
    if bolt.early_count is not None:
        refuse(component, "early_count", "has no use with a CountWindow: choose a smaller window.every")
    size, every = window.size, window.size if window.every is None else window.every
    _check_number(component, "window.size", size)
    _check_number(component, "window.every", every)
    _check_every(component, size, every)
    has_panes = has_merge or every == size
    windows = CountWindows(bolt, size, every, has_panes=has_panes, is_early=is_early)
    return windows, ["count", size, every, has_panes]


def _timed(component: str, bolt: Settable, has_merge: bool, is_early: bool) -> tuple[Windows, list[Any]]:
    """Return windows in time, and their layout."""
    if bolt.ttl is not None:
        refuse(component, "ttl", "needs a CountWindow: a window in time is removed when it is over")
    lateness_ms = milliseconds(component, "allowed_lateness", bolt.allowed_lateness, least_ms=0)
    if lateness_ms and bolt.event_time is None:
        refuse(component, "allowed_lateness", "needs event time: set event_time too, to the name of a field")
    triggers: dict[str, Any] = {"lateness": lateness_ms, "early_count": bolt.early_count, "is_early": is_early}
    domain = "processing" if bolt.event_time is None else "event"
    match bolt.window:
        case Session(gap):
            if not has_merge:
                refuse(component, "window", "is a Session, and needs merge(first, second): a tuple can join two")
            gap_ms = milliseconds(component, "window.gap", gap)
            return SessionWindows(bolt, gap_ms, **triggers), [domain, "session"]
        case Tumbling(size, offset):
            every = size
        case Sliding(size, every, offset):
            pass
        case _:
            kinds = "Tumbling, Sliding, Session or CountWindow"
            refuse(component, "window", f"must be a window of the kind {kinds}, not {bolt.window!r}")
    size_ms = milliseconds(component, "window.size", size)
    every_ms = milliseconds(component, "window.every", every)
    _check_every(component, size, every)
    if not isinstance(offset, dt.timedelta):
        refuse(component, "window.offset", f"must be a timedelta, not {offset!r}")
    offset_ms = round(offset / MILLISECOND) % every_ms
    has_panes = every_ms == size_ms or (has_merge and bolt.early_count is None)
    windows = AlignedWindows(bolt, size_ms, every_ms, offset_ms, has_panes=has_panes, **triggers)
    return windows, [domain, size_ms, every_ms, offset_ms, has_panes]


def _check_number(component: str, name: str, value: Any) -> None:
    if type(value) is not int or value < 1:
        refuse(component, name, f"must be a number of tuples, at least 1, not {value!r}")


def _check_every(component: str, size: Any, every: Any) -> None:
    if every > size:
        fault = f"must be at most window.size, {size}, not {every}: tuples between two windows would be lost"
        refuse(component, "window.every", fault)
