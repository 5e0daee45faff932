"""The requirements of one topology under the resource scheduler, and what is offered to it."""

from __future__ import annotations  # pure

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tupletree._constraints import Constraints

from .resources import Axes, Vector, plus, total
from .scheduler import Executor, Placement, Slot

OTHER_MACHINES = (1, 0)
"""The rank of machines that a topology neither favors nor avoids; favored ones have lower ranks."""

Limited = tuple[tuple[str, int], ...]
"""The executors of a worker by component, of those components that have a maximum on a machine."""


@dataclass(frozen=True)
class ResourceRequest:
    """Requirements of one topology, and what is offered to it.

    ``components``: the component of each executor. ``needs``: of each executor, by component. ``alive``: the executors
    that run now and may stay, by slot. ``offered``: slots that no other topology uses, of registered supervisors.
    ``room``: what other topologies leave of each supervisor's capacity. ``suspect``: the offered slots in which this
    topology's worker fell silent. ``racks``: of the supervisors that have one. ``ranks``: of the supervisors that are
    used first or last, lowest first.
    """

    components: Mapping[Executor, str]
    needs: Mapping[str, Vector]
    workers: int
    worker_max_mb: float
    axes: Axes
    alive: Mapping[Slot, tuple[Executor, ...]]
    offered: Collection[Slot]
    room: Mapping[str, Vector]
    suspect: Collection[Slot] = field(default=())
    constraints: Constraints = field(default_factory=Constraints)
    racks: Mapping[str, str] = field(default_factory=dict)
    ranks: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def need(self, executor: Executor) -> Vector:
        return self.needs[self.components[executor]]

    def count(self, run: Collection[Executor]) -> Counter[str]:
        """Return the number of executors by component."""
        return Counter(self.components[executor] for executor in run)

    def sum(self, run: Collection[Executor]) -> Vector:
        """Return what executors need together."""
        return self.sum_of(self.count(run))

    def sum_of(self, counts: Mapping[str, int]) -> Vector:
        """Return what executors need together, by their number."""
        return total((plus(self.axes.zero, self.needs[name], count) for name, count in counts.items()), self.axes)

    def limited(self, counts: Mapping[str, int]) -> Limited:
        """Return those of the counts whose components have a maximum on a machine."""
        if not self.constraints.per_machine:
            return ()
        return tuple((name, counts[name]) for name in sorted(counts) if name in self.constraints.per_machine)


class Placed(NamedTuple):
    """A placement, and the executors that have no place. These are none, or all that do not run already."""

    placement: Placement
    missing: tuple[Executor, ...]


def ranked(hosts: Mapping[str, str], favored: Sequence[str], unfavored: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the ranks of supervisors that are named by their host or id. ``hosts``: of each supervisor, by id."""
    ranks = {}
    for supervisor, host in hosts.items():
        places = [favored.index(one) for one in (host, supervisor) if one in favored]
        if places:
            ranks[supervisor] = (0, min(places))
        elif host in unfavored or supervisor in unfavored:
            ranks[supervisor] = (2, 0)
    return ranks


def keeping(alive: Mapping[Slot, tuple[Executor, ...]], request: ResourceRequest) -> Placement:
    """Return the workers that keep the constraints where they are, beside those before them."""
    constraints = request.constraints
    kept: Placement = {}
    on_machine: Counter[tuple[str, str]] = Counter()
    for slot, run in sorted(alive.items()):
        counts = request.count([executor for executor in run if executor in request.components])
        places = {(slot.supervisor_id, name): count for name, count in request.limited(counts)}
        has_room = all(on_machine[key] + count <= constraints.per_machine[key[1]] for key, count in places.items())
        if has_room and constraints.permit(counts):
            on_machine.update(places)
            kept[slot] = run
    return kept
