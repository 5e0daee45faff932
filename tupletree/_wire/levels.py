"""The levels of loggers: their names, Storm's among them, and which hold at a given time.

A level that has an end (``until_unix_s``) holds until then, and after it the level that it says it returns to, if it
says one. What has ended and returns to nothing is as if it had never been set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tupletree.errors import UsageError
from tupletree.v1 import topology_pb2 as pb

NUMBERS: Final = {"ALL": 1, "DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50, "OFF": 60}
"""The levels by name, as Python's logging counts them. ``ALL`` logs everything, ``OFF`` nothing."""

_OTHER_NAMES: Final = {"TRACE": "ALL", "WARN": "WARNING", "FATAL": "CRITICAL"}  # as Storm calls them


def level_name(text: str) -> str:
    """The name of a level, however it is written. Raises UsageError."""
    name = text.strip().upper()
    name = _OTHER_NAMES.get(name, name)
    if name not in NUMBERS:
        raise UsageError(f"'{text}' is no log level; there are {', '.join(NUMBERS)}")
    return name


def levels_at(set_levels: Mapping[str, pb.LogLevel], now_unix_s: float) -> dict[str, str]:
    """The level of each logger that has one of its own at this time, by name; "" is the root."""
    found = {}
    for logger, level in set_levels.items():
        name = level.reset_level if _is_over(level, now_unix_s) else level.level
        if name:
            found[logger] = name
    return found


def settled(set_levels: Mapping[str, pb.LogLevel], now_unix_s: float) -> dict[str, pb.LogLevel]:
    """The same, less what has ended; equal to what is given if nothing has."""
    found = {}
    for logger, level in set_levels.items():
        if not _is_over(level, now_unix_s):
            found[logger] = level
        elif level.reset_level:
            found[logger] = pb.LogLevel(level=level.reset_level)
    return found


def next_end(ends_unix_s: Mapping[str, float], now_unix_s: float) -> float | None:
    """The first of these times that is still to come. 0 is never."""
    return min((end for end in ends_unix_s.values() if end > now_unix_s), default=None)


def _is_over(level: pb.LogLevel, now_unix_s: float) -> bool:
    return 0 < level.until_unix_s <= now_unix_s
