"""The cluster at one moment, as nimbus shows it over HTTP."""

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
    """All that a page is made of, but the topologies' own definitions and errors."""

    loaded: ClusterState
    nimbuses: Mapping[str, pb.Presence]
    leader_id: str
    holders: int  # nimbuses that hold the bundles of all topologies
    ackers: Mapping[str, Acker]  # those that answer, by id
    ledgers: Mapping[str, LedgerHistory]  # what ackers said of their ledgers, by id
    leader_state: LeaderState
    version: str
    now_s: float  # monotonic
    now_unix_s: float
    silences: Mapping[str, str] = field(default_factory=dict)  # why ackers do not answer, by id

    @cached_property
    def free_slots(self) -> int:
        """How many slots no topology uses."""
        return len(self.loaded.free_slots())

    def unscheduled(self, record: pb.TopologyRecord) -> str:
        """Why a topology does not run as it should, in a sentence; empty if it does."""
        stored = self.loaded.assignments.get(record.id)
        assignment = stored.value if stored is not None else None
        return (
            unread(self.loaded, record.id)
            or self.leader_state.failed_writes.reason(record.id)
            or unscheduled(record, assignment, self.free_slots)
        )

    @property
    def unread(self) -> dict[str, str]:
        """Topologies of which nothing is known but that ZooKeeper's record of them cannot be read: why, by id."""
        found = self.loaded.unread_records.keys() - self.loaded.records.keys()
        return {one: unread(self.loaded, one) for one in sorted(found)}

    def records(self) -> list[pb.TopologyRecord]:
        """Every topology, the oldest first."""
        found = [one.value for one in self.loaded.records.values()]
        return sorted(found, key=lambda one: (one.submitted_unix_s, one.id))

    def record(self, topology_id: str) -> pb.TopologyRecord:
        """The topology of an id, which looks the same when it is encoded. Raises NotFoundError."""
        stored = self.loaded.records.get(topology_id)
        if stored is None:
            raise NotFoundError(f"there is no topology with the id '{topology_id[:200]}'")
        return stored.value

    def assignment(self, topology_id: str) -> pb.Assignment:
        """Where a topology runs; empty if nowhere yet."""
        stored = self.loaded.assignments.get(topology_id)
        return stored.value if stored is not None else pb.Assignment(topology_id=topology_id)
