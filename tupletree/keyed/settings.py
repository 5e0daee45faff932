"""Settings of a KeyedProcess, and their validation."""

from __future__ import annotations  # pure

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

from tupletree.errors import ReportedFailedException, TopologyError, UsageError
from tupletree.tuples import Tuple

MILLISECOND = dt.timedelta(milliseconds=1)
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
MAX_TIME_MS = 1 << 60
"""The largest time of a timer, and the negative of the smallest: some thirty million years from 1970."""

MAX_EVENT_TIME_MS = MAX_TIME_MS // 2
"""The largest event time, and the negative of the smallest: it has room for timers after it."""

SECONDS_LIKE: Final = (10**8, 10**10)
"""Milliseconds from 2 January to 26 April 1970, and seconds from 1973 to 2286."""

MICROSECONDS_LIKE: Final = 10**14
"""Milliseconds of the year 5138, and microseconds of 1973."""


_MAX_LAG_MISSING = (
    "is missing, and event_time needs it: write max_lag = timedelta(...), how far a tuple may be behind the newest of "
    "its sending task before it is late; timedelta(0) if the times of every sending task ascend"
)


class Settable(Protocol):
    """The attributes of a KeyedProcess that its settings are made of."""

    key: str | Sequence[str]
    event_time: str | None
    max_lag: dt.timedelta | None
    idle_timeout: dt.timedelta | None
    ttl: dt.timedelta | None
    late_stream: str | None
    timer_interval: dt.timedelta


@dataclass(frozen=True, slots=True)
class KeyedSettings:
    """The settings of one KeyedProcess. None means that something is off."""

    key: tuple[str, ...]
    event_time: str | None
    max_lag_ms: int
    idle_timeout_ms: int | None
    ttl_ms: int | None
    late_stream: str | None
    timer_interval_s: float

    @classmethod
    def of(cls, component: str, bolt: Settable) -> KeyedSettings:
        """Return the settings of a bolt.

        Raises:
            TopologyError: there is no key, a setting has an invalid value, a setting of event time is used without
                ``event_time``, or ``event_time`` without ``max_lag``.
        """
        key = key_fields(bolt.key)
        if not key or not all(isinstance(name, str) and name for name in key):
            refuse(component, "key", f"must be the name of a field, or names of fields, not {bolt.key!r}")
        for name in ("event_time", "late_stream"):
            value = getattr(bolt, name)
            if value is not None and (not isinstance(value, str) or not value):
                refuse(component, name, f"must be a name, not {value!r}")
        if bolt.event_time is None:
            for name in ("max_lag", "idle_timeout", "late_stream"):
                if getattr(bolt, name):
                    refuse(component, name, "needs event time: set event_time too, to the name of a field")
        elif bolt.max_lag is None:
            refuse(component, "max_lag", _MAX_LAG_MISSING)
        return cls(
            key,
            bolt.event_time,
            0 if bolt.max_lag is None else milliseconds(component, "max_lag", bolt.max_lag, least_ms=0),
            optional_ms(component, "idle_timeout", bolt.idle_timeout),
            optional_ms(component, "ttl", bolt.ttl),
            bolt.late_stream,
            milliseconds(component, "timer_interval", bolt.timer_interval) / 1000,
        )


def key_fields(key: object) -> tuple[Any, ...]:
    """Return the fields of a key as a tuple; an empty tuple if ``key`` is neither a name nor a sequence."""
    if isinstance(key, str):
        return (key,)
    return tuple(key) if isinstance(key, Sequence) else ()


def optional_ms(component: str, name: str, value: Any) -> int | None:
    """Return a time in milliseconds, or None. Raises TopologyError for any other value than a timedelta or None."""
    return None if value is None else milliseconds(component, name, value)


def milliseconds(component: str, name: str, value: Any, least_ms: int = 1) -> int:
    """Return a time in whole milliseconds. Raises TopologyError if it is no timedelta of at least ``least_ms``."""
    if fault := duration_fault(value, least_ms):
        refuse(component, name, fault)
    duration: dt.timedelta = value
    return round(duration / MILLISECOND)


def duration_fault(value: Any, least_ms: int = 1) -> str:
    """Return why a value is no timedelta of at least ``least_ms``; "" if it is one."""
    if isinstance(value, dt.timedelta) and value >= least_ms * MILLISECOND:
        return ""
    return f"must be a timedelta of at least {least_ms} ms, not {value!r}"


def refuse(component: str, name: str, fault: str) -> NoReturn:
    """Raise the TopologyError of a setting."""
    raise TopologyError(f"bolt '{component}': {name} {fault}", component=component, field=name)


def datetime_ms(at: object) -> int | None:
    """Return a datetime with a time zone in milliseconds of Unix time; None for anything else."""
    if isinstance(at, dt.datetime) and at.tzinfo is not None:
        return round((at - _EPOCH) / MILLISECOND)
    return None


def event_time_ms(component: str, field: str, tup: Tuple) -> int:
    """Return the event time of a tuple whose field has no time in milliseconds, but may have a datetime.

    Raises:
        ReportedFailedException: the tuple has no valid time.
    """
    at = tup[field]
    if (at_ms := datetime_ms(at)) is not None:
        return at_ms
    raise ReportedFailedException(
        f"bolt '{component}': event time field '{field}' of a tuple of '{tup.source_component}', stream "
        f"'{tup.source_stream}', is {at!r}; a whole number of milliseconds or a datetime with a time zone was expected"
    )


def late_report(late: int, at_ms: int, watermark_ms: int, remedy: str) -> UsageError:
    """Return the error that reports dropped tuples: their number so far, and both times of the newest."""
    are = "1 tuple is late so far and was" if late == 1 else f"{late:,} tuples are late so far and were"
    return UsageError(
        f"{are} dropped, the newest with the event time {_shown(at_ms)}, behind the watermark {_shown(watermark_ms)}: "
        f"{remedy}"
    )


def unit_doubt(at_ms: int) -> UsageError | None:
    """Return the error that reports an event time that looks like seconds or microseconds; None for any other time."""
    if SECONDS_LIKE[0] <= at_ms < SECONDS_LIKE[1]:
        unit = "seconds"
    elif at_ms >= MICROSECONDS_LIKE:
        unit = "microseconds or less"
    else:
        return None
    return UsageError(f"event time {_shown(at_ms)} looks like {unit}: times are milliseconds since 1970")


def _shown(time_ms: int) -> str:
    try:
        return f"{time_ms} ({(_EPOCH + time_ms * MILLISECOND).isoformat(timespec='milliseconds')})"
    except OverflowError:
        return f"{time_ms} (outside the years 1 to 9999)"


def invalid_key(component: str, field: str, tup: Tuple, value: object) -> ReportedFailedException:
    """Return the error of a tuple whose key is not one of a state."""
    return ReportedFailedException(
        f"bolt '{component}': key field '{field}' of a tuple of '{tup.source_component}', stream "
        f"'{tup.source_stream}', is {value!r}; a str, bytes, an int or a tuple of these was expected"
    )
