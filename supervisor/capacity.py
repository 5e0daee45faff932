"""The capacity that a supervisor announces: what is configured, else what its machine or container has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

RESERVE_MB: Final = 1024.0
"""Memory that is left to the system and the daemons."""

_CGROUP_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_MB: Final = 1024 * 1024


@dataclass(frozen=True)
class Capacity:
    """The resources that executors can use on this machine."""

    cpu_percent: float
    memory_mb: float
    resources: Mapping[str, float]

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> Capacity:
        """Return the configured capacity, completed by that of the machine."""
        cpu, memory = conf["supervisor.cpu.capacity"], conf["supervisor.memory.capacity.mb"]
        return cls(
            cpu_percent=100.0 * processors() if cpu is None else float(cpu),
            memory_mb=usable_mb(memory_mb()) if memory is None else float(memory),
            resources={str(name): float(amount) for name, amount in conf["supervisor.resources"].items()},
        )


def processors() -> int:
    """Return the number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def memory_mb() -> float:
    """Return the memory of this machine, or the limit of this container if that is less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        try:
            with open(path, encoding="ascii") as file:
                found.append(int(file.read()))
        except (OSError, ValueError):
            continue  # there is no such file, or it says "max"
    return min(found) / _MB


def usable_mb(memory_mb: float) -> float:
    """Return what a machine's memory leaves for executors."""
    return float(round(max(memory_mb - RESERVE_MB, memory_mb / 2)))
