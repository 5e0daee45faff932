"""Logger levels: their names, including Storm's, and the levels in effect at a given time.

A level with an end (``until_unix_s``) applies until then. Afterwards its ``reset_level`` applies, if there is one;
otherwise the level counts as never set.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping
from typing import Final

from tupletree.errors import UsageError
from tupletree.v1 import topology_pb2 as pb

NUMBERS: Final = {"ALL": 1, "DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50, "OFF": 60}
"""The levels by name, with Python's logging numbers. ``ALL`` logs everything, ``OFF`` nothing."""

_OTHER_NAMES: Final = {"TRACE": "ALL", "WARN": "WARNING", "FATAL": "CRITICAL"}  # Storm's names


def level_name(text: str) -> str:
    """Return the canonical name of a level, from any case or Storm's name. Raises UsageError."""
    name = text.strip().upper()
    name = _OTHER_NAMES.get(name, name)
    if name not in NUMBERS:
        raise UsageError(f"'{text}' is not a log level; choose one of {', '.join(NUMBERS)}")
    return name


def levels_at(set_levels: Mapping[str, pb.LogLevel], now_unix_s: float) -> dict[str, str]:
    """Return the level of each logger that has its own level at this time, by name; "" is the root."""
    found = {}
    for logger, level in set_levels.items():
        name = level.reset_level if _is_over(level, now_unix_s) else level.level
        if name:
            found[logger] = name
    return found


def settled(set_levels: Mapping[str, pb.LogLevel], now_unix_s: float) -> dict[str, pb.LogLevel]:
    """Return the levels without those that have ended; equal to ``set_levels`` if none has."""
    found = {}
    for logger, level in set_levels.items():
        if not _is_over(level, now_unix_s):
            found[logger] = level
        elif level.reset_level:
            found[logger] = pb.LogLevel(level=level.reset_level)
    return found


def next_end(ends_unix_s: Mapping[str, float], now_unix_s: float) -> float | None:
    """Return the earliest future time of these, or None. 0 means never."""
    return min((end for end in ends_unix_s.values() if end > now_unix_s), default=None)


def _is_over(level: pb.LogLevel, now_unix_s: float) -> bool:
    return 0 < level.until_unix_s <= now_unix_s
