"""Settings of a stateful topology, and their validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tupletree._limits import MAX_NAME, shown
from tupletree._wire.names import topology_name
from tupletree.component import Component, StatefulBolt
from tupletree.errors import ConfigError, UsageError
from tupletree.state.options import PROVIDER
from tupletree.state.providers import BUILT_IN, check_provider, outlives_workers, provider_name
from tupletree.v1 import topology_pb2 as pb

if TYPE_CHECKING:
    from tupletree._checkpoints.record import Checkpoint

MIN_INTERVAL_S = 0.1
ALIGNED = "topology.state.checkpoint.aligned"
SAVEPOINT = "topology.state.savepoint"


def check_settings(conf: Mapping[str, Any]) -> None:
    """Check the configuration of a stateful topology.

    Raises:
        ConfigError: there are no ackers, the checkpoint interval is not below the message timeout, or the provider is
            invalid.
        UsageError: the state id is not a valid name.
    """
    if conf["topology.acker.executors"] == 0:
        raise ConfigError(
            "topology.acker.executors is 0, and a stateful topology requires ackers to detect the end of a checkpoint"
        )
    check_interval(conf)
    check_provider(conf)
    if conf["topology.state.id"] is not None:
        check_state_id(str(conf["topology.state.id"]))


def check_interval(conf: Mapping[str, Any]) -> None:
    """Raise ConfigError if the checkpoint interval is not below the message timeout."""
    timeout_s = conf["topology.message.timeout.secs"]
    if conf["topology.enable.message.timeouts"] and interval_s(conf) >= timeout_s:
        raise ConfigError(
            f"topology.state.checkpoint.interval.ms ({conf['topology.state.checkpoint.interval.ms']}) must be less "
            f"than topology.message.timeout.secs ({timeout_s}): tuples wait for a checkpoint to be acked"
        )


def check_needs(components: Mapping[str, Component], conf: Mapping[str, Any]) -> None:
    """Check that bolts that write with checkpoints can do so. A provider that is a user's class is left to workers.

    Raises:
        ConfigError: a bolt cannot work with the configuration.
    """
    for component_id, one in components.items():
        if isinstance(one, StatefulBolt) and one.needs_positions and provider_name(conf) in BUILT_IN:
            one.check_conf(component_id, conf)


def is_in_checkpoints(component: pb.ComponentSpec, is_aligned: bool) -> bool:
    """True if the checkpoints of a topology that takes them have the state or the positions of a component.

    The positions of a spout are in aligned checkpoints alone. Without them its source keeps its positions.
    """
    return component.keeps_state and (is_aligned or component.kind == pb.COMPONENT_KIND_BOLT)


def stored_versions(
    versions: Mapping[str, int], providers: Mapping[str, str], conf: Mapping[str, Any]
) -> dict[str, int]:
    """Return the ``state_version`` of those components whose states outlive their workers, where it is not 1.

    ``versions``: of all components. ``providers``: those that components have of their own.
    """
    return {id: one for id, one in versions.items() if outlives_workers(providers.get(id, conf.get(PROVIDER)))}


def awaits_savepoint(conf: Mapping[str, Any], topology_id: str, stored: Checkpoint) -> bool:
    """True if a topology begins with a savepoint whose states are not restored yet, given the stored checkpoint."""
    return bool(conf.get(SAVEPOINT)) and stored.origin != topology_id


def interval_s(conf: Mapping[str, Any]) -> float:
    """Return the pause between two checkpoints in seconds."""
    return max(MIN_INTERVAL_S, float(conf["topology.state.checkpoint.interval.ms"]) / 1000)


def state_id(conf: Mapping[str, Any], topology_id: str) -> str:
    """Return the id under which states and checkpoints are stored. Raises UsageError if it is not a valid name."""
    chosen = conf["topology.state.id"]
    found = str(chosen) if chosen is not None else topology_name(topology_id)
    check_state_id(found)
    return found


def check_state_id(state_id: str) -> None:
    """Raise UsageError if a state id cannot be part of the names of states."""
    is_made_of_names = all(c.isascii() and (c.isalnum() or c in "-_.") for c in state_id)
    if not 0 < len(state_id) <= MAX_NAME or not is_made_of_names or state_id[0] == ".":
        raise UsageError(
            f"topology.state.id {shown(state_id)} must consist of at most {MAX_NAME} letters, digits, '-', '_' and "
            "'.', not starting with '.'"
        )
