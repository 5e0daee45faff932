"""Debug settings of a topology's record, and the switches in force at a given time. Pure.

A switch with an end is in force only until the end, even if nobody removes the switch from the record.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping
from dataclasses import dataclass, field

from tupletree._wire.levels import levels_at, next_end
from tupletree.v1 import topology_pb2 as pb


@dataclass(frozen=True, slots=True)
class Switches:
    """The switches in force: levels by logger, sampled shares by component (0 to 1), tracing of one in N trees."""

    levels: Mapping[str, str] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    one_in: int = 0

    def share_of(self, component: str) -> float:
        """Return the sampled share of a component's tuples."""
        return self.shares.get(component, self.shares.get("", 0.0))

    @property
    def wants_events(self) -> bool:
        """True if a switch causes events to be written to events.jsonl."""
        return self.one_in > 0 or any(self.shares.values())


@dataclass(frozen=True, slots=True)
class DebugSettings:
    """The debug settings in a topology's record."""

    levels: Mapping[str, pb.LogLevel] = field(default_factory=dict)
    percent: Mapping[str, float] = field(default_factory=dict)
    percent_until_unix_s: Mapping[str, float] = field(default_factory=dict)
    one_in: int = 0
    one_in_until_unix_s: float = 0.0

    @staticmethod
    def of(record: pb.TopologyRecord) -> DebugSettings:
        return DebugSettings(
            dict(record.log_levels),
            dict(record.sampled_percent),
            dict(record.sampled_until_unix_s),
            record.traced_one_in,
            record.traced_until_unix_s,
        )

    def at(self, now_unix_s: float) -> Switches:
        """Return the switches in force at a given time."""
        ends = self.percent_until_unix_s
        shares = {
            component: min(100.0, percent) / 100
            for component, percent in self.percent.items()
            if not 0 < ends.get(component, 0.0) <= now_unix_s
        }
        is_traced = not 0 < self.one_in_until_unix_s <= now_unix_s
        return Switches(levels_at(self.levels, now_unix_s), shares, self.one_in if is_traced else 0)

    def next_end(self, now_unix_s: float) -> float | None:
        """Return the time at which the next switch ends, or None."""
        ends = {f"level {logger}": level.until_unix_s for logger, level in self.levels.items()}
        ends |= {f"share {component}": end for component, end in self.percent_until_unix_s.items()}
        return next_end({**ends, "trees": self.one_in_until_unix_s}, now_unix_s)
