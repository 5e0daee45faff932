"""Snapshots of clusters for the planner, and what comes of its changes."""

from __future__ import annotations

from dataclasses import replace

from tupletree._coord.versioned import Versioned
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.planner import (
    Remove,
    Snapshot,
    Update,
    decide,
    placement_of,
)
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.leader.shard_placement import Acker
from tupletree.v1 import topology_pb2 as pb

NOW = 1000.0


def record(name: str = "wc", workers: int = 2, tasks: int = 4, **fields: object) -> pb.TopologyRecord:
    one = pb.TopologyRecord(
        id=f"{name}-1-1",
        name=name,
        status=lifecycle.ACTIVE,
        workers=workers,
        tasks={"split": tasks},
        executors={"split": tasks},
        acker_shards=workers,
    )
    one.MergeFrom(pb.TopologyRecord(**fields))  # type: ignore[arg-type]
    return one


def supervisor(name: str, *ports: int) -> pb.Presence:
    return pb.Presence(id=name, host=f"{name}.host", slots=ports)


def cluster(*records: pb.TopologyRecord, **changes: object) -> Snapshot:
    snapshot = Snapshot(
        epoch=3,
        now_unix_s=NOW,
        records={one.id: Versioned(one, 0) for one in records},
        assignments={},
        supervisors={"a": supervisor("a", 1, 2), "b": supervisor("b", 1, 2)},
        ackers={"k1": Acker("k1:1"), "k2": Acker("k2:1")},
        worker_presences={},
        dead=frozenset(),
    )
    return replace(snapshot, **changes)  # type: ignore[arg-type]


def applied(snapshot: Snapshot, count: int | None = None) -> Snapshot:
    """The snapshot after the first ``count`` of its changes are written."""
    records, assignments = dict(snapshot.records), dict(snapshot.assignments)
    presences = {one: set(slots) for one, slots in snapshot.worker_presences.items()}
    for change in decide(snapshot)[:count]:
        match change:
            case Remove(topology_id):
                records.pop(topology_id, None)
                assignments.pop(topology_id, None)
                presences.pop(topology_id, None)
            case Update():
                if change.record is not None:
                    assert records[change.topology_id].version == change.record.version
                    records[change.topology_id] = Versioned(change.record.value, change.record.version + 1)
                if change.assignment is not None:
                    before = assignments.get(change.topology_id)
                    assert change.assignment.version == (before.version if before else -1)
                    assignments[change.topology_id] = Versioned(change.assignment.value, change.assignment.version + 1)
                presences[change.topology_id] = presences.get(change.topology_id, set()) - set(change.forget)
    dead = frozenset(
        (one, slot)
        for one, slot in snapshot.dead
        if one in assignments
        and placement_of(assignments[one].value).get(slot) == placement_of(snapshot.assignments[one].value).get(slot)
    )
    return replace(snapshot, records=records, assignments=assignments, worker_presences=presences, dead=dead)


def settled(snapshot: Snapshot) -> Snapshot:
    for _ in range(6):
        if not decide(snapshot):
            return snapshot
        snapshot = applied(snapshot)
    raise AssertionError(f"still undecided: {decide(snapshot)}")


def used(snapshot: Snapshot) -> list[Slot]:
    return [slot for one in snapshot.assignments.values() for slot in placement_of(one.value)]
