"""A cluster as a client sees it: its daemons, its health, and the ledgers of its ackers. Pure.

Times are in seconds: ``…_unix_s`` since 1970 UTC, ``…_s`` a duration or an age.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping
from dataclasses import dataclass, field

from tupletree._address import address_of
from tupletree._health.assessment import Severity, Status
from tupletree.client.results.conversion import Result
from tupletree.v1 import acker_pb2, nimbus_pb2, topology_pb2


@dataclass(frozen=True, slots=True)
class Presence(Result):
    """One registered daemon.

    Attributes:
        id: supervisors keep their id; nimbuses and ackers take a new id at each start.
        slots: the ports of a supervisor's slots.
        draining: whether an acker takes no new trees.
        cpu_percent: the processor time that a supervisor has for executors, in percent of a processor.
        memory_mb: the memory that a supervisor has for executors; 0: it announces no capacity.
        resources: the named resources of a supervisor.
        not_compiled: why the daemon's installation runs plain Python unasked; "" if it is compiled.
        rack: the rack of a supervisor's machine; "" if none is configured.
        cgroups: whether the kernel enforces the limits of a supervisor's workers, by control groups.
    """

    id: str
    host: str
    grpc_port: int
    http_port: int
    started_unix_s: float
    version: str
    slots: tuple[int, ...]
    draining: bool
    pid: int
    cpu_percent: float
    memory_mb: float
    resources: Mapping[str, float] = field(hash=False)
    not_compiled: str
    rack: str
    cgroups: bool
    raw: topology_pb2.Presence = field(repr=False, compare=False)

    @property
    def address(self) -> str:
        """The daemon's gRPC address, host:port: what ``slots``, ``tail_log`` and ``ledger`` take."""
        return address_of(self.host, self.grpc_port)

    @property
    def http_address(self) -> str:
        """The address of the daemon's web pages and metrics, host:port."""
        return address_of(self.host, self.http_port)


@dataclass(frozen=True, slots=True)
class NimbusSummary(Result):
    """One nimbus. ``leader``: whether it leads."""

    presence: Presence
    leader: bool
    raw: nimbus_pb2.NimbusSummary = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SupervisorSummary(Result):
    """One supervisor, the number of its slots that are assigned, and what the executors assigned there need.

    Attributes:
        cpu_percent_used: in percent of a processor; 0 under the even scheduler, likewise the next.
        memory_mb_used: memory.
        resources_used: named resources.
        blacklisted: why the supervisor gets no new workers; "" if it does.
        isolated_topology: the name of the topology that has the supervisor to itself; "" if none has, or one that the
            caller may not see.
        pool: the user to whose pool the supervisor belongs; "" if to none, or to one of whose topologies the caller may
            see none.
    """

    presence: Presence
    slots_used: int
    cpu_percent_used: float
    memory_mb_used: float
    resources_used: Mapping[str, float] = field(hash=False)
    blacklisted: str
    isolated_topology: str
    pool: str
    raw: nimbus_pb2.SupervisorSummary = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class AckerSummary(Result):
    """One acker, the number of shards assigned to it, and whether the leader can reach it."""

    presence: Presence
    shards: int
    reachable: bool
    raw: nimbus_pb2.AckerSummary = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ClusterDescription(Result):
    """The daemons of a cluster and the use of its slots.

    Attributes:
        epoch: the leader's epoch, which rises with each leader.
        version: the leader's version of Tupletree.
        topologies: the number of topologies that the caller may see.
        scheduler: even, or resource.
    """

    nimbuses: tuple[NimbusSummary, ...]
    supervisors: tuple[SupervisorSummary, ...]
    ackers: tuple[AckerSummary, ...]
    epoch: int
    version: str
    slots_total: int
    slots_used: int
    topologies: int
    scheduler: str
    raw: nimbus_pb2.DescribeClusterReply = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class HealthReason(Result):
    """One fault or note.

    Attributes:
        kind: a stable name for programs, such as acker.not_ready.
        subject: the name of a topology, or the id of a daemon.
        sentence: the reason, for people.
        command: the command that shows more; "": none.
        topology_id: "": not about a topology.
        component: "": not about a component.
    """

    severity: Severity
    kind: str
    subject: str
    sentence: str
    command: str
    topology_id: str
    component: str
    raw: nimbus_pb2.HealthReason = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ClusterHealth(Result):
    """The leader's verdict on the cluster.

    Attributes:
        faults: the reasons for the verdict, the worst first.
        notes: what deserves a look and does not change the verdict.
    """

    verdict: Status
    faults: tuple[HealthReason, ...]
    notes: tuple[HealthReason, ...]
    raw: nimbus_pb2.DescribeHealthReply = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ShardSummary(Result):
    """One shard of a topology's trees in an acker. Counters count since the acker took the shard.

    Attributes:
        pending: the trees that are neither complete nor failed.
        oldest_age_s: the age of the oldest pending tree.
        inits: the begun trees.
        timeouts: the trees that expired.
        bytes_held: the memory of the pending trees, in bytes.
    """

    topology_id: str
    shard: int
    pending: int
    oldest_age_s: float
    inits: int
    acks: int
    fails: int
    resets: int
    timeouts: int
    completed: int
    bytes_held: int
    raw: acker_pb2.ShardSummary = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class NamespaceSummary(Result):
    """One namespace of trees at an acker. Counters count since the acker began, or since its clients were forgotten.

    Attributes:
        clients: the connected programs.
        timeout_s: the longest timeout of a tree.
        begun: the trees that were begun, without those ``refused`` for the quota.
        timed_out: the trees whose client did not end them in time. Clients fail theirs, so these count as ``failed``.
    """

    name: str
    clients: int
    open_trees: int
    max_open_trees: int
    max_updates_per_s: int
    timeout_s: float
    begun: int
    done: int
    failed: int
    timed_out: int
    refused: int
    raw: acker_pb2.NamespaceSummary = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LedgerDescription(Result):
    """The ledger of one acker, by shard. ``reasons``: why the acker is not ready."""

    acker_id: str
    draining: bool
    ready: bool
    reasons: tuple[str, ...]
    shards: tuple[ShardSummary, ...]
    namespaces: tuple[NamespaceSummary, ...]
    raw: acker_pb2.DescribeLedgerReply = field(repr=False, compare=False)
