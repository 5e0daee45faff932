"""What tests of isolated machines and of pools read from a snapshot."""

from __future__ import annotations

from tupletree.nimbus.leader.planner import Snapshot, decide, placement_of
from tupletree.nimbus.leader.settled import Settled
from tupletree.nimbus.leader.unscheduled import unscheduled


def machines_of(snapshot: Snapshot, name: str) -> list[str]:
    stored = snapshot.assignments.get(f"{name}-1-1")
    return sorted(slot.supervisor_id for slot in placement_of(stored.value)) if stored is not None else []


def reason(snapshot: Snapshot, name: str) -> str:
    shortages: dict[str, str] = {}
    decide(snapshot, Settled(), shortages)
    topology_id = f"{name}-1-1"
    stored = snapshot.assignments.get(topology_id)
    assignment = stored.value if stored is not None else None
    return unscheduled(snapshot.records[topology_id].value, assignment, 9, shortages.get(topology_id, ""))
