"""Settings of a topology that nimbus scales by its load: read from its configuration, checked with its components."""

from __future__ import annotations  # pure

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tupletree._limits import autoscale_fault, shown
from tupletree._wire.names import is_system
from tupletree.errors import ConfigError
from tupletree.state.options import DURABLE
from tupletree.v1 import topology_pb2 as pb

BOUNDS: Final = "topology.autoscale"
MAX_WORKERS: Final = "topology.autoscale.max.workers"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The smallest and the largest number of executors of a component."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one topology.

    Attributes:
        max_workers: None if the number of workers stays as it is.
        min_workers: the workers of the submission, if ``max_workers`` is given.
        up_s, down_s: the times over which the load counts.
    """

    bounds: Mapping[str, Bounds]
    max_workers: int | None = None
    min_workers: int = 1
    up_s: float = 60.0
    down_s: float = 600.0
    cooldown_s: float = 180.0


@functools.lru_cache(1024)
def settings_of(conf_json: str) -> Settings | None:
    """Return the settings in a stored configuration; None without ``topology.autoscale``, or if it is unreadable."""
    try:
        conf = json.loads(conf_json or "{}")
        return _settings(conf) if conf.get(BOUNDS) else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _settings(conf: Mapping[str, Any]) -> Settings | None:
    bounds = conf[BOUNDS]
    if autoscale_fault(bounds):
        return None
    up_s = float(conf.get("topology.autoscale.up.secs", 60))
    return Settings(
        bounds={name: Bounds(value["min"], value["max"]) for name, value in sorted(bounds.items())},
        max_workers=conf.get(MAX_WORKERS),
        min_workers=int(conf.get("topology.workers", 1)),
        up_s=up_s,
        down_s=max(up_s, float(conf.get("topology.autoscale.down.secs", 600))),
        cooldown_s=float(conf.get("topology.autoscale.cooldown.secs", 180)),
    )


def check_autoscale(
    conf: Mapping[str, Any],
    executors: Mapping[str, int],
    tasks: Mapping[str, int],
    workers: int,
    spec: pb.TopologySpec,
) -> None:
    """Check that nimbus can scale a topology as its configuration says. ``spec`` may lack its objects.

    Raises:
        ConfigError: it cannot, or a component cannot have so many executors.
    """
    bounds = conf.get(BOUNDS) or {}
    known = {component.id: component for component in spec.components}
    for name, given in sorted(bounds.items()):
        component = known.get(name)
        if component is None or is_system(name):
            bolts = ", ".join(one for one in known if not is_system(one) and known[one].kind == pb.COMPONENT_KIND_BOLT)
            raise ConfigError(f"{BOUNDS} names {shown(name)}, which is no bolt of the topology: it has {bolts}")
        if component.kind != pb.COMPONENT_KIND_BOLT:
            raise ConfigError(
                f"{BOUNDS} names the spout '{name}', but it is for bolts: leave it out, and change the executors of a "
                f"spout with 'tupletree rebalance'"
            )
        if given["max"] > tasks[name]:
            raise ConfigError(
                f"{BOUNDS} permits {given['max']} executors of component '{name}', which has {tasks[name]} tasks, one "
                f"at least for each executor: give it {given['max']} tasks (topology.tasks), or a smaller max"
            )
        if not given["min"] <= executors[name] <= given["max"]:
            raise ConfigError(
                f"component '{name}' has {executors[name]} executors, which is not within its bounds in {BOUNDS}, "
                f"{given['min']} to {given['max']}: begin with a number between them"
            )
    if bounds:
        _check_workers(conf, workers)
        _check_memory(conf, spec)


def _check_workers(conf: Mapping[str, Any], workers: int) -> None:
    most = conf.get(MAX_WORKERS)
    if most is not None and workers > most:
        raise ConfigError(
            f"the topology has {workers} workers, more than {MAX_WORKERS}, which is {most}: raise that, or give it "
            f"fewer workers"
        )


def _check_memory(conf: Mapping[str, Any], spec: pb.TopologySpec) -> None:
    """Refuse states in the memory of workers: each change of executors replaces workers."""
    for component in spec.components:
        if not component.keeps_state or component.kind != pb.COMPONENT_KIND_BOLT:
            continue
        own = {**conf, **json.loads(component.conf_json or "{}")}
        if (own.get("topology.state.provider") or "memory") == "memory":
            raise ConfigError(
                f"component '{component.id}' keeps its state in the memory of its workers, which {BOUNDS} replaces: "
                f"{DURABLE}"
            )
