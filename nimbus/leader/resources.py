"""Amounts of resources: processor time, memory and named resources, and what of them is free in the cluster.

A *vector* is a tuple of amounts, one for each axis: processor time in percent of a processor, memory in MB, then the
named resources, ascending by name. All vectors of one decision have the same axes.
"""

from __future__ import annotations  # pure

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tupletree.parallelism import tasks_of_record
from tupletree.v1 import topology_pb2 as pb

from .scheduler import Executor, Placement

Vector = tuple[float, ...]

CPU: Final = 0
MEMORY: Final = 1
FIRST_NAMED: Final = 2
ROUNDING: Final = 1e-6
"""The amount below which a difference is an error of rounding."""

DEFAULT_NEEDS: Final = pb.ComponentNeeds(cpu_percent=10.0, memory_mb=128.0)


class Axes(NamedTuple):
    """The names of the named resources, ascending."""

    names: tuple[str, ...]

    def vector(self, cpu_percent: float, memory_mb: float, named: Mapping[str, float]) -> Vector:
        return (cpu_percent, memory_mb, *(named.get(name, 0.0) for name in self.names))

    @property
    def zero(self) -> Vector:
        return (0.0,) * (FIRST_NAMED + len(self.names))

    def shown(self, vector: Vector) -> str:
        """Return the amounts above 0 as text, such as ``20% of a processor, 256 MB of memory and 1 gpu``."""
        parts = [self.amount(axis, value) for axis, value in enumerate(vector) if value > 0]
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "nothing"

    def amount(self, axis: int, value: float) -> str:
        """Return one amount as text."""
        unit = ("% of a processor", " MB of memory", *(f" {name}" for name in self.names))[axis]
        number = f"{max(0.0, value):,.3f}".rstrip("0").rstrip(".")
        return f"{number}{unit}"


def plus(one: Vector, other: Vector, times: float = 1) -> Vector:
    """Return ``one + times * other``."""
    return tuple(a + times * b for a, b in zip(one, other, strict=True))


def fits(needs: Vector, room: Sequence[float]) -> bool:
    return all(need <= free + ROUNDING for need, free in zip(needs, room, strict=True))


def needs_of(record: pb.TopologyRecord, component: str) -> pb.ComponentNeeds:
    """Return what each executor of a component needs: the defaults if the record is of an older version."""
    return record.needs.get(component, DEFAULT_NEEDS)


def component_needs(record: pb.TopologyRecord, axes: Axes) -> dict[str, Vector]:
    """Return what each executor needs, by component."""
    needs = {name: needs_of(record, name) for name in record.tasks}
    return {name: axes.vector(one.cpu_percent, one.memory_mb, one.resources) for name, one in needs.items()}


def axes_of(records: Iterable[pb.TopologyRecord], supervisors: Iterable[pb.Presence]) -> Axes:
    """Return the axes of everything that topologies need or supervisors have."""
    names = {name for record in records for one in record.needs.values() for name in one.resources}
    names |= {name for one in supervisors for name in one.resources}
    return Axes(tuple(sorted(names)))


def capacities(supervisors: Mapping[str, pb.Presence], axes: Axes) -> dict[str, Vector]:
    """Return the capacity of each supervisor that announces one."""
    return {
        name: axes.vector(one.cpu_percent, one.memory_mb, one.resources)
        for name, one in supervisors.items()
        if one.memory_mb > 0
    }


class Components:
    """The component of each executor of a topology."""

    def __init__(self, record: pb.TopologyRecord) -> None:
        ranges = sorted((ids.start, name) for name, ids in tasks_of_record(record).items() if ids)
        self._starts = [start for start, _ in ranges]
        self._names = [name for _, name in ranges]
        self._end = (record.first_task or 1) + sum(record.tasks.values())

    def of(self, executor: Executor) -> str | None:
        """Return the component of an executor; None if the topology has no such task now."""
        index = bisect_right(self._starts, executor[0]) - 1
        return self._names[index] if index >= 0 and executor[0] < self._end else None

    def count(self, run: Iterable[Executor]) -> Counter[str]:
        """Return the number of executors by component."""
        return Counter(name for executor in run if (name := self.of(executor)) is not None)


def usage(record: pb.TopologyRecord, placement: Placement, axes: Axes) -> dict[str, Vector]:
    """Return what the executors of a placement need, by supervisor."""
    components, needs = Components(record), component_needs(record, axes)
    found: defaultdict[str, Vector] = defaultdict(lambda: axes.zero)
    for slot, run in placement.items():
        for name, count in components.count(run).items():
            found[slot.supervisor_id] = plus(found[slot.supervisor_id], needs[name], count)
    return dict(found)


def total(vectors: Iterable[Vector], axes: Axes) -> Vector:
    """Return the sum of vectors."""
    found = axes.zero
    for one in vectors:
        found = plus(found, one)
    return found


def total_needs(record: pb.TopologyRecord, axes: Axes) -> Vector:
    """Return what all executors of a topology need together."""
    needs = component_needs(record, axes)
    counts = {name: min(max(1, record.executors.get(name, count)), count) for name, count in record.tasks.items()}
    return total((plus(axes.zero, needs[name], count) for name, count in counts.items() if count), axes)
