"""Debug settings of a running topology: logger levels, sampled tuples and traced tuple trees.

The settings are part of the topology's record, and workers follow the record. A setting with an end time expires by
itself: workers check the clock, replies leave expired settings out, and the next change removes them from the record.
Times are Unix seconds.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tupletree._wire.levels import level_name, settled
from tupletree.errors import UsageError
from tupletree.v1 import topology_pb2 as pb

MAX_LOGGERS = 100  # loggers with a level of their own, per topology
MAX_ONE_IN = 2**32 - 1
_MAX_NAME_LENGTH = 200
_MAX_S = 7 * 24 * 3600.0


@dataclass(frozen=True)
class SetLogLevels:
    levels: Mapping[str, pb.LogLevel]  # by logger; "" is the root
    remove: Sequence[str]


@dataclass(frozen=True)
class SetSampling:
    component: str  # "": all
    percent: float
    until_unix_s: float = 0.0  # 0: no end


@dataclass(frozen=True)
class SetTracing:
    one_in: int  # 0: off
    until_unix_s: float = 0.0


DebugSettings = SetLogLevels | SetSampling | SetTracing


def observed(record: pb.TopologyRecord, request: DebugSettings, now_s: float) -> pb.TopologyRecord:
    """Return the record with a request applied; equal to ``record`` if nothing changes. Raises UsageError."""
    after = pb.TopologyRecord()
    after.CopyFrom(record)
    _forget_what_is_over(after, now_s)
    match request:
        case SetLogLevels(levels, remove):
            _set_levels(after, levels, remove, now_s)
        case SetSampling(component, percent, until_unix_s):
            _set_sampling(after, component, percent, until_unix_s, now_s)
        case SetTracing(one_in, until_unix_s):
            _check_end(until_unix_s, now_s)
            if one_in > MAX_ONE_IN or one_in < 0:
                raise UsageError(
                    f"the tracing rate (one tree in N) must be a number from 0 to {MAX_ONE_IN}, not {one_in}"
                )
            after.traced_one_in = one_in
            after.traced_until_unix_s = until_unix_s if one_in else 0.0
    return after


def in_force(record: pb.TopologyRecord, now_s: float) -> pb.TopologyRecord:
    """Return the record without the debug settings that are over."""
    if not (record.log_levels or record.sampled_until_unix_s or record.traced_until_unix_s):
        return record
    after = pb.TopologyRecord()
    after.CopyFrom(record)
    _forget_what_is_over(after, now_s)
    return after


def _set_levels(
    record: pb.TopologyRecord, levels: Mapping[str, pb.LogLevel], remove: Sequence[str], now_s: float
) -> None:
    for logger in remove:
        record.log_levels.pop(_logger(logger), None)
    for logger, asked in levels.items():
        _check_end(asked.until_unix_s, now_s)
        reset = level_name(asked.reset_level) if asked.reset_level else ""
        record.log_levels[_logger(logger)].CopyFrom(
            pb.LogLevel(level=level_name(asked.level), reset_level=reset, until_unix_s=asked.until_unix_s)
        )
    if len(record.log_levels) > MAX_LOGGERS:
        raise UsageError(f"a topology can have at most {MAX_LOGGERS} loggers with levels of their own")


def _set_sampling(record: pb.TopologyRecord, component: str, percent: float, until_unix_s: float, now_s: float) -> None:
    if component and component not in record.tasks:
        known = ", ".join(sorted(record.tasks))
        raise UsageError(f"topology '{record.name}' has no component '{component}'; it has {known}")
    if not math.isfinite(percent) or not 0 <= percent <= 100:
        raise UsageError(f"the sampling percentage must be a number from 0 to 100, not {percent:g}")
    _check_end(until_unix_s, now_s)
    if not component and not percent:
        record.sampled_percent.clear()
        record.sampled_until_unix_s.clear()
        return
    record.sampled_until_unix_s.pop(component, None)
    if not percent and not record.sampled_percent.get("", 0.0):
        record.sampled_percent.pop(component, None)
        return
    record.sampled_percent[component] = percent  # 0 excludes this component from the sampling of all
    if until_unix_s and percent:
        record.sampled_until_unix_s[component] = until_unix_s


def _forget_what_is_over(record: pb.TopologyRecord, now_s: float) -> None:
    kept = settled(record.log_levels, now_s)
    for logger in set(record.log_levels) - set(kept):
        del record.log_levels[logger]
    for logger, level in kept.items():
        record.log_levels[logger].CopyFrom(level)
    for component, until_unix_s in list(record.sampled_until_unix_s.items()):
        if 0 < until_unix_s <= now_s:
            del record.sampled_until_unix_s[component]
            record.sampled_percent.pop(component, None)
    if 0 < record.traced_until_unix_s <= now_s:
        record.traced_one_in, record.traced_until_unix_s = 0, 0.0


def _logger(name: str) -> str:
    if len(name) > _MAX_NAME_LENGTH or not name.isprintable() or any(char.isspace() for char in name):
        raise UsageError(
            f"{name[:_MAX_NAME_LENGTH]!r} is not a logger name: it must have at most {_MAX_NAME_LENGTH} printable "
            f"characters and no spaces"
        )
    return "" if name in ("root", "ROOT") else name


def _check_end(until_unix_s: float, now_s: float) -> None:
    if until_unix_s and not (math.isfinite(until_unix_s) and now_s < until_unix_s <= now_s + _MAX_S):
        raise UsageError(f"a debug setting must end in the future, at most {_MAX_S / 86400:.0f} days from now")
