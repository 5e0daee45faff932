from tupletree.v1 import topology_pb2 as _topology_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetLeaderRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetLeaderReply(_message.Message):
    __slots__ = ("address", "epoch", "is_me")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_ME_FIELD_NUMBER: _ClassVar[int]
    address: str
    epoch: int
    is_me: bool
    def __init__(self, address: _Optional[str] = ..., epoch: _Optional[int] = ..., is_me: bool = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("header", "chunk")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header: SubmitHeader
    chunk: bytes
    def __init__(self, header: _Optional[_Union[SubmitHeader, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class SubmitHeader(_message.Message):
    __slots__ = ("name", "conf_json", "sha256", "size", "inactive", "spec", "owner", "wait_s", "only_check", "drop_states")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONF_JSON_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    INACTIVE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    ONLY_CHECK_FIELD_NUMBER: _ClassVar[int]
    DROP_STATES_FIELD_NUMBER: _ClassVar[int]
    name: str
    conf_json: str
    sha256: str
    size: int
    inactive: bool
    spec: _topology_pb2.TopologySpec
    owner: str
    wait_s: float
    only_check: bool
    drop_states: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., conf_json: _Optional[str] = ..., sha256: _Optional[str] = ..., size: _Optional[int] = ..., inactive: bool = ..., spec: _Optional[_Union[_topology_pb2.TopologySpec, _Mapping]] = ..., owner: _Optional[str] = ..., wait_s: _Optional[float] = ..., only_check: bool = ..., drop_states: _Optional[_Iterable[str]] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("topology_id",)
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    def __init__(self, topology_id: _Optional[str] = ...) -> None: ...

class UpdateReply(_message.Message):
    __slots__ = ("record", "added", "removed", "conf_keys", "migrated")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    CONF_KEYS_FIELD_NUMBER: _ClassVar[int]
    MIGRATED_FIELD_NUMBER: _ClassVar[int]
    record: _topology_pb2.TopologyRecord
    added: _containers.RepeatedScalarFieldContainer[str]
    removed: _containers.RepeatedScalarFieldContainer[str]
    conf_keys: _containers.RepeatedScalarFieldContainer[str]
    migrated: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, record: _Optional[_Union[_topology_pb2.TopologyRecord, _Mapping]] = ..., added: _Optional[_Iterable[str]] = ..., removed: _Optional[_Iterable[str]] = ..., conf_keys: _Optional[_Iterable[str]] = ..., migrated: _Optional[_Iterable[str]] = ...) -> None: ...

class KillRequest(_message.Message):
    __slots__ = ("name", "wait_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    wait_s: float
    def __init__(self, name: _Optional[str] = ..., wait_s: _Optional[float] = ...) -> None: ...

class ActivateRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeactivateRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RebalanceRequest(_message.Message):
    __slots__ = ("name", "wait_s", "workers", "executors", "tasks")
    class ExecutorsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class TasksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    wait_s: float
    workers: int
    executors: _containers.ScalarMap[str, int]
    tasks: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., wait_s: _Optional[float] = ..., workers: _Optional[int] = ..., executors: _Optional[_Mapping[str, int]] = ..., tasks: _Optional[_Mapping[str, int]] = ...) -> None: ...

class DescribeAutoscalingRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeAutoscalingReply(_message.Message):
    __slots__ = ("topology_id", "components", "workers", "wanted_workers", "max_workers", "next", "sentence", "last")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    WANTED_WORKERS_FIELD_NUMBER: _ClassVar[int]
    MAX_WORKERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    components: _containers.RepeatedCompositeFieldContainer[ComponentScaling]
    workers: int
    wanted_workers: int
    max_workers: int
    next: _topology_pb2.AutoscaleChange
    sentence: str
    last: _topology_pb2.AutoscaleChange
    def __init__(self, topology_id: _Optional[str] = ..., components: _Optional[_Iterable[_Union[ComponentScaling, _Mapping]]] = ..., workers: _Optional[int] = ..., wanted_workers: _Optional[int] = ..., max_workers: _Optional[int] = ..., next: _Optional[_Union[_topology_pb2.AutoscaleChange, _Mapping]] = ..., sentence: _Optional[str] = ..., last: _Optional[_Union[_topology_pb2.AutoscaleChange, _Mapping]] = ...) -> None: ...

class ComponentScaling(_message.Message):
    __slots__ = ("component", "executors", "wanted", "min", "max", "busy", "demand", "reason")
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    component: str
    executors: int
    wanted: int
    min: int
    max: int
    busy: float
    demand: float
    reason: str
    def __init__(self, component: _Optional[str] = ..., executors: _Optional[int] = ..., wanted: _Optional[int] = ..., min: _Optional[int] = ..., max: _Optional[int] = ..., busy: _Optional[float] = ..., demand: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class RollbackRequest(_message.Message):
    __slots__ = ("name", "wait_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    wait_s: float
    def __init__(self, name: _Optional[str] = ..., wait_s: _Optional[float] = ...) -> None: ...

class TopologyReply(_message.Message):
    __slots__ = ("record",)
    RECORD_FIELD_NUMBER: _ClassVar[int]
    record: _topology_pb2.TopologyRecord
    def __init__(self, record: _Optional[_Union[_topology_pb2.TopologyRecord, _Mapping]] = ...) -> None: ...

class SetLogLevelsRequest(_message.Message):
    __slots__ = ("name", "levels", "remove")
    class LevelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _topology_pb2.LogLevel
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_topology_pb2.LogLevel, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    name: str
    levels: _containers.MessageMap[str, _topology_pb2.LogLevel]
    remove: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., levels: _Optional[_Mapping[str, _topology_pb2.LogLevel]] = ..., remove: _Optional[_Iterable[str]] = ...) -> None: ...

class SetSamplingRequest(_message.Message):
    __slots__ = ("name", "component", "percent", "until_unix_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    component: str
    percent: float
    until_unix_s: float
    def __init__(self, name: _Optional[str] = ..., component: _Optional[str] = ..., percent: _Optional[float] = ..., until_unix_s: _Optional[float] = ...) -> None: ...

class SetTracingRequest(_message.Message):
    __slots__ = ("name", "one_in", "until_unix_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ONE_IN_FIELD_NUMBER: _ClassVar[int]
    UNTIL_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    one_in: int
    until_unix_s: float
    def __init__(self, name: _Optional[str] = ..., one_in: _Optional[int] = ..., until_unix_s: _Optional[float] = ...) -> None: ...

class SetConfRequest(_message.Message):
    __slots__ = ("name", "conf_json", "remove", "wait_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONF_JSON_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    conf_json: str
    remove: _containers.RepeatedScalarFieldContainer[str]
    wait_s: float
    def __init__(self, name: _Optional[str] = ..., conf_json: _Optional[str] = ..., remove: _Optional[_Iterable[str]] = ..., wait_s: _Optional[float] = ...) -> None: ...

class RestartTopologyWorkerRequest(_message.Message):
    __slots__ = ("name", "host", "port")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    name: str
    host: str
    port: int
    def __init__(self, name: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class RestartTopologyWorkerReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConfigurationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConfigurationReply(_message.Message):
    __slots__ = ("conf_json", "address")
    CONF_JSON_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    conf_json: str
    address: str
    def __init__(self, conf_json: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class ListTopologiesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TopologySummary(_message.Message):
    __slots__ = ("record", "workers_used", "executors_total", "tasks_total", "workers_ready", "uptime_s")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    WORKERS_USED_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    TASKS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    WORKERS_READY_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    record: _topology_pb2.TopologyRecord
    workers_used: int
    executors_total: int
    tasks_total: int
    workers_ready: int
    uptime_s: float
    def __init__(self, record: _Optional[_Union[_topology_pb2.TopologyRecord, _Mapping]] = ..., workers_used: _Optional[int] = ..., executors_total: _Optional[int] = ..., tasks_total: _Optional[int] = ..., workers_ready: _Optional[int] = ..., uptime_s: _Optional[float] = ...) -> None: ...

class ListTopologiesReply(_message.Message):
    __slots__ = ("topologies",)
    TOPOLOGIES_FIELD_NUMBER: _ClassVar[int]
    topologies: _containers.RepeatedCompositeFieldContainer[TopologySummary]
    def __init__(self, topologies: _Optional[_Iterable[_Union[TopologySummary, _Mapping]]] = ...) -> None: ...

class ListPastTopologiesRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListPastTopologiesReply(_message.Message):
    __slots__ = ("topologies",)
    TOPOLOGIES_FIELD_NUMBER: _ClassVar[int]
    topologies: _containers.RepeatedCompositeFieldContainer[_topology_pb2.PastTopology]
    def __init__(self, topologies: _Optional[_Iterable[_Union[_topology_pb2.PastTopology, _Mapping]]] = ...) -> None: ...

class DescribeTopologyRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeTopologyReply(_message.Message):
    __slots__ = ("summary", "assignment", "components", "workers", "errors", "spec", "unscheduled")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    UNSCHEDULED_FIELD_NUMBER: _ClassVar[int]
    summary: TopologySummary
    assignment: _topology_pb2.Assignment
    components: _containers.RepeatedCompositeFieldContainer[ComponentStats]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerSummary]
    errors: _containers.RepeatedCompositeFieldContainer[_topology_pb2.ComponentError]
    spec: _topology_pb2.TopologySpec
    unscheduled: str
    def __init__(self, summary: _Optional[_Union[TopologySummary, _Mapping]] = ..., assignment: _Optional[_Union[_topology_pb2.Assignment, _Mapping]] = ..., components: _Optional[_Iterable[_Union[ComponentStats, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[WorkerSummary, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[_topology_pb2.ComponentError, _Mapping]]] = ..., spec: _Optional[_Union[_topology_pb2.TopologySpec, _Mapping]] = ..., unscheduled: _Optional[str] = ...) -> None: ...

class WorkerSummary(_message.Message):
    __slots__ = ("host", "port", "pid", "http_port", "ready", "age_s", "tasks", "uptime_s", "worker_id")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HTTP_PORT_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    pid: int
    http_port: int
    ready: bool
    age_s: float
    tasks: _containers.RepeatedScalarFieldContainer[int]
    uptime_s: float
    worker_id: str
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ..., pid: _Optional[int] = ..., http_port: _Optional[int] = ..., ready: bool = ..., age_s: _Optional[float] = ..., tasks: _Optional[_Iterable[int]] = ..., uptime_s: _Optional[float] = ..., worker_id: _Optional[str] = ...) -> None: ...

class DescribeClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SupervisorSummary(_message.Message):
    __slots__ = ("presence", "slots_used", "cpu_percent_used", "memory_mb_used", "resources_used", "blacklisted", "isolated_topology", "pool")
    class ResourcesUsedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    PRESENCE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_USED_FIELD_NUMBER: _ClassVar[int]
    CPU_PERCENT_USED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_USED_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_USED_FIELD_NUMBER: _ClassVar[int]
    BLACKLISTED_FIELD_NUMBER: _ClassVar[int]
    ISOLATED_TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    presence: _topology_pb2.Presence
    slots_used: int
    cpu_percent_used: float
    memory_mb_used: float
    resources_used: _containers.ScalarMap[str, float]
    blacklisted: str
    isolated_topology: str
    pool: str
    def __init__(self, presence: _Optional[_Union[_topology_pb2.Presence, _Mapping]] = ..., slots_used: _Optional[int] = ..., cpu_percent_used: _Optional[float] = ..., memory_mb_used: _Optional[float] = ..., resources_used: _Optional[_Mapping[str, float]] = ..., blacklisted: _Optional[str] = ..., isolated_topology: _Optional[str] = ..., pool: _Optional[str] = ...) -> None: ...

class NimbusSummary(_message.Message):
    __slots__ = ("presence", "leader")
    PRESENCE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    presence: _topology_pb2.Presence
    leader: bool
    def __init__(self, presence: _Optional[_Union[_topology_pb2.Presence, _Mapping]] = ..., leader: bool = ...) -> None: ...

class AckerSummary(_message.Message):
    __slots__ = ("presence", "shards", "reachable")
    PRESENCE_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    REACHABLE_FIELD_NUMBER: _ClassVar[int]
    presence: _topology_pb2.Presence
    shards: int
    reachable: bool
    def __init__(self, presence: _Optional[_Union[_topology_pb2.Presence, _Mapping]] = ..., shards: _Optional[int] = ..., reachable: bool = ...) -> None: ...

class DescribeClusterReply(_message.Message):
    __slots__ = ("nimbuses", "supervisors", "ackers", "epoch", "version", "slots_total", "slots_used", "topologies", "scheduler")
    NIMBUSES_FIELD_NUMBER: _ClassVar[int]
    SUPERVISORS_FIELD_NUMBER: _ClassVar[int]
    ACKERS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SLOTS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    SLOTS_USED_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGIES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_FIELD_NUMBER: _ClassVar[int]
    nimbuses: _containers.RepeatedCompositeFieldContainer[NimbusSummary]
    supervisors: _containers.RepeatedCompositeFieldContainer[SupervisorSummary]
    ackers: _containers.RepeatedCompositeFieldContainer[AckerSummary]
    epoch: int
    version: str
    slots_total: int
    slots_used: int
    topologies: int
    scheduler: str
    def __init__(self, nimbuses: _Optional[_Iterable[_Union[NimbusSummary, _Mapping]]] = ..., supervisors: _Optional[_Iterable[_Union[SupervisorSummary, _Mapping]]] = ..., ackers: _Optional[_Iterable[_Union[AckerSummary, _Mapping]]] = ..., epoch: _Optional[int] = ..., version: _Optional[str] = ..., slots_total: _Optional[int] = ..., slots_used: _Optional[int] = ..., topologies: _Optional[int] = ..., scheduler: _Optional[str] = ...) -> None: ...

class DescribeHealthRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HealthReason(_message.Message):
    __slots__ = ("severity", "kind", "subject", "sentence", "command", "topology_id", "component")
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    severity: str
    kind: str
    subject: str
    sentence: str
    command: str
    topology_id: str
    component: str
    def __init__(self, severity: _Optional[str] = ..., kind: _Optional[str] = ..., subject: _Optional[str] = ..., sentence: _Optional[str] = ..., command: _Optional[str] = ..., topology_id: _Optional[str] = ..., component: _Optional[str] = ...) -> None: ...

class DescribeHealthReply(_message.Message):
    __slots__ = ("verdict", "faults", "notes")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    verdict: str
    faults: _containers.RepeatedCompositeFieldContainer[HealthReason]
    notes: _containers.RepeatedCompositeFieldContainer[HealthReason]
    def __init__(self, verdict: _Optional[str] = ..., faults: _Optional[_Iterable[_Union[HealthReason, _Mapping]]] = ..., notes: _Optional[_Iterable[_Union[HealthReason, _Mapping]]] = ...) -> None: ...

class BlobHeader(_message.Message):
    __slots__ = ("key", "sha256", "size", "owner", "users", "readonly_users")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    READONLY_USERS_FIELD_NUMBER: _ClassVar[int]
    key: str
    sha256: str
    size: int
    owner: str
    users: _containers.RepeatedScalarFieldContainer[str]
    readonly_users: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., sha256: _Optional[str] = ..., size: _Optional[int] = ..., owner: _Optional[str] = ..., users: _Optional[_Iterable[str]] = ..., readonly_users: _Optional[_Iterable[str]] = ...) -> None: ...

class PutBlobRequest(_message.Message):
    __slots__ = ("header", "chunk")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header: BlobHeader
    chunk: bytes
    def __init__(self, header: _Optional[_Union[BlobHeader, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class BlobSummary(_message.Message):
    __slots__ = ("record", "topologies")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGIES_FIELD_NUMBER: _ClassVar[int]
    record: _topology_pb2.BlobRecord
    topologies: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, record: _Optional[_Union[_topology_pb2.BlobRecord, _Mapping]] = ..., topologies: _Optional[_Iterable[str]] = ...) -> None: ...

class BlobReply(_message.Message):
    __slots__ = ("blob",)
    BLOB_FIELD_NUMBER: _ClassVar[int]
    blob: BlobSummary
    def __init__(self, blob: _Optional[_Union[BlobSummary, _Mapping]] = ...) -> None: ...

class DeleteBlobRequest(_message.Message):
    __slots__ = ("key", "force")
    KEY_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    key: str
    force: bool
    def __init__(self, key: _Optional[str] = ..., force: bool = ...) -> None: ...

class DeleteBlobReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListBlobsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListBlobsReply(_message.Message):
    __slots__ = ("blobs",)
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    blobs: _containers.RepeatedCompositeFieldContainer[BlobSummary]
    def __init__(self, blobs: _Optional[_Iterable[_Union[BlobSummary, _Mapping]]] = ...) -> None: ...

class DescribeBlobRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class FetchBlobRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class FetchBlobReply(_message.Message):
    __slots__ = ("record", "chunk")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    record: _topology_pb2.BlobRecord
    chunk: bytes
    def __init__(self, record: _Optional[_Union[_topology_pb2.BlobRecord, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class FetchBundleRequest(_message.Message):
    __slots__ = ("sha256", "offset")
    SHA256_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    offset: int
    def __init__(self, sha256: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class FetchBundleReply(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: bytes
    def __init__(self, chunk: _Optional[bytes] = ...) -> None: ...

class TaskStats(_message.Message):
    __slots__ = ("task_id", "component_id", "streams", "executed", "acked", "failed", "execute_s", "process_s_sum", "process_samples", "complete_s_sum", "complete_samples", "queued", "pending", "congested", "timeouts", "inputs", "process_buckets", "complete_buckets", "unheard", "holds_tuples", "call_s", "found_blocking")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_ID_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    EXECUTED_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_S_FIELD_NUMBER: _ClassVar[int]
    PROCESS_S_SUM_FIELD_NUMBER: _ClassVar[int]
    PROCESS_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_S_SUM_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    CONGESTED_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    UNHEARD_FIELD_NUMBER: _ClassVar[int]
    HOLDS_TUPLES_FIELD_NUMBER: _ClassVar[int]
    CALL_S_FIELD_NUMBER: _ClassVar[int]
    FOUND_BLOCKING_FIELD_NUMBER: _ClassVar[int]
    task_id: int
    component_id: str
    streams: _containers.RepeatedCompositeFieldContainer[StreamStats]
    executed: int
    acked: int
    failed: int
    execute_s: float
    process_s_sum: float
    process_samples: int
    complete_s_sum: float
    complete_samples: int
    queued: int
    pending: int
    congested: bool
    timeouts: int
    inputs: _containers.RepeatedCompositeFieldContainer[InputStats]
    process_buckets: _containers.RepeatedScalarFieldContainer[int]
    complete_buckets: _containers.RepeatedScalarFieldContainer[int]
    unheard: int
    holds_tuples: bool
    call_s: float
    found_blocking: bool
    def __init__(self, task_id: _Optional[int] = ..., component_id: _Optional[str] = ..., streams: _Optional[_Iterable[_Union[StreamStats, _Mapping]]] = ..., executed: _Optional[int] = ..., acked: _Optional[int] = ..., failed: _Optional[int] = ..., execute_s: _Optional[float] = ..., process_s_sum: _Optional[float] = ..., process_samples: _Optional[int] = ..., complete_s_sum: _Optional[float] = ..., complete_samples: _Optional[int] = ..., queued: _Optional[int] = ..., pending: _Optional[int] = ..., congested: bool = ..., timeouts: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[InputStats, _Mapping]]] = ..., process_buckets: _Optional[_Iterable[int]] = ..., complete_buckets: _Optional[_Iterable[int]] = ..., unheard: _Optional[int] = ..., holds_tuples: bool = ..., call_s: _Optional[float] = ..., found_blocking: bool = ...) -> None: ...

class StreamStats(_message.Message):
    __slots__ = ("stream", "emitted", "transferred", "acked", "failed", "complete_s_sum", "complete_samples")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EMITTED_FIELD_NUMBER: _ClassVar[int]
    TRANSFERRED_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_S_SUM_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    stream: str
    emitted: int
    transferred: int
    acked: int
    failed: int
    complete_s_sum: float
    complete_samples: int
    def __init__(self, stream: _Optional[str] = ..., emitted: _Optional[int] = ..., transferred: _Optional[int] = ..., acked: _Optional[int] = ..., failed: _Optional[int] = ..., complete_s_sum: _Optional[float] = ..., complete_samples: _Optional[int] = ...) -> None: ...

class InputStats(_message.Message):
    __slots__ = ("source_component", "stream", "executed", "acked", "failed", "execute_s", "process_s_sum", "process_samples")
    SOURCE_COMPONENT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EXECUTED_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_S_FIELD_NUMBER: _ClassVar[int]
    PROCESS_S_SUM_FIELD_NUMBER: _ClassVar[int]
    PROCESS_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    source_component: str
    stream: str
    executed: int
    acked: int
    failed: int
    execute_s: float
    process_s_sum: float
    process_samples: int
    def __init__(self, source_component: _Optional[str] = ..., stream: _Optional[str] = ..., executed: _Optional[int] = ..., acked: _Optional[int] = ..., failed: _Optional[int] = ..., execute_s: _Optional[float] = ..., process_s_sum: _Optional[float] = ..., process_samples: _Optional[int] = ...) -> None: ...

class ComponentStats(_message.Message):
    __slots__ = ("component_id", "kind", "executors", "tasks", "total", "capacity", "emitted_per_s", "executed_per_s", "acked_per_s", "statuses", "remark")
    COMPONENT_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    EMITTED_PER_S_FIELD_NUMBER: _ClassVar[int]
    EXECUTED_PER_S_FIELD_NUMBER: _ClassVar[int]
    ACKED_PER_S_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    REMARK_FIELD_NUMBER: _ClassVar[int]
    component_id: str
    kind: _topology_pb2.ComponentKind
    executors: int
    tasks: int
    total: TaskStats
    capacity: float
    emitted_per_s: float
    executed_per_s: float
    acked_per_s: float
    statuses: _containers.RepeatedCompositeFieldContainer[TaskStatus]
    remark: str
    def __init__(self, component_id: _Optional[str] = ..., kind: _Optional[_Union[_topology_pb2.ComponentKind, str]] = ..., executors: _Optional[int] = ..., tasks: _Optional[int] = ..., total: _Optional[_Union[TaskStats, _Mapping]] = ..., capacity: _Optional[float] = ..., emitted_per_s: _Optional[float] = ..., executed_per_s: _Optional[float] = ..., acked_per_s: _Optional[float] = ..., statuses: _Optional[_Iterable[_Union[TaskStatus, _Mapping]]] = ..., remark: _Optional[str] = ...) -> None: ...

class TaskStatus(_message.Message):
    __slots__ = ("task_id", "status_json", "age_s")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_JSON_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    task_id: int
    status_json: str
    age_s: float
    def __init__(self, task_id: _Optional[int] = ..., status_json: _Optional[str] = ..., age_s: _Optional[float] = ...) -> None: ...

class WorkerReport(_message.Message):
    __slots__ = ("topology_id", "worker_id", "supervisor_id", "host", "port", "pid", "ready", "uptime_s", "http_port", "assignment_version", "tasks", "statuses", "paused", "unfinished", "only_changes", "opening")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    SUPERVISOR_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    HTTP_PORT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    ONLY_CHANGES_FIELD_NUMBER: _ClassVar[int]
    OPENING_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    worker_id: str
    supervisor_id: str
    host: str
    port: int
    pid: int
    ready: bool
    uptime_s: float
    http_port: int
    assignment_version: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskStats]
    statuses: _containers.RepeatedCompositeFieldContainer[TaskStatus]
    paused: bool
    unfinished: int
    only_changes: bool
    opening: bool
    def __init__(self, topology_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., supervisor_id: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., pid: _Optional[int] = ..., ready: bool = ..., uptime_s: _Optional[float] = ..., http_port: _Optional[int] = ..., assignment_version: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskStats, _Mapping]]] = ..., statuses: _Optional[_Iterable[_Union[TaskStatus, _Mapping]]] = ..., paused: bool = ..., unfinished: _Optional[int] = ..., only_changes: bool = ..., opening: bool = ...) -> None: ...

class WorkerReportReply(_message.Message):
    __slots__ = ("epoch", "takes_changes", "wants_all", "next_after_s")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TAKES_CHANGES_FIELD_NUMBER: _ClassVar[int]
    WANTS_ALL_FIELD_NUMBER: _ClassVar[int]
    NEXT_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    takes_changes: bool
    wants_all: bool
    next_after_s: float
    def __init__(self, epoch: _Optional[int] = ..., takes_changes: bool = ..., wants_all: bool = ..., next_after_s: _Optional[float] = ...) -> None: ...

class ReadStateRequest(_message.Message):
    __slots__ = ("name", "component", "is_live", "keys", "after", "limit", "is_bulk")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    IS_LIVE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    IS_BULK_FIELD_NUMBER: _ClassVar[int]
    name: str
    component: str
    is_live: bool
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    after: str
    limit: int
    is_bulk: bool
    def __init__(self, name: _Optional[str] = ..., component: _Optional[str] = ..., is_live: bool = ..., keys: _Optional[_Iterable[bytes]] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ..., is_bulk: bool = ...) -> None: ...

class MeasureStatesRequest(_message.Message):
    __slots__ = ("name", "component")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    component: str
    def __init__(self, name: _Optional[str] = ..., component: _Optional[str] = ...) -> None: ...

class MeasureStatesReply(_message.Message):
    __slots__ = ("topology_id", "tasks")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    tasks: _containers.RepeatedCompositeFieldContainer[_topology_pb2.TaskStateSize]
    def __init__(self, topology_id: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[_topology_pb2.TaskStateSize, _Mapping]]] = ...) -> None: ...

class WriteStateRequest(_message.Message):
    __slots__ = ("name", "component", "changes", "wait_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    component: str
    changes: _containers.RepeatedCompositeFieldContainer[_topology_pb2.StateChange]
    wait_s: float
    def __init__(self, name: _Optional[str] = ..., component: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[_topology_pb2.StateChange, _Mapping]]] = ..., wait_s: _Optional[float] = ...) -> None: ...

class WriteStateReply(_message.Message):
    __slots__ = ("tasks", "topology_id")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_topology_pb2.StateWritten]
    topology_id: str
    def __init__(self, tasks: _Optional[_Iterable[_Union[_topology_pb2.StateWritten, _Mapping]]] = ..., topology_id: _Optional[str] = ...) -> None: ...

class HoldCheckpointsRequest(_message.Message):
    __slots__ = ("name", "hold_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOLD_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    hold_s: float
    def __init__(self, name: _Optional[str] = ..., hold_s: _Optional[float] = ...) -> None: ...

class HoldCheckpointsReply(_message.Message):
    __slots__ = ("topology_id", "held", "quiet_age_s")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    QUIET_AGE_S_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    held: _topology_pb2.HeldCheckpoint
    quiet_age_s: float
    def __init__(self, topology_id: _Optional[str] = ..., held: _Optional[_Union[_topology_pb2.HeldCheckpoint, _Mapping]] = ..., quiet_age_s: _Optional[float] = ...) -> None: ...

class ReadStateReply(_message.Message):
    __slots__ = ("tasks", "next", "topology_id")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_topology_pb2.TaskState]
    next: str
    topology_id: str
    def __init__(self, tasks: _Optional[_Iterable[_Union[_topology_pb2.TaskState, _Mapping]]] = ..., next: _Optional[str] = ..., topology_id: _Optional[str] = ...) -> None: ...

class LocateStateRequest(_message.Message):
    __slots__ = ("name", "component")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    component: str
    def __init__(self, name: _Optional[str] = ..., component: _Optional[str] = ...) -> None: ...

class LocateStateReply(_message.Message):
    __slots__ = ("topology_id", "tasks", "places", "ticket", "valid_s")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    VALID_S_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    tasks: int
    places: _containers.RepeatedCompositeFieldContainer[StatePlace]
    ticket: str
    valid_s: float
    def __init__(self, topology_id: _Optional[str] = ..., tasks: _Optional[int] = ..., places: _Optional[_Iterable[_Union[StatePlace, _Mapping]]] = ..., ticket: _Optional[str] = ..., valid_s: _Optional[float] = ...) -> None: ...

class StatePlace(_message.Message):
    __slots__ = ("host", "http_port", "worker_id", "indexes")
    HOST_FIELD_NUMBER: _ClassVar[int]
    HTTP_PORT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    host: str
    http_port: int
    worker_id: str
    indexes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, host: _Optional[str] = ..., http_port: _Optional[int] = ..., worker_id: _Optional[str] = ..., indexes: _Optional[_Iterable[int]] = ...) -> None: ...
