"""Numbers of tasks and executors of a topology, what executors need, and the task ids that each runs.

Tasks are the copies of a component that hold state; each executor runs one or more tasks. Task ids start at 1 and are
assigned component by component, ascending by component id::

    component   tasks   executors          task ids
    count         5         2        (1 2 3) (4 5)
    split         2         2        (6) (7)

LocalCluster derives these numbers from a spec, nimbus from a topology's record. A rebalance that changes a number of
tasks gives all tasks new ids, which follow the ids used before: an id never means another task than it did.
"""

from __future__ import annotations  # pure

import json
from collections.abc import Mapping
from typing import Any

from tupletree.v1 import topology_pb2

ExecutorTasks = tuple[int, int]
"""The first and the last task id of an executor, inclusive; its task ids are contiguous."""


def task_counts(spec: topology_pb2.TopologySpec, conf: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of tasks of each component, ascending by component id.

    A component's own ``topology.tasks`` and ``topology.max.task.parallelism`` override the topology's.
    """
    counts = {}
    for component in sorted(spec.components, key=lambda c: c.id):
        merged = {**conf, **_own_conf(component)}
        tasks = merged.get("topology.tasks") or component.tasks or component.parallelism or 1
        cap = merged.get("topology.max.task.parallelism")
        counts[component.id] = max(1, min(tasks, cap) if cap else tasks)
    return counts


def executor_counts(spec: topology_pb2.TopologySpec, conf: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of executors of each component at submission: its parallelism, capped by its tasks."""
    tasks = task_counts(spec, conf)
    parallelism = {component.id: component.parallelism or 1 for component in spec.components}
    return {component: min(parallelism[component], count) for component, count in tasks.items()}


def task_ranges(counts: Mapping[str, int], first: int = 1) -> dict[str, range]:
    """Return the task ids of each component, given the numbers of tasks. ``first``: the lowest id."""
    ranges = {}
    for component in sorted(counts):
        ranges[component] = range(first, first + counts[component])
        first += counts[component]
    return ranges


def tasks_of(spec: topology_pb2.TopologySpec, conf: Mapping[str, Any]) -> dict[str, range]:
    """Return the task ids of each component, ascending by component id."""
    return task_ranges(task_counts(spec, conf))


def executors_of(tasks: Mapping[str, range], counts: Mapping[str, int]) -> list[ExecutorTasks]:
    """Return the task ids of every executor, ascending.

    ``counts``: the wanted executors per component. A component that is absent gets one executor per task; the number of
    executors is capped by the number of tasks. Sizes within a component differ by at most one, larger first.
    """
    executors = []
    for component, ids in tasks.items():
        wanted = min(max(1, counts.get(component, len(ids))), len(ids))
        size, larger = divmod(len(ids), wanted) if wanted else (0, 0)
        first = ids.start
        for number in range(wanted):
            last = first + size - (0 if number < larger else 1)
            executors.append((first, last))
            first = last + 1
    return sorted(executors)


def tasks_of_record(record: topology_pb2.TopologyRecord) -> dict[str, range]:
    """Return the task ids of each component of a submitted topology, ascending by component id."""
    return task_ranges(dict(record.tasks), record.first_task or 1)


def executors_of_record(record: topology_pb2.TopologyRecord) -> list[ExecutorTasks]:
    """Return the task ids of every executor of a submitted topology, ascending."""
    return executors_of(tasks_of_record(record), dict(record.executors))


def _own_conf(component: topology_pb2.ComponentSpec) -> dict[str, Any]:
    return json.loads(component.conf_json) if component.conf_json else {}


def component_needs(spec: topology_pb2.TopologySpec, conf: Mapping[str, Any]) -> dict[str, topology_pb2.ComponentNeeds]:
    """Return the resources that each executor needs, by component. A component's own keys override the topology's."""
    needs = {}
    for component in spec.components:
        merged = {**conf, **_own_conf(component)}
        needs[component.id] = topology_pb2.ComponentNeeds(
            cpu_percent=merged["topology.component.cpu.pcore.percent"],
            memory_mb=merged["topology.component.resources.onheap.memory.mb"],
            resources=merged["topology.component.resources.map"],
        )
    return needs
