"""The client of a cluster: submit and manage topologies.

    with NimbusClient("cluster.example:6627") as client:
        topology_id = client.submit("word-count", topology, {"topology.workers": 2})
        client.describe("word-count")
        client.kill("word-count", wait_secs=0)

StateClient reads and writes values of the states of a running topology, StoredStates reads them from their store.

NimbusClient and StateClient call the leading nimbus, which they find through any of the seeds. Errors are those of
``tupletree.errors``. A client is thread-safe.

Methods return immutable dataclasses, all of which are exported here; the status of a topology, for example, is
``client.describe("word-count").summary.record.status``, a TopologyStatus. The attribute ``raw`` is the protobuf message
that an object was made from.
"""

from __future__ import annotations

from tupletree.client.nimbus import NimbusClient
from tupletree.client.results.autoscale import AutoscaleChange
from tupletree.client.results.blob import BlobRecord, BlobSummary
from tupletree.client.results.changes import Autoscaling, ComponentScaling, TopologyUpdate
from tupletree.client.results.cluster import (
    AckerSummary,
    ClusterDescription,
    ClusterHealth,
    HealthReason,
    LedgerDescription,
    NamespaceSummary,
    NimbusSummary,
    Presence,
    ShardSummary,
    SupervisorSummary,
)
from tupletree.client.results.conversion import Result
from tupletree.client.results.history import PastComponent, PastTopology
from tupletree.client.results.needs import ComponentNeeds
from tupletree.client.results.state import StateAnswer, StateEntry, StateWrite, UnknownValue
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
    TopologyVersion,
    WorkerAssignment,
)
from tupletree.client.savepoints import Savepoint
from tupletree.client.states import StateClient, StoredStates
from tupletree.client.upload import Progress
from tupletree.state.sizes import ComponentStates, LargeEntry, SizePrecision, StateSize, StateSpread, TaskStateSize

__all__ = [
    "AckerSummary",
    "Assignment",
    "AutoscaleChange",
    "Autoscaling",
    "BlobRecord",
    "BlobSummary",
    "ClusterDescription",
    "ClusterHealth",
    "ComponentError",
    "ComponentKind",
    "ComponentNeeds",
    "ComponentScaling",
    "ComponentSpec",
    "ComponentStates",
    "ComponentStats",
    "ExecutorRange",
    "GroupingKind",
    "HealthReason",
    "InputSpec",
    "InputStats",
    "LargeEntry",
    "LedgerDescription",
    "LogChunk",
    "LogFile",
    "LogLevel",
    "LogMatch",
    "NamespaceSummary",
    "NimbusClient",
    "NimbusSummary",
    "PastComponent",
    "PastTopology",
    "PendingAction",
    "Presence",
    "ProfileChunk",
    "Progress",
    "Result",
    "Savepoint",
    "SearchEnd",
    "ShardAssignment",
    "ShardSummary",
    "SizePrecision",
    "SlotSummary",
    "StateAnswer",
    "StateClient",
    "StateEntry",
    "StateSize",
    "StateSpread",
    "StateWrite",
    "StoredStates",
    "StreamSpec",
    "StreamStats",
    "SupervisorSlots",
    "SupervisorSummary",
    "TaskStateSize",
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
