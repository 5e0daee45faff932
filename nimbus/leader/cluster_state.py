"""Reading the cluster's state from ZooKeeper, and writing the changes that the planner decides."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tupletree._coord import paths
from tupletree._coord.leader import Create, Delete, LeaderElection, Put, Write, parts
from tupletree._coord.store import Store, encode
from tupletree._coord.versioned import Versioned
from tupletree.v1 import topology_pb2 as pb

from .history import bounded, oldest
from .planner import Remove, Snapshot, Update, placement_of
from .scheduler import Slot
from .shard_placement import Acker


@dataclass(frozen=True)
class ClusterState:
    """Contents of ZooKeeper, as close to a consistent snapshot as separate reads allow.

    ``unread_records`` and ``unread_assignments``: why a record or an assignment could not be read, by topology id. A
    topology listed in either mapping exists and is left unchanged.
    """

    records: Mapping[str, Versioned[pb.TopologyRecord]]
    assignments: Mapping[str, Versioned[pb.Assignment]]
    supervisors: Mapping[str, pb.Presence]
    ackers: Mapping[str, pb.Presence]
    worker_presences: Mapping[str, set[Slot]]
    unread_records: Mapping[str, str] = field(default_factory=dict)
    unread_assignments: Mapping[str, str] = field(default_factory=dict)

    @property
    def unread(self) -> dict[str, str]:
        """Reasons why the record or the assignment of a topology cannot be read, by topology id."""
        return {**self.unread_assignments, **self.unread_records}

    def used_slots(self) -> set[Slot]:
        """Return the slots that topologies are assigned to."""
        return {slot for one in self.assignments.values() for slot in placement_of(one.value)}

    def free_slots(self) -> set[Slot]:
        """Return the slots of registered supervisors that no topology is assigned to."""
        offered = {Slot(one.id, port) for one in self.supervisors.values() for port in one.slots}
        return offered - self.used_slots()


def load(store: Store) -> ClusterState:
    """Read everything that a decision needs.

    Assignments are read before records. An assignment without a record is therefore a leftover, never a topology that
    was created in between. The same holds for an unreadable assignment without a record.
    """
    with store.snapshot():
        assignments = store.assignments()
        records = store.topologies()
        known = records.keys() | records.unreadable.keys()
        slots = store.worker_slots(known)
        supervisors, ackers = store.supervisors(), store.ackers()
    workers = {one: {Slot(*key) for key in keys} for one, keys in slots.items()}
    unread = {one: why for one, why in assignments.unreadable.items() if one in known}
    leftovers = {one: Versioned(pb.Assignment(topology_id=one), -1) for one in assignments.unreadable.keys() - known}
    return ClusterState(
        records,
        {**assignments, **leftovers},
        supervisors,
        ackers,
        workers,
        records.unreadable,
        unread,
    )


def with_known(state: ClusterState, before: ClusterState | None) -> ClusterState:
    """Fill the unreadable records and assignments of ``state`` from an earlier read.

    Nimbus thus still knows the workers of these topologies, their slots stay in use, and their statistics are kept.
    """
    if before is None or not state.unread:
        return state
    records = {one: before.records[one] for one in state.unread_records if one in before.records}
    assignments = {one: before.assignments[one] for one in state.unread_assignments if one in before.assignments}
    return replace(state, records={**state.records, **records}, assignments={**state.assignments, **assignments})


def snapshot(
    state: ClusterState,
    epoch: int,
    ackers: Mapping[str, Acker],
    dead: frozenset[tuple[str, Slot]],
    held: frozenset[str],
    drained: frozenset[str],
) -> Snapshot:
    return Snapshot(
        epoch=epoch,
        now_unix_s=time.time(),
        records=state.records,
        assignments=state.assignments,
        supervisors=state.supervisors,
        ackers=ackers,
        worker_presences=state.worker_presences,
        dead=dead,
        held=held,
        drained=drained,
        unread_records=state.unread_records,
        unread_assignments=state.unread_assignments,
    )


def apply(store: Store, election: LeaderElection, epoch: int, change: Update | Remove, history_max: int) -> None:
    """Write one change. An update is one transaction. A removal is one transaction if it fits, otherwise several.

    ``history_max``: the number of removed topologies to remember.

    Raises ConflictError, AuthorityError, UnavailableError, or UsageError if the update is too large.
    """
    match change:
        case Update():
            election.write(epoch, _update(store, change))
        case Remove():
            for part in parts(_remove(store, change, history_max)):
                election.write(epoch, part)


def _update(store: Store, change: Update) -> list[Write]:
    root = store.root
    writes: list[Write] = []
    if change.record is not None:
        writes.append(Put(paths.topology(root, change.topology_id), encode(change.record.value), change.record.version))
    if change.assignment is not None:
        path, data = paths.assignment(root, change.topology_id), encode(change.assignment.value)
        version = change.assignment.version
        if version < 0:
            record = store.topology(change.topology_id)
            writes.append(Create(path, data, reader="" if record is None else record.value.owner))
        else:
            writes.append(Put(path, data, version))
    writes += [Delete(paths.worker(root, change.topology_id, slot.supervisor_id, slot.port)) for slot in change.forget]
    return writes


def _remove(store: Store, change: Remove, history_max: int) -> list[Write]:
    """Add the topology to the history, and delete everything of the topology.

    The assignment goes first, which ends the workers; then children before their parents. The record goes last, so that
    an interrupted removal is resumed.
    """
    root, topology_id = store.root, change.topology_id
    writes = _remember(store, change.past, history_max) if change.past is not None else []
    for folder in (
        paths.assignment(root, topology_id),
        paths.workers_of(root, topology_id),
        paths.errors_of(root, topology_id),
        paths.statistics_of(root, topology_id),
    ):
        writes += [Delete(node) for node in store.tree_below(folder)]
    if change.record_version >= 0:
        writes.append(Delete(paths.topology(root, topology_id), change.record_version))
    return writes


def _remember(store: Store, past: pb.PastTopology, history_max: int) -> list[Write]:
    """Create the entry of a removed topology in the history, and delete the oldest entries beyond ``history_max``.

    The entry goes into the first transaction of a removal, while the topology's errors can still be read. A removal
    that is resumed finds the entry, and does not write it again.
    """
    found = store.past_topologies()
    removed_unix_s = {one: stored.value.removed_unix_s for one, stored in found.items()}
    removed_unix_s |= dict.fromkeys(found.unreadable, 0.0)
    writes: list[Write] = []
    if history_max and past.id not in removed_unix_s:
        entry = bounded(past, store.errors(past.id))
        writes.append(Create(paths.past_topology(store.root, past.id), encode(entry)))
        removed_unix_s[past.id] = past.removed_unix_s
    dropped = oldest(removed_unix_s, len(removed_unix_s) - history_max)
    return writes + [Delete(paths.past_topology(store.root, one)) for one in dropped]
