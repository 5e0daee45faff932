"""Planner of the changes that nimbus makes to the cluster, from one snapshot of the cluster.

``decide`` handles every reason for a change: kills and rebalances that are due, dead workers, slots and ackers that
came or went. ``cluster_state.py`` writes each update as one transaction, conditional on the versions seen here. A slot
that one topology gives up becomes free for others only in the next decision, after the first topology's assignment is
written. No slot is therefore ever promised twice. Nimbus decides again after each round of changes, until none is left.
"""

from __future__ import annotations  # pure

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tupletree._coord.versioned import Versioned
from tupletree.parallelism import executors_of_record
from tupletree.v1 import topology_pb2 as pb

from . import lifecycle
from .blacklist import offering
from .free_capacity import FreeCapacity
from .history import past_topology
from .isolation import Isolation, isolate
from .placing import EvenPlacer, Placer, rebalanced
from .resource_placing import ResourcePlacer
from .resources import axes_of
from .scheduler import Placement, Slot
from .scheduling import Scheduling
from .settled import Settled
from .shard_placement import Acker, Shard, place_shards
from .traffic import Traffic


@dataclass(frozen=True)
class Snapshot:
    """State of the cluster: contents of ZooKeeper, and liveness of workers and ackers."""

    epoch: int
    now_unix_s: float
    records: Mapping[str, Versioned[pb.TopologyRecord]]
    assignments: Mapping[str, Versioned[pb.Assignment]]
    supervisors: Mapping[str, pb.Presence]
    ackers: Mapping[str, Acker]  # ackers that answer
    worker_presences: Mapping[str, Collection[Slot]]  # by topology id
    dead: frozenset[tuple[str, Slot]]  # assigned workers that are not alive
    held: frozenset[str] = frozenset()  # topologies left unchanged: a write for them has just failed
    drained: frozenset[str] = frozenset()  # topologies that wait for a kill or rebalance and have nothing in flight
    unread_records: Mapping[str, str] = field(default_factory=dict)  # reasons, by topology id
    unread_assignments: Mapping[str, str] = field(default_factory=dict)
    traffic: Mapping[str, Traffic] = field(default_factory=dict)  # of the topologies to be placed, by topology id
    scheduling: Scheduling = field(default_factory=Scheduling)
    blacklisted: frozenset[str] = frozenset()  # supervisors that get no new workers

    @cached_property
    def dead_topologies(self) -> frozenset[str]:
        """The topologies with dead workers."""
        return frozenset(topology_id for topology_id, _ in self.dead)

    @cached_property
    def used_slots(self) -> Mapping[str, Collection[Slot]]:
        """The slots that each topology uses: registered workers where its assignment cannot be read."""
        used = {one: list(self.worker_presences.get(one, ())) for one in self.unread_assignments}
        for one, stored in self.assignments.items():
            used.setdefault(one, []).extend(_slots_of(stored.value))
        return used

    @cached_property
    def isolation(self) -> Isolation:
        """The machines that topologies have to themselves, and those of pools."""
        isolated, pools = self.scheduling.isolated, self.scheduling.pools
        if not isolated and not pools:
            return Isolation()
        records = [one.value for one in self.records.values()]
        supervisors = offering(self.supervisors, self.blacklisted)
        staying = self.held.union(self.unread_assignments)
        return isolate(isolated, records, self.used_slots, self.dead, supervisors, pools, staying)


@dataclass(frozen=True)
class Remove:
    """Delete a topology and all its nodes. ``record_version`` -1: the record is gone already.

    ``past``: the entry of the topology in the history, without counts and errors; None for leftovers.
    """

    topology_id: str
    record_version: int
    sentence: str
    past: pb.PastTopology | None = None


@dataclass(frozen=True)
class Update:
    """Write a topology's assignment and, after a rebalance, its record. Delete nodes of workers on lost machines."""

    topology_id: str
    record: Versioned[pb.TopologyRecord] | None
    assignment: Versioned[pb.Assignment] | None  # version -1: create it
    forget: tuple[Slot, ...]
    touched: frozenset[str]  # supervisors with changed slots
    sentence: str


@dataclass(frozen=True)
class Failure:
    """Reason why nothing can be decided for a topology."""

    topology_id: str
    reason: str


Change = Remove | Update | Failure


def to_be_placed(snapshot: Snapshot) -> Iterable[pb.TopologyRecord]:
    """Return the topologies that run and are about to be placed: those with dead workers, and those that rebalance."""
    dead = snapshot.dead_topologies
    records = (stored.value for stored in snapshot.records.values())
    return [one for one in records if one.id in dead or one.status == lifecycle.REBALANCING]


def decide(
    snapshot: Snapshot, settled: Settled | None = None, shortages: MutableMapping[str, str] | None = None
) -> list[Change]:
    """Return the changes to make, in order. Empty when the cluster is in the desired state.

    Changes are independent: a change that cannot be written does not affect the others. A topology whose record or
    assignment cannot be read is left unchanged. A killed topology is removed even if its assignment cannot be read.

    ``settled``: the topologies that need not be looked at; updated. ``shortages``: the resources or the machines of
    their own that topologies lack, by id; updated.
    """
    settled = Settled() if settled is None else settled
    settled.observe(snapshot, snapshot.isolation.owners)
    open_ = [one for one in snapshot.records if not _is_settled(snapshot, settled, one)]
    shortages = {} if shortages is None else shortages
    known = shortages if snapshot.scheduling.by_resources else snapshot.isolation.lacks
    found = {one: why for one, why in known.items() if one in snapshot.records}
    changes = _decide_open(snapshot, open_, settled, found) if open_ else []
    for gone in shortages.keys() - found.keys():
        del shortages[gone]
    shortages.update(found)
    unread = snapshot.unread_records
    changes += [Failure(one, unread[one]) for one in sorted(unread.keys() - snapshot.held)]
    leftovers = sorted(snapshot.assignments.keys() - snapshot.records.keys() - unread.keys() - snapshot.held)
    changes += [Remove(one, -1, f"Leftover nodes of removed topology {one} are removed.") for one in leftovers]
    return changes


def _decide_open(
    snapshot: Snapshot, open_: Collection[str], settled: Settled, shortages: MutableMapping[str, str]
) -> list[Change]:
    """Return the changes of the topologies that are looked at, and of those that give up their places to them."""
    changes: list[Change] = []
    room = room_of(snapshot)
    placer = placer_of(snapshot, room, shortages)
    ordered = sorted(open_, key=lambda one: (placer.importance(snapshot.records[one].value), one))
    for topology_id in itertools.chain(ordered, _evicted(placer, open_)):
        record = snapshot.records[topology_id]
        if topology_id in snapshot.held or topology_id in snapshot.unread_records:
            continue
        try:
            change: Change | None = _decide_one(snapshot, record, room, placer)
        except Exception as error:
            change = Failure(topology_id, f"planning its changes failed: {type(error).__name__}: {error}")
        if change is None:
            if _has_all_workers(snapshot, record.value, placer):
                settled.add(snapshot, topology_id)
            continue
        changes.append(change)
        if isinstance(change, Update) and change.assignment is not None:
            placement = placement_of(change.assignment.value)
            room.allocate(topology_id, placement, shards_of(change.assignment.value))
            placer.allocate(record.value if change.record is None else change.record.value, placement)
    return changes


def _evicted(placer: Placer, open_: Collection[str]) -> Iterator[str]:
    """Yield the topologies that give up their places and are not open. Read after the open ones are decided."""
    yield from sorted(set(placer.evicted()) - set(open_))


def placer_of(snapshot: Snapshot, room: FreeCapacity, shortages: MutableMapping[str, str]) -> Placer:
    if not snapshot.scheduling.by_resources:
        return EvenPlacer(room, snapshot.traffic, snapshot.isolation, shortages)
    records = {one: stored.value for one, stored in snapshot.records.items()}
    return ResourcePlacer(
        snapshot.scheduling,
        room,
        axes_of(records.values(), snapshot.supervisors.values()),
        offering(snapshot.supervisors, snapshot.blacklisted),
        records,
        {one: placement_of(stored.value) for one, stored in snapshot.assignments.items()},
        snapshot.traffic,
        shortages,
        spared={*snapshot.held, *snapshot.unread_records, *snapshot.unread_assignments},
    )


def _is_settled(snapshot: Snapshot, settled: Settled, topology_id: str) -> bool:
    is_faulty = topology_id in snapshot.dead_topologies or topology_id in snapshot.unread_assignments
    return not is_faulty and settled.has(snapshot, topology_id)


def _has_all_workers(snapshot: Snapshot, record: pb.TopologyRecord, placer: Placer) -> bool:
    """True if neither time nor free slots would change a decision about the topology."""
    found = snapshot.assignments.get(record.id)
    if found is None or record.id in snapshot.dead_topologies or lifecycle.is_waiting(record):
        return False
    workers, executors = found.value.workers, len(executors_of_record(record))
    return placer.has_all_workers(record, len(workers)) and sum(len(one.executors) for one in workers) == executors


def room_of(snapshot: Snapshot) -> FreeCapacity:
    supervisors = offering(snapshot.supervisors, snapshot.blacklisted)
    slots = (Slot(one, port) for one, presence in supervisors.items() for port in presence.slots)
    return FreeCapacity(
        slots, snapshot.used_slots, {one: shards_of(stored.value) for one, stored in snapshot.assignments.items()}
    )


def _decide_one(
    snapshot: Snapshot, stored: Versioned[pb.TopologyRecord], room: FreeCapacity, placer: Placer
) -> Change | None:
    record = stored.value
    if record.status == lifecycle.KILLED and _is_due(snapshot, record):
        found = snapshot.assignments.get(record.id)
        past = past_topology(record, found.value if found else None, snapshot.now_unix_s)
        return Remove(record.id, stored.version, f"Topology '{record.name}' is removed after its kill.", past)
    if record.id in snapshot.unread_assignments:
        return Failure(record.id, snapshot.unread_assignments[record.id])
    with room.load_without(record.id) as load:
        return _decide_topology(snapshot, stored, room, load, placer)


def _is_due(snapshot: Snapshot, record: pb.TopologyRecord) -> bool:
    return lifecycle.is_due(record, snapshot.now_unix_s, is_drained=record.id in snapshot.drained)


def placement_of(assignment: pb.Assignment) -> Placement:
    return {
        Slot(worker.supervisor_id, worker.port): tuple((one.first_task, one.last_task) for one in worker.executors)
        for worker in assignment.workers
    }


class PlacementCache:
    """The placements of stored assignments: the same object for as long as the stored assignment is the same object."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Versioned[pb.Assignment], Placement]] = {}

    def placements(self, assignments: Mapping[str, Versioned[pb.Assignment]]) -> dict[str, Placement]:
        """Return the placement of each assignment, by topology id. Do not change them."""
        known, self._known = self._known, {}
        for topology_id, stored in assignments.items():
            before = known.get(topology_id)
            is_same = before is not None and before[0] is stored
            self._known[topology_id] = before if before and is_same else (stored, placement_of(stored.value))
        return {one: placement for one, (_, placement) in self._known.items()}


def shards_of(assignment: pb.Assignment) -> list[Shard]:
    return [
        Shard(one.acker_id, one.address, one.draining_acker_id, one.draining_address)
        for one in sorted(assignment.shards, key=lambda one: one.shard)
    ]


def _slots_of(assignment: pb.Assignment) -> list[Slot]:
    return [Slot(worker.supervisor_id, worker.port) for worker in assignment.workers]


def _decide_topology(
    snapshot: Snapshot,
    stored: Versioned[pb.TopologyRecord],
    room: FreeCapacity,
    load: Mapping[str, int],
    placer: Placer,
) -> Update | None:
    record, topology_id = stored.value, stored.value.id
    found = snapshot.assignments.get(topology_id)
    before = found.value if found else pb.Assignment(topology_id=topology_id)
    current = placement_of(before)
    # Without a registered supervisor nothing can be placed: running workers go on until a supervisor is back.
    due = _is_due(snapshot, record) and bool(room.free or room.own(topology_id, current))
    rebalances = record.status == lifecycle.REBALANCING and due
    placement: Placement | None = None
    if rebalances:
        after_rebalance, placement = rebalanced(record, snapshot.now_unix_s, current, placer)
        rebalances = after_rebalance is not record
    restarts = rebalances and (bool(record.pending.conf) or record.pending.HasField("update"))
    spread = placement is not None
    if rebalances:
        record = after_rebalance
    if placement is None:
        placement = _kept(snapshot, record, current, placer)
    shards = place_shards(record.acker_shards, shards_of(before), snapshot.ackers, load, spread=spread)
    after = _assignment(snapshot, before, placement, shards, placer.memory_mb(record, placement))
    changed = found is None or after.version != before.version
    present = snapshot.worker_presences.get(topology_id, ())
    forget = tuple(s for s in sorted(present) if s not in placement and s.supervisor_id not in snapshot.supervisors)
    if not changed and not rebalances and not forget:
        return None
    return Update(
        topology_id,
        Versioned(record, stored.version) if rebalances else None,
        Versioned(after, found.version if found else -1) if changed else None,
        forget,
        frozenset(slot.supervisor_id for slot in (placement if restarts else _differing(current, placement))),
        _sentence(record, rebalances, before, after, forget),
    )


def _kept(snapshot: Snapshot, record: pb.TopologyRecord, current: Placement, placer: Placer) -> Placement:
    """Return the placement of a topology that is not rebalanced, with as little change as possible."""
    if record.status == lifecycle.KILLED:
        return current  # running workers finish; no new ones are started
    dead = {slot for slot in current if (record.id, slot) in snapshot.dead}
    return current if placer.is_placed(record, current, dead) else placer.placed(record, current, dead)


def _assignment(
    snapshot: Snapshot,
    before: pb.Assignment,
    placement: Placement,
    shards: Sequence[Shard],
    memory_mb: Mapping[Slot, float],
) -> pb.Assignment:
    """Return the assignment that follows ``before``, or ``before`` itself if nothing changes."""
    hosts = {Slot(worker.supervisor_id, worker.port): worker.host for worker in before.workers}
    after = pb.Assignment(topology_id=before.topology_id, epoch=snapshot.epoch, version=before.version + 1)
    for slot, run in sorted(placement.items()):
        presence = snapshot.supervisors.get(slot.supervisor_id)
        host = presence.host if presence is not None else hosts.get(slot, "")
        worker = after.workers.add(
            supervisor_id=slot.supervisor_id, host=host, port=slot.port, memory_mb=memory_mb.get(slot, 0.0)
        )
        worker.executors.extend(pb.ExecutorRange(first_task=first, last_task=last) for first, last in run)
    for number, shard in enumerate(shards):
        after.shards.add(
            shard=number,
            acker_id=shard.acker_id,
            address=shard.address,
            draining_acker_id=shard.draining_acker_id,
            draining_address=shard.draining_address,
        )
    same_shards = list(after.shards) == list(before.shards)
    if before.version and same_shards and list(after.workers) == list(before.workers):
        return before
    after.shard_version = before.shard_version if same_shards and before.version else after.version
    return after


def _differing(before: Placement, after: Placement) -> set[Slot]:
    return {slot for slot in before.keys() | after.keys() if before.get(slot) != after.get(slot)}


def _sentence(
    record: pb.TopologyRecord, rebalances: bool, before: pb.Assignment, after: pb.Assignment, forget: Sequence[Slot]
) -> str:
    """Describe the change for a reader of the log."""
    old, new = placement_of(before), placement_of(after)
    parts = []
    if rebalances:
        parts.append(f"is rebalanced and {lifecycle.status_name(record.status)} again")
    if old != new:
        was = {executor: slot for slot, run in old.items() for executor in run}
        moved = sum(1 for slot, run in new.items() for executor in run if was.get(executor) != slot)
        count = sum(map(len, new.values()))
        wanted = len(executors_of_record(record))
        parts.append(f"runs {count} of {wanted} executors in {len(new)} slots, {moved} of them newly placed")
    shards = [one for one, earlier in zip(after.shards, _padded(before, after), strict=True) if one != earlier]
    if shards:
        moves = ", ".join(f"{one.shard} to {one.acker_id or 'nobody'}" for one in shards[:8])
        parts.append(f"has its shards moved ({moves}{', …' if len(shards) > 8 else ''})")
    if forget:
        parts.append(f"loses {len(forget)} workers whose machines are gone")
    return f"Topology '{record.name}' {'; it '.join(parts) or 'has a new assignment'}."


def _padded(before: pb.Assignment, after: pb.Assignment) -> list[pb.ShardAssignment | None]:
    shards: list[pb.ShardAssignment | None] = list(before.shards[: len(after.shards)])
    return shards + [None] * (len(after.shards) - len(shards))
