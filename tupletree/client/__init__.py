"""The client of a cluster: submit and manage topologies.

    with NimbusClient("cluster.example:6627") as client:
        topology_id = client.submit("word-count", topology, {"topology.workers": 2})
        client.describe("word-count")
        client.kill("word-count", wait_secs=0)

StateClient asks for values of the states of a running topology, StoredStates reads them from their store.

NimbusClient and StateClient call the leading nimbus, which they find through any of the seeds. Errors are those of
``tupletree.errors``. A client is thread-safe.

Methods return immutable dataclasses, all of which are exported here; the status of a topology, for example, is
``client.describe("word-count").summary.record.status``, a TopologyStatus. The attribute ``raw`` is the protobuf message
that an object was made from.
"""

from __future__ import annotations

from tupletree.client.nimbus import NimbusClient
from tupletree.client.results.cluster import (
    AckerSummary,
    ClusterDescription,
    ClusterHealth,
    HealthReason,
    LedgerDescription,
    NimbusSummary,
    Presence,
    ShardSummary,
    SupervisorSummary,
)
from tupletree.client.results.conversion import Result
from tupletree.client.results.state import StateAnswer, StateEntry, UnknownValue
from tupletree.client.results.statistics import (
    ComponentStats,
    InputStats,
    StreamStats,
    TaskStats,
    TopologyDescription,
    WorkerSummary,
)
from tupletree.client.results.supervisor import (
    LogChunk,
    LogFile,
    LogMatch,
    ProfileChunk,
    SearchEnd,
    SlotSummary,
    SupervisorSlots,
)
from tupletree.client.results.topology import (
    Assignment,
    ComponentError,
    ComponentKind,
    ComponentSpec,
    ExecutorRange,
    GroupingKind,
    InputSpec,
    LogLevel,
    PendingAction,
    ShardAssignment,
    StreamSpec,
    TaskStatus,
    TopologyRecord,
    TopologySpec,
    TopologyStatus,
    TopologySummary,
    TopologyUpdate,
    TopologyVersion,
    WorkerAssignment,
)
from tupletree.client.savepoints import Savepoint
from tupletree.client.states import StateClient, StoredStates
from tupletree.client.upload import Progress

__all__ = [
    "AckerSummary",
    "Assignment",
    "ClusterDescription",
    "ClusterHealth",
    "ComponentError",
    "ComponentKind",
    "ComponentSpec",
    "ComponentStats",
    "ExecutorRange",
    "GroupingKind",
    "HealthReason",
    "InputSpec",
    "InputStats",
    "LedgerDescription",
    "LogChunk",
    "LogFile",
    "LogLevel",
    "LogMatch",
    "NimbusClient",
    "NimbusSummary",
    "PendingAction",
    "Presence",
    "ProfileChunk",
    "Progress",
    "Result",
    "Savepoint",
    "SearchEnd",
    "ShardAssignment",
    "ShardSummary",
    "SlotSummary",
    "StateAnswer",
    "StateClient",
    "StateEntry",
    "StoredStates",
    "StreamSpec",
    "StreamStats",
    "SupervisorSlots",
    "SupervisorSummary",
    "TaskStats",
    "TaskStatus",
    "TopologyDescription",
    "TopologyRecord",
    "TopologySpec",
    "TopologyStatus",
    "TopologySummary",
    "TopologyUpdate",
    "TopologyVersion",
    "UnknownValue",
    "WorkerAssignment",
    "WorkerSummary",
]
