"""Check that the tasks of a component may change, as far as the outline of a topology tells.

What only the entries of a state can tell, such as a bolt that uses keys of its own, the worker of the checkpoint spout
finds out (docs/adr/0049).
"""

from __future__ import annotations  # pure

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tupletree._wire.names import is_system
from tupletree.errors import UsageError
from tupletree.grouping import grouping_name
from tupletree.outputs import CHECKPOINT_STREAM, REPORT_STREAM
from tupletree.state.options import DURABLE
from tupletree.v1 import topology_pb2 as pb

_DIVIDING = (pb.GROUPING_KIND_FIELDS, pb.GROUPING_KIND_ALL)


def check_task_change(
    record: pb.TopologyRecord, spec: pb.TopologySpec, components: Iterable[str], cluster_conf: Mapping[str, Any]
) -> None:
    """Check that the number of tasks of each component may change. ``spec`` may lack its objects.

    ``cluster_conf``: what holds where the topology says nothing.

    Raises:
        UsageError: it may not, or the topology has no such component.
    """
    known = {component.id: component for component in spec.components}
    for name in components:
        component = known.get(name)
        if component is None:
            ids = ", ".join(sorted(one for one in record.tasks if not is_system(one)))
            raise UsageError(f"topology '{record.name}' has no component '{name}'; it has {ids}")
        if is_system(name):
            raise UsageError(f"component '{name}' is part of Tupletree: its number of tasks does not change")
        if any(stream.id == REPORT_STREAM for one in spec.components for stream in one.outputs):
            raise UsageError(
                f"topology '{record.name}' is transactional: the numbers of tasks of its components are fixed, as its "
                f"progress is stored for each task; change its workers or executors"
            )
        if component.fixed_tasks:
            what = "positions" if component.kind == pb.COMPONENT_KIND_SPOUT else "states"
            remedy = "a spout with merge_states can" if what == "positions" else "change its executors"
            raise UsageError(
                f"component '{name}' has a fixed number of tasks, as the {what} of its tasks cannot be divided among "
                f"others: {remedy}"
            )
        if component.keeps_state and component.kind == pb.COMPONENT_KIND_BOLT:
            _check_state(record, component, cluster_conf)


def _check_state(record: pb.TopologyRecord, component: pb.ComponentSpec, cluster_conf: Mapping[str, Any]) -> None:
    own = json.loads(component.conf_json or "{}")
    conf = {**cluster_conf, **json.loads(record.conf_json or "{}"), **own}
    if (conf.get("topology.state.provider") or "memory") == "memory":
        raise UsageError(
            f"component '{component.id}' keeps its state in the memory of its workers, which a change of its tasks "
            f"replaces: {DURABLE}, when you submit the topology"
        )
    for item in component.inputs:
        if item.stream != CHECKPOINT_STREAM and item.grouping not in _DIVIDING:
            raise UsageError(
                f"component '{component.id}' keeps a state and receives '{item.source}' by "
                f"{grouping_name(item.grouping)} grouping: only a fields grouping says which task a key of the state "
                f"belongs to, so its number of tasks is fixed"
            )
    if component.checks_keys and record.tasks[component.id] == 1:
        raise UsageError(
            f"component '{component.id}' has one task, which does not show whether the keys of its state are those of "
            f"its grouping: if they are, set is_divisible = True on its class, and submit the topology again"
        )
