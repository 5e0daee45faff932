"""How many tasks and executors a topology has, and which task ids each executor runs.

Tasks are the copies of a component that hold state; executors are what runs them, one or more tasks each. The number of
tasks is fixed when a topology is submitted; a rebalance changes executors only. Task ids start at 1 and are dealt out
component by component, ascending by component id::

    component   tasks   executors          task ids
    count         5         2        (1 2 3) (4 5)
    split         2         2        (6) (7)

Nimbus, workers and LocalCluster all derive the same numbers from the same spec with these functions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tupletree.v1 import topology_pb2

ExecutorTasks = tuple[int, int]
"""The first and the last task id of an executor; all between belong to it too."""


def task_counts(spec: topology_pb2.TopologySpec, conf: Mapping[str, Any]) -> dict[str, int]:
    """How many tasks each component gets, ascending by component id.

    A component's own ``topology.tasks`` and ``topology.max.task.parallelism`` win over the topology's.
    """
    counts = {}
    for component in sorted(spec.components, key=lambda c: c.id):
        merged = {**conf, **_own_conf(component)}
        tasks = merged.get("topology.tasks") or component.tasks or component.parallelism or 1
        cap = merged.get("topology.max.task.parallelism")
        counts[component.id] = max(1, min(tasks, cap) if cap else tasks)
    return counts


def executor_counts(spec: topology_pb2.TopologySpec, conf: Mapping[str, Any]) -> dict[str, int]:
    """How many executors each component has at submission: its parallelism, and never more than its tasks."""
    tasks = task_counts(spec, conf)
    parallelism = {component.id: component.parallelism or 1 for component in spec.components}
    return {component: min(parallelism[component], count) for component, count in tasks.items()}


def task_ranges(counts: Mapping[str, int]) -> dict[str, range]:
    """The task ids of each component, from the number of its tasks."""
    ranges = {}
    first = 1
    for component in sorted(counts):
        ranges[component] = range(first, first + counts[component])
        first += counts[component]
    return ranges


def tasks_of(spec: topology_pb2.TopologySpec, conf: Mapping[str, Any]) -> dict[str, range]:
    """The task ids of each component, ascending by component id."""
    return task_ranges(task_counts(spec, conf))


def executors_of(tasks: Mapping[str, range], counts: Mapping[str, int]) -> list[ExecutorTasks]:
    """The task ids of every executor, ascending.

    ``counts``: executors wanted for each component; one that is absent gets an executor for each task, one with more
    executors than tasks as many as it has tasks. Sizes within a component differ by at most one, larger first.
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


def executors_of_record(record: topology_pb2.TopologyRecord) -> list[ExecutorTasks]:
    """The task ids of every executor of a submitted topology, ascending."""
    return executors_of(task_ranges(dict(record.tasks)), dict(record.executors))


def _own_conf(component: topology_pb2.ComponentSpec) -> dict[str, Any]:
    return json.loads(component.conf_json) if component.conf_json else {}
