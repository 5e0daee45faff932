"""The cluster as a caller sees it: every gRPC and HTTP response is built from this view. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tupletree._coord.versioned import Versioned
from tupletree._security.rights import Principal, acl_of, is_admin, may_read
from tupletree.errors import NotFoundError
from tupletree.v1 import topology_pb2 as pb

from .leader.cluster_state import ClusterState
from .leader.isolation import Owner
from .leader.leader_state import LeaderState
from .leader.shard_placement import Acker
from .leader.unscheduled import unscheduled
from .resource_view import ResourceView
from .statistics.acker_stats import LedgerHistory


@dataclass(frozen=True)
class ClusterView:
    """Everything a response is built from, except the definitions and errors of topologies.

    ``state`` holds all topologies, so that the use of slots and ackers is counted over all of them. The methods leave
    out the topologies that the caller may not see.
    """

    state: ClusterState
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
    hidden: Collection[str] = frozenset()  # ids of the topologies that the caller may not see

    @cached_property
    def free_slots(self) -> int:
        """Number of slots that no topology uses."""
        return len(self.state.free_slots())

    @cached_property
    def used_slots(self) -> Counter[str]:
        """Number of slots that topologies use, by supervisor id."""
        return Counter(slot.supervisor_id for slot in self.state.used_slots())

    @cached_property
    def resources(self) -> ResourceView:
        """The use of resources, counted over all topologies."""
        return ResourceView(self.state, is_on=self.leader_state.scheduling.by_resources)

    def blacklisted(self, supervisor_id: str) -> str:
        """Return why a supervisor gets no new workers; "" if it does."""
        entry = self.leader_state.blacklist.listed.get(supervisor_id)
        return entry.sentence if entry is not None else ""

    def isolated_topology(self, supervisor_id: str) -> str:
        """Return the name of the topology that has a supervisor to itself; "" if none has, or one that is not shown."""
        owner = self.leader_state.isolation.owners.get(supervisor_id, Owner())
        return self.record(owner.topology).name if self.has_record(owner.topology) else ""

    def pool(self, supervisor_id: str) -> str:
        """Return the user to whose pool a supervisor belongs; "" if to none, or if no topology of the user is shown."""
        pool = self.leader_state.isolation.owners.get(supervisor_id, Owner()).pool
        return pool if pool in self._owners else ""

    @cached_property
    def _owners(self) -> frozenset[str]:
        return frozenset(one.owner for one in self.records())

    def unscheduled(self, record: pb.TopologyRecord) -> str:
        """Return the reason why a topology is not fully scheduled, as a sentence; "" if it is fully scheduled."""
        stored = self.state.assignments.get(record.id)
        assignment = stored.value if stored is not None else None
        return (
            self._unread(record.id)
            or self.leader_state.failed_writes.reason(record.id)
            or unscheduled(record, assignment, self.free_slots, self.leader_state.shortages.get(record.id, ""))
        )

    @property
    def unread(self) -> dict[str, str]:
        """Reasons why a topology's record cannot be read, by topology id, for records that were never read before."""
        found = self.state.unread_records.keys() - self.state.records.keys() - set(self.hidden)
        return {one: self._unread(one) for one in sorted(found)}

    def _unread(self, topology_id: str) -> str:
        why = self.state.unread.get(topology_id)
        if why is None:
            return ""
        return f"Its record or assignment in ZooKeeper cannot be read, so nimbus does not change the topology: {why}."

    def records(self) -> list[pb.TopologyRecord]:
        """Return every topology, oldest first."""
        found = [one.value for topology_id, one in self.state.records.items() if topology_id not in self.hidden]
        return sorted(found, key=lambda one: (one.submitted_unix_s, one.id))

    def has_record(self, topology_id: str) -> bool:
        """True if there is a topology with this id that the caller may see."""
        return topology_id in self.state.records and topology_id not in self.hidden

    def record(self, topology_id: str) -> pb.TopologyRecord:
        """Return the topology with an id, which is the same when URL-encoded. Raises NotFoundError."""
        if not self.has_record(topology_id):
            raise NotFoundError(f"there is no topology with the id '{topology_id[:200]}'")
        return self.state.records[topology_id].value

    def named(self, name: str) -> pb.TopologyRecord:
        """Return the topology with a name. Raises NotFoundError."""
        return named(name, {one: stored for one, stored in self.state.records.items() if one not in self.hidden}).value

    def assignments(self) -> dict[str, pb.Assignment]:
        """Return the assignments by topology id, ascending."""
        found = sorted(self.state.assignments.items())
        return {topology_id: one.value for topology_id, one in found if topology_id not in self.hidden}

    def assignment(self, topology_id: str) -> pb.Assignment:
        """Return the assignment of a topology; an empty one if the topology has not been scheduled yet."""
        stored = self.state.assignments.get(topology_id)
        if stored is None or topology_id in self.hidden:
            return pb.Assignment(topology_id=topology_id)
        return stored.value


def hidden_topologies(state: ClusterState, who: Principal | None, admins: Collection[str]) -> frozenset[str]:
    """Return the topologies that ``who`` may not read; none if ``who`` is None.

    A topology whose owner cannot be read is visible only to administrators.
    """
    if who is None or is_admin(who, admins):
        return frozenset()
    readable = {one for one, stored in state.records.items() if may_read(who, admins, acl_of(stored.value))}
    return frozenset((state.records.keys() | state.assignments.keys() | state.unread.keys()) - readable)


def named(name: str, records: Mapping[str, Versioned[pb.TopologyRecord]]) -> Versioned[pb.TopologyRecord]:
    """Return the topology with a name. Raises NotFoundError."""
    for stored in records.values():
        if stored.value.name == name:
            return stored
    raise NotFoundError(f"there is no topology named '{name}'; 'tupletree list' shows the names")
