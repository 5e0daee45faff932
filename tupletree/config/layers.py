"""The layers of a topology's configuration: the defaults, the cluster's, the topology's and the component's."""

from __future__ import annotations  # pure

import json
from collections.abc import Mapping
from typing import Any

from tupletree import _limits
from tupletree.config.changes import change_of
from tupletree.config.keys import FAMILIES, KEYS, TOPOLOGY_FAMILIES
from tupletree.config.topology_conf import TopologyKeys
from tupletree.config.validation import quoted, validate
from tupletree.errors import ConfigError


class Config(TopologyKeys, dict[str, Any]):
    """A topology's or component's configuration: a dict that validates each key when set. A plain dict works too.

    The keys are constants of the class: ``Config.TOPOLOGY_WORKERS``. ``TopologyConf`` has the types of their values.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.update(*args, **kwargs)

    def __setitem__(self, key: str, value: Any) -> None:
        validate({key: value})
        super().__setitem__(key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def set_num_workers(self, workers: int) -> None:
        self["topology.workers"] = workers

    def set_num_ackers(self, shards: int | None) -> None:
        self["topology.acker.executors"] = shards

    def set_message_timeout_secs(self, timeout_s: float) -> None:
        self["topology.message.timeout.secs"] = timeout_s

    def set_max_spout_pending(self, trees: int | None) -> None:
        self["topology.max.spout.pending"] = trees

    def set_max_task_parallelism(self, tasks: int | None) -> None:
        self["topology.max.task.parallelism"] = tasks

    def set_debug(self, on: bool) -> None:
        self["topology.debug"] = on


def defaults() -> dict[str, Any]:
    """Return a fresh copy of every key's default."""
    return {name: _fresh(key.default) for name, key in KEYS.items()}


def merge(daemon_conf: Mapping[str, Any], topology_conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a running topology: the cluster's, overridden by the topology's own keys."""
    return {**daemon_conf, **topology_part(topology_conf)}


def topology_part(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that travel with a topology: the topology families and user keys, not the cluster's."""
    return {name: value for name, value in conf.items() if not _belongs_to_cluster(name)}


def component_conf(conf: Mapping[str, Any], component: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of one component: the topology's, overridden by the component's own."""
    own = {name: value for name, value in component.items() if name not in KEYS or KEYS[name].component_level}
    return {**conf, **own}


def encode_conf(conf: Mapping[str, Any]) -> str:
    """Return the configuration as canonical JSON. Raises ConfigError naming a key whose value is not valid JSON."""
    for name, value in conf.items():
        fault = _limits.value_fault(value)
        if fault:
            raise ConfigError(f"configuration key {quoted(name)} {fault}")
        try:
            json.dumps(value, allow_nan=False, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"configuration key {quoted(name)} must hold a JSON value: {error}") from None
    return json.dumps(dict(conf), sort_keys=True, separators=(",", ":"))


def render_yaml() -> str:
    """Return a tupletree.yaml of all defaults, with documentation. The source of ``deploy/conf/tupletree.yaml``."""
    lines = [
        "# Every configuration key of Tupletree with its default. Copy what you want to change to ./tupletree.yaml,",
        "# ~/.tupletree/tupletree.yaml or a file of your own ($TUPLETREE_CONF, --conf).",
        "# (live), (restart), (fixed): how tupletree config set changes a key of a running topology.",
        "# Written by: tupletree config list --yaml",
    ]
    family = ""
    for key in KEYS.values():
        if key.family != family:
            family = key.family
            lines += ["", f"# --- {family} " + "-" * (70 - len(family))]
        unit = f" [{key.unit}]" if key.unit else ""
        level = " (also for one component)" if key.component_level else ""
        change = change_of(key.name)
        how = "" if change == "daemon" else f" ({change})"
        lines += [f"# {key.doc}{unit}{level}{how}", f"{key.name}: {json.dumps(key.default)}"]
    return "\n".join(lines) + "\n"


def _fresh(value: Any) -> Any:
    if isinstance(value, list):
        return list(value)
    return dict(value) if isinstance(value, dict) else value


def _belongs_to_cluster(name: str) -> bool:
    family = name.partition(".")[0]
    return family in FAMILIES and family not in TOPOLOGY_FAMILIES
