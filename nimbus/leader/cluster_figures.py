"""Cluster-wide metrics for /metrics of the leader. Pure."""

from __future__ import annotations

from ..metrics import STATUSES, ClusterFigures, TopologyFigures
from .cluster_state import ClusterState
from .leader_state import LeaderState
from .planner import placement_of
from .unscheduled import unscheduled


def figures(state: ClusterState, leader_state: LeaderState, ackers: int, dead: int, now_s: float) -> ClusterFigures:
    """Return the metrics of the cluster as last read, updated by the worker reports since then."""
    free = len(state.free_slots())
    topologies = []
    for one in state.records.values():
        record, stored = one.value, state.assignments.get(one.value.id)
        assignment = stored.value if stored is not None else None
        outlook = leader_state.outlooks.get(record.id)
        slots = placement_of(assignment) if assignment is not None else {}
        topologies.append(
            TopologyFigures(
                name=record.name,
                status=STATUSES[max(0, record.status - 1)],
                workers=len(slots),
                ready=sum(leader_state.is_ready(record.id, slot, run, now_s) for slot, run in slots.items()),
                is_unscheduled=bool(
                    leader_state.failed_writes.reason(record.id)
                    or unscheduled(record, assignment, free, leader_state.shortages.get(record.id, ""))
                ),
                shards_without_acker=sum(not shard.acker_id for shard in assignment.shards) if assignment else 0,
                wanted_executors={one.component: one.wanted for one in outlook.scalings} if outlook else {},
                wanted_workers=outlook.wanted_workers if outlook else None,
            )
        )
    return ClusterFigures(
        supervisors=len(state.supervisors),
        ackers=ackers,
        slots_free=free,
        slots_used=sum(len(one.slots) for one in state.supervisors.values()) - free,
        dead_workers=dead,
        topologies=tuple(topologies),
        blacklisted_supervisors=len(leader_state.blacklist.listed),
    )
