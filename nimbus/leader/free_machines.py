"""The free slots and the room of each supervisor, while a topology is placed by resources.

New workers come to supervisors in this order:

1. without a silent worker of the topology;
2. favored ones in the order of their names, then others, then unfavored ones;
3. racks with the most executors of the topology, then with the most room. For a worker with executors of components
   that are spread, racks with the fewest executors of these components come first;
4. in a rack: with the most executors of the topology, with the fewest named resources that the worker does not need,
   with the most room.

So a topology is in few racks and on few machines.
"""

from __future__ import annotations  # pure

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .resource_request import OTHER_MACHINES, Limited, ResourceRequest
from .resources import FIRST_NAMED, ROUNDING, Axes, Vector, fits, plus
from .scheduler import Executor, Placement, Slot


class Rack(NamedTuple):
    """Supervisors of one rack and rank, in the order in which they are tried. ``number``: its place among all."""

    number: int
    rank: tuple[bool, tuple[int, int]]
    name: str
    supervisors: Sequence[str]


class FreeMachines:
    """The free slots and the room of each supervisor during one attempt."""

    def __init__(self, request: ResourceRequest, executors: Sequence[Executor], kept: Placement) -> None:
        self.room = {name: list(vector) for name, vector in request.room.items()}
        self._request = request
        self._ports: defaultdict[str, list[int]] = defaultdict(list)
        self._own: Counter[str] = Counter()
        self._limited: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by supervisor, component
        self._spread: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by rack, component
        for slot, run in kept.items():
            counts = request.count(run)
            self._own[slot.supervisor_id] += len(run)
            if slot.supervisor_id in self.room:
                self.take(slot.supervisor_id, request.sum_of(counts), request.limited(counts))
            else:
                self._count(slot.supervisor_id, request.limited(counts))
        suspect = set(request.suspect)
        self._doubted = {slot.supervisor_id for slot in suspect}
        for slot in sorted(request.offered, key=lambda one: (one in suspect, one)):
            if slot not in kept and slot.supervisor_id in self.room:
                self._ports[slot.supervisor_id].append(slot.port)
        self.slots = sum(map(len, self._ports.values()))
        self._most = most(self.room, request.axes)
        self._all = request.sum(executors)
        self._orders: dict[tuple[bool, ...], list[Rack]] = {}  # by the named resources that are needed
        self._next: Counter[tuple[Vector, Limited, int]] = Counter()
        self._last = ""

    def take(self, supervisor: str, needs: Vector, limited: Limited = ()) -> None:
        """Use a part of a supervisor's room."""
        room = self.room[supervisor]
        for axis, need in enumerate(needs):
            room[axis] -= need
        self._count(supervisor, limited)

    def _count(self, supervisor: str, limited: Limited) -> None:
        for name, count in limited:
            self._limited[supervisor][name] += count
            if name in self._request.constraints.spread:
                self._spread[self._rack(supervisor)][name] += count

    def permits(self, supervisor: str, limited: Limited) -> bool:
        """True if no component would have more executors on a machine than it may."""
        maximum = self._request.constraints.per_machine
        return all(self._limited[supervisor][name] + count <= maximum[name] for name, count in limited)

    def places(self, component: str) -> int:
        """Return how many executors of a component that has a maximum find a place on all machines, if alone."""
        needs, maximum = self._request.needs[component], self._request.constraints.per_machine[component]
        found = 0
        for supervisor in (one for one, ports in self._ports.items() if ports):
            room = zip(self.room[supervisor], needs, strict=True)
            fitting = [(free + ROUNDING) // need for free, need in room if need > 0]
            found += int(max(0, min([maximum - self._limited[supervisor][component], *fitting])))
        return found

    def open(self, needs: Vector, limited: Limited = ()) -> Slot | None:
        """Return a slot where ``needs`` fit, and take them there: on the machine of the last one if it has room.

        A supervisor that had no slot or too little room once has no more later, so that each is tried once.
        """
        found: str | None = self._last
        is_spread = any(name in self._request.constraints.spread for name, _ in limited)
        if is_spread or self._request.ranks or not self._has_room(self._last, needs, limited):
            racks = self._order(needs)
            found = self._first(self._spread_first(racks, limited) if is_spread else racks, needs, limited)
        if found is None:
            return None
        self.take(found, needs, limited)
        self._last = found
        return Slot(found, self._ports[found].pop(0))

    def _first(self, racks: Iterable[Rack], needs: Vector, limited: Limited) -> str | None:
        for rack in racks:
            key = needs, limited, rack.number
            index = self._next[key]
            while index < len(rack.supervisors) and not self._has_room(rack.supervisors[index], needs, limited):
                index += 1
            self._next[key] = index
            if index < len(rack.supervisors):
                return rack.supervisors[index]
        return None

    def _has_room(self, supervisor: str, needs: Vector, limited: Limited) -> bool:
        if not self._ports.get(supervisor) or not fits(needs, self.room[supervisor]):
            return False
        return not limited or self.permits(supervisor, limited)

    def _order(self, needs: Vector) -> list[Rack]:
        """Return the racks in the order in which they are tried."""
        named = tuple(need > 0 for need in needs[FIRST_NAMED:])
        if named not in self._orders:
            members: defaultdict[tuple[tuple[bool, tuple[int, int]], str], list[str]] = defaultdict(list)
            for one in self._ports:
                rank = one in self._doubted, self._request.ranks.get(one, OTHER_MACHINES)
                members[rank, self._rack(one)].append(one)
            racks = self._rack_ranks()
            ordered = sorted(members.items(), key=lambda item: (item[0][0], racks[item[0][1]]))
            self._orders[named] = [
                Rack(number, rank, name, sorted(ids, key=lambda one: self._rank(one, named)))
                for number, ((rank, name), ids) in enumerate(ordered)
            ]
        return self._orders[named]

    def _spread_first(self, racks: Sequence[Rack], limited: Limited) -> list[Rack]:
        """Sort racks of equal ranks by the executors that they have of components that are spread."""

        def key(rack: Rack) -> tuple[tuple[bool, tuple[int, int]], int, int]:
            return rack.rank, sum(self._spread[rack.name][name] for name, _ in limited), rack.number

        return sorted(racks, key=key)

    def _rack(self, supervisor: str) -> str:
        return self._request.racks.get(supervisor, "")

    def _rack_ranks(self) -> dict[str, tuple[int, float, str]]:
        """Return the order of racks, lowest first."""
        own: Counter[str] = Counter()
        room: defaultdict[str, Vector] = defaultdict(lambda: self._request.axes.zero)
        for one, left in self.room.items():
            own[self._rack(one)] += self._own[one]
            room[self._rack(one)] = plus(room[self._rack(one)], tuple(left))
        largest = most(room, self._request.axes)
        return {name: (-own[name], -self._share(left, largest), name) for name, left in room.items()}

    def _rank(self, supervisor: str, named: Sequence[bool]) -> tuple[int, int, float, str]:
        room = self.room[supervisor]
        waste = sum(1 for free, is_needed in zip(room[FIRST_NAMED:], named, strict=True) if free > 0 and not is_needed)
        return -self._own[supervisor], waste, -self._share(room, self._most), supervisor

    def _share(self, room: Sequence[float], largest: Sequence[float]) -> float:
        """Return the share that a room has of the largest, of the resource that is scarcest in it."""
        shares = [
            free / limit for free, limit, need in zip(room, largest, self._all, strict=True) if need > 0 and limit > 0
        ]
        return min(shares, default=0.0)


def most(room: Mapping[str, Sequence[float]], axes: Axes) -> list[float]:
    """Return the largest amount of each resource that one of these has."""
    return [max((one[axis] for one in room.values()), default=0.0) for axis in range(len(axes.zero))]
