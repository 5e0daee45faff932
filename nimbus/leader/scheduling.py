"""The configured way of scheduling: evenly over slots, or by resources with quotas of owners."""

from __future__ import annotations  # pure

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tupletree import _limits
from tupletree._constraints import ISOLATION, POOLS
from tupletree.errors import ConfigError

from .blacklist import BlacklistRule

QUOTAS: Final = "nimbus.resource.quotas"
CPU_QUOTA: Final = "cpu"
MEMORY_QUOTA: Final = "memory_mb"
PRIORITY: Final = "topology.priority"
ALL_OTHERS: Final = "*"
"""Stands for the owners who have no quota of their own."""


@dataclass(frozen=True)
class Scheduling:
    """The scheduler of a cluster.

    ``quotas``: what the topologies of an owner may use together, by owner: ``cpu`` in percent of a processor,
    ``memory_mb``, and named resources. What is absent has no limit. ``topology.priority`` is the most important one
    that the owner's topologies can have. ``blacklist``: which machines get no new workers. ``isolated``: the numbers of
    machines that topologies have to themselves, by name. ``pools``: those that the topologies of a user share, by user.
    """

    by_resources: bool = False
    quotas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    blacklist: BlacklistRule = field(default_factory=BlacklistRule)
    isolated: Mapping[str, int] = field(default_factory=dict)
    pools: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "resource" if self.by_resources else "even"

    def quota(self, owner: str) -> Mapping[str, float]:
        """Return the quota of an owner; empty without one."""
        return self.quotas.get(owner, self.quotas.get(ALL_OTHERS, {}))

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> Scheduling:
        """Return the scheduling of nimbus's configuration.

        Raises ConfigError for a quota that is none, and for machines of topologies or of users under
        the resource scheduler.
        """
        found = cls(
            conf["nimbus.scheduler"] == "resource",
            {one: _quota(one, is_) for one, is_ in conf[QUOTAS].items()},
            BlacklistRule(
                int(conf["blacklist.scheduler.tolerance.count"]),
                float(conf["blacklist.scheduler.tolerance.time.secs"]),
                float(conf["blacklist.scheduler.resume.time.secs"]),
            ),
            dict(conf[ISOLATION]),
            dict(conf[POOLS]),
        )
        for key, machines in ((ISOLATION, found.isolated), (POOLS, found.pools)):
            if machines and found.by_resources:
                raise ConfigError(
                    f"configuration key '{key}' goes with nimbus.scheduler even, not resource: leave out one of them"
                )
        return found


def _quota(owner: str, quota: object) -> Mapping[str, float]:
    if not isinstance(quota, Mapping) or not all(isinstance(one, str) and _is_amount(quota[one]) for one in quota):
        raise ConfigError(
            f"configuration key '{QUOTAS}', owner {_limits.shown(owner)}: write amounts of 0 or more by name, such as "
            f'{{"cpu": 800, "memory_mb": 16000}}, not {_limits.shown(quota)}'
        )
    return {name: float(amount) for name, amount in quota.items()}


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
