"""The sentence that explains why a topology is not fully scheduled."""

from __future__ import annotations  # pure

from tupletree._constraints import MACHINE_KEYS
from tupletree.parallelism import executors_of_record
from tupletree.v1 import topology_pb2 as pb

from . import lifecycle
from .planner import placement_of


def unscheduled(
    record: pb.TopologyRecord, assignment: pb.Assignment | None, free_slots: int, shortage: str = ""
) -> str:
    """Explain in one sentence why a topology is not fully scheduled; "" if it is fully scheduled.

    ``shortage``: the resources or the machines that it lacks; "": none.
    """
    placed = {executor for run in placement_of(assignment).values() for executor in run} if assignment else set()
    waiting = len(set(executors_of_record(record)) - placed)
    if shortage and (waiting or lifecycle.is_waiting(record) or any(one in shortage for one in MACHINE_KEYS)):
        return shortage
    if waiting and not placed:
        return f"None of its {waiting} executors has a slot: {_slots(free_slots)} free."
    if waiting:
        return f"{waiting} executors have no slot: {_slots(free_slots)} free."
    missing = [one.shard for one in assignment.shards if not one.acker_id] if assignment else []
    if missing:
        return f"No acker is available for {len(missing)} of {record.acker_shards} shards; spouts wait."
    running, wanted = (
        len(assignment.workers) if assignment else 0,
        min(record.workers, len(executors_of_record(record))),
    )
    is_by_slots = not any(one.memory_mb for one in assignment.workers) if assignment else True
    if running < wanted and not free_slots and is_by_slots and record.status != lifecycle.KILLED:
        return f"It has {running} of {record.workers} workers: no slot is free."
    return ""


def _slots(count: int) -> str:
    return "no slot is" if count == 0 else f"{count} slot{'s are' if count > 1 else ' is'}"
