"""The inputs of a worker's tasks: the plan, the components and the contexts."""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from tupletree.component import TopologyContext
from tupletree.context import FindBlob
from tupletree.errors import TopologyError
from tupletree.grouping import grouping_name
from tupletree.v1 import topology_pb2

from .checkpoint.membership import step_sources
from .component_graph import ComponentGraph
from .core.task import Environment, Observer
from .shared_objects import SharedObjects

_FIELDS = topology_pb2.GroupingKind.GROUPING_KIND_FIELDS


@dataclass(frozen=True, slots=True)
class Plan:
    """The inputs from which all tasks of a worker are built.

    ``tasks``: the task ids of each component. ``local_tasks``: the task ids that this worker runs. ``observer``, used
    by tests, is called with (component, stream, values) for every emitted tuple. ``places``: the worker that runs each
    remote task at the start; tuples for tasks of one worker travel together. ``bundle_dir``: the unpacked bundle; "" if
    there is none. ``shared``: the objects that the tasks share (TopologyContext.shared). ``blob``: finds the path of a
    blob by local name (TopologyContext.blob).
    """

    topology_id: str
    spec: topology_pb2.TopologySpec
    conf: Mapping[str, Any]
    tasks: Mapping[str, Sequence[int]]
    local_tasks: frozenset[int]
    environment: Environment
    seed: int
    observer: Observer | None = None
    places: Mapping[int, Hashable] = field(default_factory=dict)
    bundle_dir: str = ""
    shared: SharedObjects = field(default_factory=SharedObjects, repr=False, compare=False)
    blob: FindBlob | None = field(default=None, repr=False, compare=False)
    graph: ComponentGraph = field(init=False, repr=False)
    fields: Mapping[tuple[str, str], tuple[str, ...]] = field(init=False, repr=False)  # of each component's streams
    _by_first_task: Sequence[tuple[int, int]] = field(init=False, repr=False)  # (first task, position in the spec)
    _step_sources: dict[str, frozenset[int]] = field(init=False, repr=False, default_factory=dict)  # by component

    def __post_init__(self) -> None:
        firsts = sorted((self.tasks[component.id][0], at) for at, component in enumerate(self.spec.components))
        object.__setattr__(self, "graph", ComponentGraph(self.spec))
        object.__setattr__(self, "_by_first_task", firsts)
        streams = [(component.id, stream) for component in self.spec.components for stream in component.outputs]
        object.__setattr__(self, "fields", {(id, stream.id): tuple(stream.fields) for id, stream in streams})

    def component_of(self, task: int) -> topology_pb2.ComponentSpec:
        """Return the component that a task belongs to.

        Raises:
            TopologyError: the topology has no such task.
        """
        at = bisect.bisect(self._by_first_task, (task, len(self.spec.components))) - 1
        if at >= 0:
            component = self.spec.components[self._by_first_task[at][1]]
            if task in self.tasks[component.id]:
                return component
        raise TopologyError(f"topology {self.topology_id} has no task {task}")

    def place_of(self, task: int) -> Hashable:
        """Return where a task runs: a value that is equal for the tasks of one worker."""
        return None if task in self.local_tasks else self.places.get(task, "elsewhere")

    def tasks_of(self, components: Iterable[str]) -> frozenset[int]:
        """Return all tasks of these components."""
        return frozenset(task for component in components for task in self.tasks[component])

    def fields_groupings(self, component: str) -> list[list[str]]:
        """Return the fields of each fields grouping of a component."""
        found = next(one for one in self.spec.components if one.id == component)
        return [list(item.fields) for item in found.inputs if item.grouping == _FIELDS]

    def step_sources(self, component: str) -> frozenset[int]:
        """Return the tasks that send checkpoint steps to each task of a component. The set is cached per component."""
        if component not in self._step_sources:
            self._step_sources[component] = self.tasks_of(step_sources(self.spec, self.conf, component))
        return self._step_sources[component]


def loaded(component: topology_pb2.ComponentSpec) -> Any:
    """Return the unpickled component: a spout or a bolt, or a spout with its chain. Raises TopologyError."""
    try:
        return cloudpickle.loads(component.object)
    except (Exception, SystemExit) as error:
        raise TopologyError(
            f"component {component.id!r} cannot be loaded in the worker: {type(error).__name__}: {error}",
            component=component.id,
        ) from error


def context_of(
    plan: Plan, component: topology_pb2.ComponentSpec, conf: Mapping[str, Any], task_id: int
) -> TopologyContext:
    """Return the context of a task. ``conf``: the topology's configuration, overridden by the component's."""
    return TopologyContext(
        topology_id=plan.topology_id,
        component_id=component.id,
        task_id=task_id,
        tasks=plan.tasks,
        sources={(item.source, item.stream): grouping_name(item.grouping) for item in component.inputs},
        targets={stream.id: _subscribers(plan.graph, component.id, stream.id) for stream in component.outputs},
        conf=conf,
        share=plan.shared.get,
        find_blob=plan.blob,
        source_fields={
            (item.source, item.stream): plan.fields[item.source, item.stream]
            for item in component.inputs
            if (item.source, item.stream) in plan.fields
        },
    )


def _subscribers(graph: ComponentGraph, source: str, stream: str) -> dict[str, str]:
    return {component.id: grouping_name(item.grouping) for component, item in graph.subscriptions(source, stream)}
