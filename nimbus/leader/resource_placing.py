"""Placement by resources in the planner: capacities, the importance of topologies, eviction, and quotas of owners.

Topologies are placed by ``topology.priority``, lowest first, then by age. Where a supervisor has less than what runs
there needs, since its capacity or the scheduler has changed, the least important workers move.

*Eviction*: if a topology does not fit, topologies with a higher number of priority give up their places, the least
important first, as few as make room, and none if all of them would not. The topology is placed in the next decision,
when these slots are free; until then, its places are reserved.

*Quota*: a topology is not placed if its owner's topologies would then use more than the owner's quota. What runs stays,
may become less, and is started again.
"""

from __future__ import annotations  # pure

import functools
import json
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from tupletree._constraints import FAVORED, UNFAVORED, Constraints, constraints_of
from tupletree.parallelism import executors_of_record
from tupletree.v1 import topology_pb2 as pb

from . import lifecycle
from .free_capacity import FreeCapacity
from .placing import by_traffic, runs_all
from .resource_request import Placed, ResourceRequest, keeping, ranked
from .resource_scheduler import place
from .resources import (
    MEMORY,
    ROUNDING,
    Axes,
    Components,
    Vector,
    capacities,
    component_needs,
    fits,
    plus,
    total,
    total_needs,
    usage,
)
from .scheduler import Placement, Slot
from .scheduling import CPU_QUOTA, MEMORY_QUOTA, PRIORITY, QUOTAS, Scheduling
from .shortage import shortage
from .traffic import Traffic

_WORKER_MAX_MB: Final = 768.0
_PRIORITY: Final = 29


class Settings(NamedTuple):
    """The settings of a topology that its placement follows."""

    priority: int = _PRIORITY
    worker_max_mb: float = _WORKER_MAX_MB
    constraints: Constraints = Constraints()
    favored: tuple[str, ...] = ()
    unfavored: tuple[str, ...] = ()


class ResourcePlacer:
    """Placement by resources (resource_scheduler.py), by measured traffic among executors with equal needs."""

    def __init__(
        self,
        scheduling: Scheduling,
        room: FreeCapacity,
        axes: Axes,
        supervisors: Mapping[str, pb.Presence],
        records: Mapping[str, pb.TopologyRecord],
        placements: Mapping[str, Placement],
        traffic: Mapping[str, Traffic],
        shortages: MutableMapping[str, str],
        spared: Collection[str],
    ) -> None:
        """``shortages``: why topologies are not placed, by id; updated. ``spared``: topologies not to be evicted."""
        self._scheduling = scheduling
        self._room = room
        self._axes = axes
        self._capacity = capacities(supervisors, axes)
        self._hosts = {one: presence.host for one, presence in supervisors.items()}
        self._racks = {one: presence.rack for one, presence in supervisors.items() if presence.rack}
        self._records = records
        self._placements = placements
        self._traffic = traffic
        self._shortages = shortages
        self._spared = spared
        self._evicted: set[str] = set()
        self._reserved: set[str] = set()  # topologies whose places others give up in this decision
        self._used = {one: usage(records[one], run, axes) for one, run in placements.items() if one in records}
        self._after: dict[str, dict[str, Vector]] = {}  # of the topologies that this decision has changed
        self._total: dict[str, Vector] = {}
        for used in self._used.values():
            for supervisor, amounts in used.items():
                self._total[supervisor] = plus(self._total.get(supervisor, axes.zero), amounts)

    def importance(self, record: pb.TopologyRecord) -> tuple[float, ...]:
        return self._priority(record), record.submitted_unix_s

    def is_placed(self, record: pb.TopologyRecord, current: Placement, dead: Collection[Slot]) -> bool:
        if dead or record.id in self._evicted or not runs_all(record, current):
            return False
        if len(self._staying(record, current)) < len(current):
            return False
        self._end_shortage(record)
        return True

    def placed(self, record: pb.TopologyRecord, current: Placement, dead: Collection[Slot]) -> Placement:
        self._end_shortage(record)
        if record.id in self._evicted:
            self._shortages[record.id] = "It has given up its places to a more important topology."
            return {}
        alive = self._staying(record, {slot: run for slot, run in current.items() if slot not in dead})
        request = self._request(record, current, alive, dead)
        found = self._within_quota(record, request)
        if not found.missing:
            return by_traffic(self._traffic.get(record.id), record, alive, found.placement, _kinds(request))
        if record.id not in self._shortages:
            self._shortages[record.id] = shortage(request, found)
            self._evict(record, request)
        return found.placement

    def rebalanced(self, record: pb.TopologyRecord, current: Placement, *, may_evict: bool = True) -> Placement | None:
        """Return a new placement, or one with as little change as possible where no other fits."""
        if record.id in self._evicted:
            return {}
        self._shortages.pop(record.id, None)
        request = self._request(record, current, {}, ())
        found = self._within_quota(record, request)
        if found.missing:
            kept = keeping(self._staying(record, current), request)
            staying = place(replace(request, offered=(), alive=kept))
            if staying.missing:
                if record.id not in self._shortages:
                    self._shortages[record.id] = f"Its rebalance or update waits. {shortage(request, found)}"
                    if may_evict:
                        self._evict(record, request)
                return None
            found = staying
        self._shortages.pop(record.id, None)
        return by_traffic(self._traffic.get(record.id), record, {}, found.placement, _kinds(request))

    def memory_mb(self, record: pb.TopologyRecord, placement: Placement) -> Mapping[Slot, float]:
        components, needs = Components(record), component_needs(record, self._axes)
        return {
            slot: sum(needs[name][MEMORY] * count for name, count in components.count(run).items())
            for slot, run in placement.items()
        }

    def allocate(self, record: pb.TopologyRecord, placement: Placement) -> None:
        """Record a placement of this decision.

        Until it is written, others find used what the topology used before or will use, whichever is more.
        """
        if record.id in self._reserved:
            return
        after, before, zero = usage(record, placement, self._axes), self._used.get(record.id, {}), self._axes.zero
        both = {}
        for one in before.keys() | after.keys():
            was, will = before.get(one, zero), after.get(one, zero)
            both[one] = tuple(map(max, was, will))
            self._total[one] = plus(plus(self._total.get(one, zero), was, -1), both[one])
        self._used[record.id], self._after[record.id] = both, after

    def _reserve(self, record: pb.TopologyRecord, placement: Placement) -> None:
        """Keep the places of the next decision from less important topologies, which would give them up again."""
        self._room.reserve(placement)
        self.allocate(record, placement)
        self._reserved.add(record.id)

    def evicted(self) -> Collection[str]:
        return self._evicted

    def has_all_workers(self, record: pb.TopologyRecord, workers: int) -> bool:
        return True

    def _end_shortage(self, record: pb.TopologyRecord) -> None:
        if record.status != lifecycle.REBALANCING:  # that of its rebalance goes on
            self._shortages.pop(record.id, None)

    def _rank(self, topology_id: str) -> tuple[float, ...]:
        return self.importance(self._records[topology_id])

    def _request(
        self, record: pb.TopologyRecord, current: Placement, alive: Placement, dead: Collection[Slot]
    ) -> ResourceRequest:
        components, asked = Components(record), settings(record.conf_json)
        offered = self._room.offered(record.id, current)
        return ResourceRequest(
            components={one: components.of(one) or "" for one in executors_of_record(record)},
            needs=component_needs(record, self._axes),
            workers=record.workers,
            worker_max_mb=asked.worker_max_mb,
            axes=self._axes,
            alive=alive,
            offered=offered,
            room=self._room_beside({record.id}),
            suspect=offered & set(dead),
            constraints=asked.constraints,
            racks=self._racks,
            ranks=ranked(self._hosts, asked.favored, asked.unfavored) if asked.favored or asked.unfavored else {},
        )

    def _room_beside(self, topologies: Collection[str]) -> dict[str, Vector]:
        """Return what all other topologies leave of each capacity."""
        room = {}
        for supervisor, capacity in self._capacity.items():
            left = plus(capacity, self._total.get(supervisor, self._axes.zero), -1)
            for one in topologies:
                if (own := self._used.get(one, {}).get(supervisor)) is not None:
                    left = plus(left, own)
            room[supervisor] = left
        return room

    def _staying(self, record: pb.TopologyRecord, current: Placement) -> Placement:
        """Return the workers that fit where they are beside the workers of more important topologies.

        A worker stays where its supervisor is gone or announces no capacity.
        """
        zero = self._axes.zero
        staying: Placement = {}
        taken: dict[str, Vector] = {}
        for slot, run in sorted(current.items()):
            supervisor = slot.supervisor_id
            capacity = self._capacity.get(supervisor)
            if capacity is not None and not fits(self._total.get(supervisor, zero), capacity):
                own = usage(record, {slot: run}, self._axes).get(supervisor, zero)
                if supervisor not in taken:
                    taken[supervisor] = self._taken_before(record, supervisor)
                if not fits(plus(taken[supervisor], own), capacity):
                    continue
                taken[supervisor] = plus(taken[supervisor], own)
            staying[slot] = run
        return staying

    def _taken_before(self, record: pb.TopologyRecord, supervisor: str) -> Vector:
        """Return what more important topologies use of a supervisor, after what this decision has changed."""
        mine = (*self.importance(record), record.id)
        others = (
            used[supervisor]
            for one, used in {**self._used, **self._after}.items()
            if one != record.id and supervisor in used and (*self._rank(one), one) < mine
        )
        return total(others, self._axes)

    def _within_quota(self, record: pb.TopologyRecord, request: ResourceRequest) -> Placed:
        """Place the executors, unless the owner has too little left: then only what runs stays."""
        lacks = self._beyond_quota(record)
        found = place(request) if not lacks else place(replace(request, offered=()))
        if lacks and found.missing:
            self._shortages[record.id] = lacks
        return found

    def _beyond_quota(self, record: pb.TopologyRecord) -> str:
        """Explain in one sentence that the topology does not fit into its owner's quota; "" if it does."""
        quota = self._scheduling.quota(record.owner)
        if not quota:
            return ""
        names = (CPU_QUOTA, MEMORY_QUOTA, *self._axes.names)
        used = total(
            (
                amounts
                for one, by_supervisor in self._used.items()
                if one != record.id and self._records[one].owner == record.owner
                for amounts in by_supervisor.values()
            ),
            self._axes,
        )
        own = total(self._used.get(record.id, {}).values(), self._axes)
        for axis, (need, in_use) in enumerate(zip(total_needs(record, self._axes), used, strict=True)):
            limit = quota.get(names[axis])
            if limit is not None and need > own[axis] + ROUNDING and in_use + need > limit + ROUNDING:
                return (
                    f"It needs {self._axes.amount(axis, need)}, and the quota of its owner '{record.owner}' is "
                    f"{self._axes.amount(axis, limit)}, of which other topologies use "
                    f"{self._axes.amount(axis, in_use)} ({QUOTAS})."
                )
        return ""

    def _priority(self, record: pb.TopologyRecord) -> float:
        """Return the priority of a topology, which is not more important than its owner's quota allows."""
        return max(settings(record.conf_json).priority, self._scheduling.quota(record.owner).get(PRIORITY, 0))

    def _evict(self, record: pb.TopologyRecord, request: ResourceRequest) -> None:
        """Let less important topologies give up their places, as few as make room, if that makes enough room."""
        priority = self._priority(record)
        victims = sorted(
            (
                one
                for one, used in self._used.items()
                if used
                and one not in self._spared
                and self._priority(self._records[one]) > priority
                and self._records[one].status != lifecycle.KILLED
            ),
            key=lambda one: (*self._rank(one), one),
            reverse=True,
        )

        def without(given_up: Sequence[str]) -> Placed:
            slots = (self._room.own(one, self._placements.get(one, {})) for one in given_up)
            offered = set(request.offered).union(*slots)
            room = self._room_beside({record.id, *given_up})
            return place(replace(request, offered=offered, room=room))

        def is_enough(given_up: Sequence[str]) -> bool:
            return not without(given_up).missing

        if not victims or not is_enough(victims):
            return
        low, high = 1, len(victims)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(victims[:middle]) else (middle + 1, high)
        chosen = victims[:high]
        for one in reversed(victims[:high]):  # the most important first
            spared = [other for other in chosen if other != one]
            if is_enough(spared):
                chosen = spared
        self._reserve(record, without(chosen).placement)
        self._evicted |= set(chosen)
        self._after.update((one, {}) for one in chosen)
        names = ", ".join(f"'{self._records[one].name}'" for one in chosen[:5])
        self._shortages[record.id] = f"It waits until less important topologies have given up their places: {names}."


def _kinds(request: ResourceRequest) -> Mapping[str, object]:
    """Return the kind of each component: executors of one kind may change places."""
    return {name: (needs, name if request.constraints.names(name) else "") for name, needs in request.needs.items()}


@functools.lru_cache(4096)
def settings(conf_json: str) -> Settings:
    """Return what a topology's configuration says about its placement. An unreadable one says nothing."""
    try:
        conf = json.loads(conf_json or "{}")
        return Settings(
            int(conf.get("topology.priority", _PRIORITY)),
            float(conf.get("topology.worker.max.heap.size.mb", _WORKER_MAX_MB)),
            constraints_of(conf),
            tuple(conf.get(FAVORED) or ()),
            tuple(conf.get(UNFAVORED) or ()),
        )
    except (TypeError, ValueError, AttributeError, LookupError, RecursionError):
        return Settings()
