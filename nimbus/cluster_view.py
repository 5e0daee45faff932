"""Snapshot of the cluster that nimbus serves over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tupletree.errors import NotFoundError
from tupletree.v1 import topology_pb2 as pb

from .leader.cluster_state import ClusterState
from .leader.leader_state import LeaderState
from .leader.planner import unscheduled
from .leader.shard_placement import Acker
from .rpc_replies import unread
from .statistics.acker_stats import LedgerHistory


@dataclass(frozen=True)
class ClusterView:
    """Everything a response is built from, except the definitions and errors of topologies."""

    loaded: ClusterState
    nimbuses: Mapping[str, pb.Presence]
    leader_id: str
    holders: int  # nimbuses that hold the bundles of all topologies
    ackers: Mapping[str, Acker]  # ackers not known to be unreachable, by id
    ledgers: Mapping[str, LedgerHistory]  # ledger statistics that ackers reported, by acker id
    leader_state: LeaderState
    version: str
    now_s: float  # monotonic
    now_unix_s: float
    silences: Mapping[str, str] = field(default_factory=dict)  # reasons why ackers do not answer, by acker id

    @cached_property
    def free_slots(self) -> int:
        """Number of slots that no topology uses."""
        return len(self.loaded.free_slots())

    def unscheduled(self, record: pb.TopologyRecord) -> str:
        """Return the reason why a topology is not fully scheduled, as a sentence; empty if the topology is."""
        stored = self.loaded.assignments.get(record.id)
        assignment = stored.value if stored is not None else None
        return (
            unread(self.loaded, record.id)
            or self.leader_state.failed_writes.reason(record.id)
            or unscheduled(record, assignment, self.free_slots)
        )

    @property
    def unread(self) -> dict[str, str]:
        """Reasons why a topology's record cannot be read, by topology id, for records that were never read before."""
        found = self.loaded.unread_records.keys() - self.loaded.records.keys()
        return {one: unread(self.loaded, one) for one in sorted(found)}

    def records(self) -> list[pb.TopologyRecord]:
        """Return every topology, oldest first."""
        found = [one.value for one in self.loaded.records.values()]
        return sorted(found, key=lambda one: (one.submitted_unix_s, one.id))

    def record(self, topology_id: str) -> pb.TopologyRecord:
        """Return the topology with an id. URL encoding does not change an id. Raises NotFoundError."""
        stored = self.loaded.records.get(topology_id)
        if stored is None:
            raise NotFoundError(f"there is no topology with the id '{topology_id[:200]}'")
        return stored.value

    def assignment(self, topology_id: str) -> pb.Assignment:
        """Return the assignment of a topology; an empty one if the topology has not been scheduled yet."""
        stored = self.loaded.assignments.get(topology_id)
        return stored.value if stored is not None else pb.Assignment(topology_id=topology_id)
