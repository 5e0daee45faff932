"""The two ways to place a topology in the planner: evenly over slots, or by resources.

Both see all topologies and supervisors of one decision, and are told each placement that it makes.
"""

from __future__ import annotations  # pure

from collections.abc import Collection, Mapping, MutableMapping
from typing import Protocol

from tupletree.parallelism import executors_of_record
from tupletree.v1 import topology_pb2 as pb

from . import lifecycle
from .free_capacity import FreeCapacity
from .isolation import Isolation
from .scheduler import Placement, Request, Slot, place, place_from_scratch
from .traffic import Traffic, bring_together


class Placer(Protocol):
    """The decisions that differ between the schedulers."""

    def importance(self, record: pb.TopologyRecord) -> tuple[float, ...]:
        """Return the order in which topologies are placed, lowest first; then by id."""
        ...

    def is_placed(self, record: pb.TopologyRecord, current: Placement, dead: Collection[Slot]) -> bool:
        """True if ``placed`` would move nothing."""
        ...

    def placed(self, record: pb.TopologyRecord, current: Placement, dead: Collection[Slot]) -> Placement:
        """Return the placement with as little change as possible. ``dead``: slots whose workers are silent."""
        ...

    def rebalanced(self, record: pb.TopologyRecord, current: Placement, *, may_evict: bool = True) -> Placement | None:
        """Return a new placement of a topology, whatever runs. None: the topology has to wait until there is room.

        ``may_evict``: less important topologies may have to give up their places.
        """
        ...

    def memory_mb(self, record: pb.TopologyRecord, placement: Placement) -> Mapping[Slot, float]:
        """Return the memory that each worker is given; absent or 0: no limit."""
        ...

    def allocate(self, record: pb.TopologyRecord, placement: Placement) -> None:
        """Record a placement of this decision. What the topology used before stays in use until it is written."""
        ...

    def evicted(self) -> Collection[str]:
        """Return the topologies that give up their places in this decision, by id."""
        ...

    def has_all_workers(self, record: pb.TopologyRecord, workers: int) -> bool:
        """True if no slot that becomes free would change the placement of a topology whose executors all run."""
        ...


class EvenPlacer:
    """Placement evenly over slots (scheduler.py), by measured traffic (traffic.py) where workers start anew.

    Isolated topologies are placed on their own machines, those of users with a pool in the pool, others elsewhere
    (isolation.py).
    """

    def __init__(
        self,
        room: FreeCapacity,
        traffic: Mapping[str, Traffic],
        isolation: Isolation,
        shortages: MutableMapping[str, str],
    ) -> None:
        """``shortages``: why topologies have too few slots for reasons of isolation, by id; updated."""
        self._room = room
        self._traffic = traffic
        self._isolation = isolation
        self._shortages = shortages

    def importance(self, record: pb.TopologyRecord) -> tuple[float, ...]:
        return (record.submitted_unix_s,)

    def is_placed(self, record: pb.TopologyRecord, current: Placement, dead: Collection[Slot]) -> bool:
        """True if ``place`` would move nothing. Does not enumerate the slots offered. Explains too few workers."""
        if dead or not runs_all(record, current) or not self._is_isolated(record, current):
            return False
        most = min(record.workers, sum(map(len, current.values())))
        if len(current) < most and not self._room.free:
            self._explain(record, current)
            return True
        return len(current) == most

    def placed(self, record: pb.TopologyRecord, current: Placement, dead: Collection[Slot]) -> Placement:
        if self._waits(record):
            return self._meanwhile(record, current, dead)
        offered = self._offered(record, current)
        may_use = self._isolation.may_use
        alive = {slot: run for slot, run in current.items() if slot not in dead and may_use(record.id, slot)}
        executors = executors_of_record(record)
        found = place(Request(executors, record.workers, alive, offered, offered & set(dead)))
        if found.keys() <= offered and not self._is_isolated(record, found):
            found = place_from_scratch(executors, record.workers, offered)  # over all of its machines
        self._explain(record, found)
        return by_traffic(self._traffic.get(record.id), record, alive, found)

    def rebalanced(self, record: pb.TopologyRecord, current: Placement, *, may_evict: bool = True) -> Placement | None:
        if self._waits(record):
            return None
        offered = self._offered(record, current)
        even = place_from_scratch(executors_of_record(record), record.workers, offered)
        return by_traffic(self._traffic.get(record.id), record, {}, even)

    def _meanwhile(self, record: pb.TopologyRecord, current: Placement, dead: Collection[Slot]) -> Placement:
        """Return the placement of a topology that waits. If it runs, it does with all of its executors.

        Those that have no worker come to its machines that others have left. Other workers stay as they are.
        """
        stay = {slot: run for slot, run in current.items() if self._isolation.may_stay(record.id, slot)}
        alive = {slot: run for slot, run in stay.items() if slot not in dead}
        if not current or runs_all(record, alive):
            return stay
        crowded = self._isolation.crowded[record.id]
        offered = {slot for slot in self._offered(record, current) if slot.supervisor_id not in crowded}
        if not offered:
            return stay
        apart = {slot: run for slot, run in alive.items() if slot not in offered}
        there = {executor for run in apart.values() for executor in run}
        others = [one for one in executors_of_record(record) if one not in there]
        workers = max(1, record.workers - len(apart))
        own = {slot: run for slot, run in alive.items() if slot in offered}
        return apart | place(Request(others, workers, own, offered, offered & set(dead)))

    def _offered(self, record: pb.TopologyRecord, current: Placement) -> set[Slot]:
        offered = self._room.offered(record.id, current)
        if not self._isolation.homes:
            return offered
        return {slot for slot in offered if self._isolation.may_use(record.id, slot)}

    def _is_isolated(self, record: pb.TopologyRecord, placement: Placement) -> bool:
        """True if a topology is where it may be, and on all machines of its own, as far as it has workers for them."""
        if not self._isolation.homes:
            return True
        used = len({slot.supervisor_id for slot in placement})
        own = self._isolation.machines.get(record.id, ())
        wanted = min(len(own), record.workers, sum(map(len, placement.values())))
        return used >= wanted and all(self._isolation.may_use(record.id, slot) for slot in placement)

    def _waits(self, record: pb.TopologyRecord) -> bool:
        """True if a topology waits until others have left its machines."""
        why = self._isolation.waits_for(record.id)
        if why:
            self._shortages[record.id] = why
        return bool(why)

    def _explain(self, record: pb.TopologyRecord, found: Placement) -> None:
        """Record that a topology has too few slots because of the machines that isolated topologies have."""
        executors, workers = len(executors_of_record(record)), len(found)
        if not self._isolation.homes or workers >= min(record.workers, executors):
            return
        what = (
            f"It has {workers} of {record.workers} workers"
            if workers
            else f"None of its {executors} executors has a slot"
        )
        why = f"{what}: no other slot is free on {self._isolation.machines_text(record.id)}."
        self._shortages.setdefault(record.id, why)

    def memory_mb(self, record: pb.TopologyRecord, placement: Placement) -> Mapping[Slot, float]:
        return {}

    def allocate(self, record: pb.TopologyRecord, placement: Placement) -> None:
        pass

    def evicted(self) -> Collection[str]:
        return ()

    def has_all_workers(self, record: pb.TopologyRecord, workers: int) -> bool:
        return record.id not in self._isolation.crowded and workers == min(
            record.workers, len(executors_of_record(record))
        )


def rebalanced(
    record: pb.TopologyRecord, now_s: float, current: Placement, placer: Placer
) -> tuple[pb.TopologyRecord, Placement | None]:
    """Return the record after its rebalance, itself if that has to wait, and its new placement, None if it keeps its.

    A rebalance by the load does not wait for room, as the spouts do meanwhile: it is given up.
    """
    after = lifecycle.rebalanced(record, now_s)
    if record.pending.keeps_placement:
        return after, None
    placement = placer.rebalanced(after, current, may_evict=not record.pending.HasField("autoscaled"))
    if placement is not None:
        return after, placement
    if record.pending.HasField("autoscaled"):
        return lifecycle.rebalanced(lifecycle.without_numbers(record), now_s), None
    return record, None


def runs_all(record: pb.TopologyRecord, current: Placement) -> bool:
    """True if a placement holds each executor of a topology once, and no other."""
    placed = [executor for run in current.values() for executor in run]
    wanted = executors_of_record(record)
    return bool(placed) and len(placed) == len(wanted) and set(placed) == set(wanted)


def by_traffic(
    traffic: Traffic | None,
    record: pb.TopologyRecord,
    running: Placement,
    placement: Placement,
    kinds: Mapping[str, object] | None = None,
) -> Placement:
    """Bring executors together by measured traffic in all workers but those that keep running as they are.

    ``kinds``: of each component; only executors of one kind change places. None: all do.
    """
    if traffic is None:
        return placement
    changing = [slot for slot, run in placement.items() if running.get(slot) != run]
    return bring_together(placement, changing, dict(record.tasks), traffic, record.first_task or 1, kinds)
