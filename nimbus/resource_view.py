"""The use of resources in the cluster, for responses: nothing under the even scheduler. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tupletree.v1 import topology_pb2 as pb

from .leader.cluster_state import ClusterState
from .leader.planner import placement_of
from .leader.resources import (
    CPU,
    FIRST_NAMED,
    MEMORY,
    Axes,
    Vector,
    axes_of,
    capacities,
    component_needs,
    plus,
    total,
    total_needs,
    usage,
)


@dataclass(frozen=True)
class Amounts:
    """Amounts of resources."""

    cpu_percent: float
    memory_mb: float
    named: Mapping[str, float]

    @property
    def named_text(self) -> str:
        """The named resources above 0 as text, such as ``gpu: 2, disk: 0.5``."""
        return ", ".join(f"{name}: {amount:g}" for name, amount in self.named.items() if amount)


class ResourceView:
    """Capacity, needs and assignments of everything that nimbus knows."""

    def __init__(self, state: ClusterState, *, is_on: bool) -> None:
        """``is_on``: the resource scheduler is configured. Otherwise all amounts are 0."""
        self.is_on = is_on
        records = {one: stored.value for one, stored in state.records.items()} if is_on else {}
        self._axes = axes_of(records.values(), state.supervisors.values() if is_on else ())
        self._capacity = capacities(state.supervisors, self._axes) if is_on else {}
        self._used = {
            one: usage(records[one], placement_of(stored.value), self._axes)
            for one, stored in state.assignments.items()
            if one in records
        }
        self._by_supervisor: dict[str, Vector] = {}
        for used in self._used.values():
            for name, vector in used.items():
                self._by_supervisor[name] = plus(self._by_supervisor.get(name, self._axes.zero), vector)

    def capacity(self, supervisor_id: str) -> Amounts:
        return self._amounts(self._capacity.get(supervisor_id, self._axes.zero))

    def used(self, supervisor_id: str) -> Amounts:
        """Return what the executors assigned to a supervisor need."""
        return self._amounts(self._by_supervisor.get(supervisor_id, self._axes.zero))

    def available(self, supervisor_id: str) -> Amounts:
        return self._amounts(self._left(supervisor_id))

    def total_capacity(self) -> Amounts:
        return self._amounts(total(self._capacity.values(), self._axes))

    def total_available(self) -> Amounts:
        return self._amounts(total(map(self._left, self._capacity), self._axes))

    def requested(self, record: pb.TopologyRecord) -> Amounts:
        """Return what all executors of a topology need."""
        return self._amounts(total_needs(record, self._axes) if self.is_on else self._axes.zero)

    def requested_each(self, record: pb.TopologyRecord, component: str) -> Amounts:
        """Return what one executor of a component needs."""
        needs = component_needs(record, self._axes) if self.is_on else {}
        return self._amounts(needs.get(component, self._axes.zero))

    def assigned(self, topology_id: str) -> Amounts:
        """Return what the executors of a topology that have a place need."""
        return self._amounts(total(self._used.get(topology_id, {}).values(), self._axes))

    def of_worker(self, record: pb.TopologyRecord, worker: pb.WorkerAssignment) -> Amounts:
        """Return what the executors of a worker need."""
        placement = placement_of(pb.Assignment(workers=[worker])) if self.is_on else {}
        return self._amounts(usage(record, placement, self._axes).get(worker.supervisor_id, self._axes.zero))

    def _left(self, supervisor_id: str) -> Vector:
        used = self._by_supervisor.get(supervisor_id, self._axes.zero)
        left = plus(self._capacity.get(supervisor_id, self._axes.zero), used, -1)
        return tuple(max(0.0, one) for one in left)

    def _amounts(self, vector: Vector) -> Amounts:
        return _amounts(self._axes, vector)


def _amounts(axes: Axes, vector: Vector) -> Amounts:
    named = dict(zip(axes.names, vector[FIRST_NAMED:], strict=True))
    return Amounts(
        round(vector[CPU], 3), round(vector[MEMORY], 3), {name: round(one, 3) for name, one in named.items()}
    )
