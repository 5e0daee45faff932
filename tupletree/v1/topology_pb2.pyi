from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ComponentKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPONENT_KIND_UNSPECIFIED: _ClassVar[ComponentKind]
    COMPONENT_KIND_SPOUT: _ClassVar[ComponentKind]
    COMPONENT_KIND_BOLT: _ClassVar[ComponentKind]

class GroupingKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUPING_KIND_UNSPECIFIED: _ClassVar[GroupingKind]
    GROUPING_KIND_SHUFFLE: _ClassVar[GroupingKind]
    GROUPING_KIND_FIELDS: _ClassVar[GroupingKind]
    GROUPING_KIND_ALL: _ClassVar[GroupingKind]
    GROUPING_KIND_GLOBAL: _ClassVar[GroupingKind]
    GROUPING_KIND_NONE: _ClassVar[GroupingKind]
    GROUPING_KIND_DIRECT: _ClassVar[GroupingKind]
    GROUPING_KIND_LOCAL_OR_SHUFFLE: _ClassVar[GroupingKind]
    GROUPING_KIND_PARTIAL_KEY: _ClassVar[GroupingKind]
    GROUPING_KIND_CUSTOM: _ClassVar[GroupingKind]

class TopologyStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOPOLOGY_STATUS_UNSPECIFIED: _ClassVar[TopologyStatus]
    TOPOLOGY_STATUS_ACTIVE: _ClassVar[TopologyStatus]
    TOPOLOGY_STATUS_INACTIVE: _ClassVar[TopologyStatus]
    TOPOLOGY_STATUS_REBALANCING: _ClassVar[TopologyStatus]
    TOPOLOGY_STATUS_KILLED: _ClassVar[TopologyStatus]

class SizePrecision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SIZE_PRECISION_UNSPECIFIED: _ClassVar[SizePrecision]
    SIZE_PRECISION_EXACT: _ClassVar[SizePrecision]
    SIZE_PRECISION_ABOUT: _ClassVar[SizePrecision]
    SIZE_PRECISION_AT_LEAST: _ClassVar[SizePrecision]
COMPONENT_KIND_UNSPECIFIED: ComponentKind
COMPONENT_KIND_SPOUT: ComponentKind
COMPONENT_KIND_BOLT: ComponentKind
GROUPING_KIND_UNSPECIFIED: GroupingKind
GROUPING_KIND_SHUFFLE: GroupingKind
GROUPING_KIND_FIELDS: GroupingKind
GROUPING_KIND_ALL: GroupingKind
GROUPING_KIND_GLOBAL: GroupingKind
GROUPING_KIND_NONE: GroupingKind
GROUPING_KIND_DIRECT: GroupingKind
GROUPING_KIND_LOCAL_OR_SHUFFLE: GroupingKind
GROUPING_KIND_PARTIAL_KEY: GroupingKind
GROUPING_KIND_CUSTOM: GroupingKind
TOPOLOGY_STATUS_UNSPECIFIED: TopologyStatus
TOPOLOGY_STATUS_ACTIVE: TopologyStatus
TOPOLOGY_STATUS_INACTIVE: TopologyStatus
TOPOLOGY_STATUS_REBALANCING: TopologyStatus
TOPOLOGY_STATUS_KILLED: TopologyStatus
SIZE_PRECISION_UNSPECIFIED: SizePrecision
SIZE_PRECISION_EXACT: SizePrecision
SIZE_PRECISION_ABOUT: SizePrecision
SIZE_PRECISION_AT_LEAST: SizePrecision

class StreamSpec(_message.Message):
    __slots__ = ("id", "fields", "direct")
    ID_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    DIRECT_FIELD_NUMBER: _ClassVar[int]
    id: str
    fields: _containers.RepeatedScalarFieldContainer[str]
    direct: bool
    def __init__(self, id: _Optional[str] = ..., fields: _Optional[_Iterable[str]] = ..., direct: bool = ...) -> None: ...

class InputSpec(_message.Message):
    __slots__ = ("source", "stream", "grouping", "fields", "custom")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    GROUPING_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    source: str
    stream: str
    grouping: GroupingKind
    fields: _containers.RepeatedScalarFieldContainer[str]
    custom: bytes
    def __init__(self, source: _Optional[str] = ..., stream: _Optional[str] = ..., grouping: _Optional[_Union[GroupingKind, str]] = ..., fields: _Optional[_Iterable[str]] = ..., custom: _Optional[bytes] = ...) -> None: ...

class ComponentSpec(_message.Message):
    __slots__ = ("id", "kind", "object", "parallelism", "tasks", "conf_json", "outputs", "inputs", "keeps_state", "fixed_tasks", "checks_keys", "state_form", "state_version", "is_blocking")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CONF_JSON_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    KEEPS_STATE_FIELD_NUMBER: _ClassVar[int]
    FIXED_TASKS_FIELD_NUMBER: _ClassVar[int]
    CHECKS_KEYS_FIELD_NUMBER: _ClassVar[int]
    STATE_FORM_FIELD_NUMBER: _ClassVar[int]
    STATE_VERSION_FIELD_NUMBER: _ClassVar[int]
    IS_BLOCKING_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: ComponentKind
    object: bytes
    parallelism: int
    tasks: int
    conf_json: str
    outputs: _containers.RepeatedCompositeFieldContainer[StreamSpec]
    inputs: _containers.RepeatedCompositeFieldContainer[InputSpec]
    keeps_state: bool
    fixed_tasks: bool
    checks_keys: bool
    state_form: str
    state_version: int
    is_blocking: bool
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[_Union[ComponentKind, str]] = ..., object: _Optional[bytes] = ..., parallelism: _Optional[int] = ..., tasks: _Optional[int] = ..., conf_json: _Optional[str] = ..., outputs: _Optional[_Iterable[_Union[StreamSpec, _Mapping]]] = ..., inputs: _Optional[_Iterable[_Union[InputSpec, _Mapping]]] = ..., keeps_state: bool = ..., fixed_tasks: bool = ..., checks_keys: bool = ..., state_form: _Optional[str] = ..., state_version: _Optional[int] = ..., is_blocking: bool = ...) -> None: ...

class TopologySpec(_message.Message):
    __slots__ = ("components", "worker_hooks")
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    WORKER_HOOKS_FIELD_NUMBER: _ClassVar[int]
    components: _containers.RepeatedCompositeFieldContainer[ComponentSpec]
    worker_hooks: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, components: _Optional[_Iterable[_Union[ComponentSpec, _Mapping]]] = ..., worker_hooks: _Optional[_Iterable[bytes]] = ...) -> None: ...

class TopologyRecord(_message.Message):
    __slots__ = ("id", "name", "status", "conf_json", "bundle_sha256", "bundle_bytes", "submitted_unix_s", "owner", "workers", "executors", "tasks", "pending", "acker_shards", "log_levels", "sampled_percent", "traced_one_in", "sampled_until_unix_s", "traced_until_unix_s", "submitted_conf", "live_keys", "first_task", "version", "previous", "trial_began_unix_s", "earlier", "last_version", "needs", "autoscaled")
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
    class LogLevelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: LogLevel
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[LogLevel, _Mapping]] = ...) -> None: ...
    class SampledPercentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class SampledUntilUnixSEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class SubmittedConfEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class NeedsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ComponentNeeds
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ComponentNeeds, _Mapping]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CONF_JSON_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_SHA256_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    ACKER_SHARDS_FIELD_NUMBER: _ClassVar[int]
    LOG_LEVELS_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_PERCENT_FIELD_NUMBER: _ClassVar[int]
    TRACED_ONE_IN_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_UNTIL_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    TRACED_UNTIL_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_CONF_FIELD_NUMBER: _ClassVar[int]
    LIVE_KEYS_FIELD_NUMBER: _ClassVar[int]
    FIRST_TASK_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    TRIAL_BEGAN_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    LAST_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    AUTOSCALED_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    status: TopologyStatus
    conf_json: str
    bundle_sha256: str
    bundle_bytes: int
    submitted_unix_s: float
    owner: str
    workers: int
    executors: _containers.ScalarMap[str, int]
    tasks: _containers.ScalarMap[str, int]
    pending: PendingAction
    acker_shards: int
    log_levels: _containers.MessageMap[str, LogLevel]
    sampled_percent: _containers.ScalarMap[str, float]
    traced_one_in: int
    sampled_until_unix_s: _containers.ScalarMap[str, float]
    traced_until_unix_s: float
    submitted_conf: _containers.ScalarMap[str, str]
    live_keys: _containers.RepeatedScalarFieldContainer[str]
    first_task: int
    version: int
    previous: TopologyVersion
    trial_began_unix_s: float
    earlier: TopologyVersion
    last_version: int
    needs: _containers.MessageMap[str, ComponentNeeds]
    autoscaled: AutoscaleChange
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., status: _Optional[_Union[TopologyStatus, str]] = ..., conf_json: _Optional[str] = ..., bundle_sha256: _Optional[str] = ..., bundle_bytes: _Optional[int] = ..., submitted_unix_s: _Optional[float] = ..., owner: _Optional[str] = ..., workers: _Optional[int] = ..., executors: _Optional[_Mapping[str, int]] = ..., tasks: _Optional[_Mapping[str, int]] = ..., pending: _Optional[_Union[PendingAction, _Mapping]] = ..., acker_shards: _Optional[int] = ..., log_levels: _Optional[_Mapping[str, LogLevel]] = ..., sampled_percent: _Optional[_Mapping[str, float]] = ..., traced_one_in: _Optional[int] = ..., sampled_until_unix_s: _Optional[_Mapping[str, float]] = ..., traced_until_unix_s: _Optional[float] = ..., submitted_conf: _Optional[_Mapping[str, str]] = ..., live_keys: _Optional[_Iterable[str]] = ..., first_task: _Optional[int] = ..., version: _Optional[int] = ..., previous: _Optional[_Union[TopologyVersion, _Mapping]] = ..., trial_began_unix_s: _Optional[float] = ..., earlier: _Optional[_Union[TopologyVersion, _Mapping]] = ..., last_version: _Optional[int] = ..., needs: _Optional[_Mapping[str, ComponentNeeds]] = ..., autoscaled: _Optional[_Union[AutoscaleChange, _Mapping]] = ...) -> None: ...

class ComponentNeeds(_message.Message):
    __slots__ = ("cpu_percent", "memory_mb", "resources")
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    CPU_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    cpu_percent: float
    memory_mb: float
    resources: _containers.ScalarMap[str, float]
    def __init__(self, cpu_percent: _Optional[float] = ..., memory_mb: _Optional[float] = ..., resources: _Optional[_Mapping[str, float]] = ...) -> None: ...

class TopologyVersion(_message.Message):
    __slots__ = ("number", "bundle_sha256", "bundle_bytes", "conf_json", "submitted_conf", "live_keys", "workers", "executors", "tasks", "needs")
    class SubmittedConfEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
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
    class NeedsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ComponentNeeds
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ComponentNeeds, _Mapping]] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_SHA256_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONF_JSON_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_CONF_FIELD_NUMBER: _ClassVar[int]
    LIVE_KEYS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    number: int
    bundle_sha256: str
    bundle_bytes: int
    conf_json: str
    submitted_conf: _containers.ScalarMap[str, str]
    live_keys: _containers.RepeatedScalarFieldContainer[str]
    workers: int
    executors: _containers.ScalarMap[str, int]
    tasks: _containers.ScalarMap[str, int]
    needs: _containers.MessageMap[str, ComponentNeeds]
    def __init__(self, number: _Optional[int] = ..., bundle_sha256: _Optional[str] = ..., bundle_bytes: _Optional[int] = ..., conf_json: _Optional[str] = ..., submitted_conf: _Optional[_Mapping[str, str]] = ..., live_keys: _Optional[_Iterable[str]] = ..., workers: _Optional[int] = ..., executors: _Optional[_Mapping[str, int]] = ..., tasks: _Optional[_Mapping[str, int]] = ..., needs: _Optional[_Mapping[str, ComponentNeeds]] = ...) -> None: ...

class BlobRecord(_message.Message):
    __slots__ = ("key", "version", "sha256", "bytes", "owner", "created_unix_s", "updated_unix_s", "users", "readonly_users")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    UPDATED_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    READONLY_USERS_FIELD_NUMBER: _ClassVar[int]
    key: str
    version: int
    sha256: str
    bytes: int
    owner: str
    created_unix_s: float
    updated_unix_s: float
    users: _containers.RepeatedScalarFieldContainer[str]
    readonly_users: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., version: _Optional[int] = ..., sha256: _Optional[str] = ..., bytes: _Optional[int] = ..., owner: _Optional[str] = ..., created_unix_s: _Optional[float] = ..., updated_unix_s: _Optional[float] = ..., users: _Optional[_Iterable[str]] = ..., readonly_users: _Optional[_Iterable[str]] = ...) -> None: ...

class LogLevel(_message.Message):
    __slots__ = ("level", "reset_level", "until_unix_s")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    RESET_LEVEL_FIELD_NUMBER: _ClassVar[int]
    UNTIL_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    level: str
    reset_level: str
    until_unix_s: float
    def __init__(self, level: _Optional[str] = ..., reset_level: _Optional[str] = ..., until_unix_s: _Optional[float] = ...) -> None: ...

class PendingAction(_message.Message):
    __slots__ = ("due_unix_s", "resume", "workers", "executors", "tasks", "unfinished", "conf", "keeps_placement", "update", "is_rollback", "is_taken_back", "asked_by", "autoscaled")
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
    class ConfEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DUE_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    CONF_FIELD_NUMBER: _ClassVar[int]
    KEEPS_PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    IS_ROLLBACK_FIELD_NUMBER: _ClassVar[int]
    IS_TAKEN_BACK_FIELD_NUMBER: _ClassVar[int]
    ASKED_BY_FIELD_NUMBER: _ClassVar[int]
    AUTOSCALED_FIELD_NUMBER: _ClassVar[int]
    due_unix_s: float
    resume: TopologyStatus
    workers: int
    executors: _containers.ScalarMap[str, int]
    tasks: _containers.ScalarMap[str, int]
    unfinished: int
    conf: _containers.ScalarMap[str, str]
    keeps_placement: bool
    update: TopologyVersion
    is_rollback: bool
    is_taken_back: bool
    asked_by: str
    autoscaled: AutoscaleChange
    def __init__(self, due_unix_s: _Optional[float] = ..., resume: _Optional[_Union[TopologyStatus, str]] = ..., workers: _Optional[int] = ..., executors: _Optional[_Mapping[str, int]] = ..., tasks: _Optional[_Mapping[str, int]] = ..., unfinished: _Optional[int] = ..., conf: _Optional[_Mapping[str, str]] = ..., keeps_placement: bool = ..., update: _Optional[_Union[TopologyVersion, _Mapping]] = ..., is_rollback: bool = ..., is_taken_back: bool = ..., asked_by: _Optional[str] = ..., autoscaled: _Optional[_Union[AutoscaleChange, _Mapping]] = ...) -> None: ...

class AutoscaleChange(_message.Message):
    __slots__ = ("at_unix_s", "component", "executors_before", "executors", "workers_before", "workers", "reason")
    AT_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    at_unix_s: float
    component: str
    executors_before: int
    executors: int
    workers_before: int
    workers: int
    reason: str
    def __init__(self, at_unix_s: _Optional[float] = ..., component: _Optional[str] = ..., executors_before: _Optional[int] = ..., executors: _Optional[int] = ..., workers_before: _Optional[int] = ..., workers: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ExecutorRange(_message.Message):
    __slots__ = ("first_task", "last_task")
    FIRST_TASK_FIELD_NUMBER: _ClassVar[int]
    LAST_TASK_FIELD_NUMBER: _ClassVar[int]
    first_task: int
    last_task: int
    def __init__(self, first_task: _Optional[int] = ..., last_task: _Optional[int] = ...) -> None: ...

class WorkerAssignment(_message.Message):
    __slots__ = ("supervisor_id", "host", "port", "executors", "memory_mb")
    SUPERVISOR_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    supervisor_id: str
    host: str
    port: int
    executors: _containers.RepeatedCompositeFieldContainer[ExecutorRange]
    memory_mb: float
    def __init__(self, supervisor_id: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., executors: _Optional[_Iterable[_Union[ExecutorRange, _Mapping]]] = ..., memory_mb: _Optional[float] = ...) -> None: ...

class ShardAssignment(_message.Message):
    __slots__ = ("shard", "acker_id", "address", "draining_acker_id", "draining_address")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ACKER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_ACKER_ID_FIELD_NUMBER: _ClassVar[int]
    DRAINING_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    shard: int
    acker_id: str
    address: str
    draining_acker_id: str
    draining_address: str
    def __init__(self, shard: _Optional[int] = ..., acker_id: _Optional[str] = ..., address: _Optional[str] = ..., draining_acker_id: _Optional[str] = ..., draining_address: _Optional[str] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("topology_id", "epoch", "version", "workers", "shards", "shard_version")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    SHARD_VERSION_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    epoch: int
    version: int
    workers: _containers.RepeatedCompositeFieldContainer[WorkerAssignment]
    shards: _containers.RepeatedCompositeFieldContainer[ShardAssignment]
    shard_version: int
    def __init__(self, topology_id: _Optional[str] = ..., epoch: _Optional[int] = ..., version: _Optional[int] = ..., workers: _Optional[_Iterable[_Union[WorkerAssignment, _Mapping]]] = ..., shards: _Optional[_Iterable[_Union[ShardAssignment, _Mapping]]] = ..., shard_version: _Optional[int] = ...) -> None: ...

class PackedExecutors(_message.Message):
    __slots__ = ("gaps", "tasks")
    GAPS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    gaps: _containers.RepeatedScalarFieldContainer[int]
    tasks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, gaps: _Optional[_Iterable[int]] = ..., tasks: _Optional[_Iterable[int]] = ...) -> None: ...

class PackedAssignment(_message.Message):
    __slots__ = ("assignment", "executors")
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    assignment: Assignment
    executors: _containers.RepeatedCompositeFieldContainer[PackedExecutors]
    def __init__(self, assignment: _Optional[_Union[Assignment, _Mapping]] = ..., executors: _Optional[_Iterable[_Union[PackedExecutors, _Mapping]]] = ...) -> None: ...

class Presence(_message.Message):
    __slots__ = ("id", "host", "grpc_port", "http_port", "started_unix_s", "version", "slots", "draining", "pid", "cpu_percent", "memory_mb", "resources", "rack", "cgroups", "not_compiled")
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    GRPC_PORT_FIELD_NUMBER: _ClassVar[int]
    HTTP_PORT_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    CPU_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    CGROUPS_FIELD_NUMBER: _ClassVar[int]
    NOT_COMPILED_FIELD_NUMBER: _ClassVar[int]
    id: str
    host: str
    grpc_port: int
    http_port: int
    started_unix_s: float
    version: str
    slots: _containers.RepeatedScalarFieldContainer[int]
    draining: bool
    pid: int
    cpu_percent: float
    memory_mb: float
    resources: _containers.ScalarMap[str, float]
    rack: str
    cgroups: bool
    not_compiled: str
    def __init__(self, id: _Optional[str] = ..., host: _Optional[str] = ..., grpc_port: _Optional[int] = ..., http_port: _Optional[int] = ..., started_unix_s: _Optional[float] = ..., version: _Optional[str] = ..., slots: _Optional[_Iterable[int]] = ..., draining: bool = ..., pid: _Optional[int] = ..., cpu_percent: _Optional[float] = ..., memory_mb: _Optional[float] = ..., resources: _Optional[_Mapping[str, float]] = ..., rack: _Optional[str] = ..., cgroups: bool = ..., not_compiled: _Optional[str] = ...) -> None: ...

class WorkerPresence(_message.Message):
    __slots__ = ("worker_id", "supervisor_id", "host", "port", "pid", "launched_unix_s")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    SUPERVISOR_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    supervisor_id: str
    host: str
    port: int
    pid: int
    launched_unix_s: float
    def __init__(self, worker_id: _Optional[str] = ..., supervisor_id: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., pid: _Optional[int] = ..., launched_unix_s: _Optional[float] = ...) -> None: ...

class ComponentError(_message.Message):
    __slots__ = ("component_id", "task_id", "host", "port", "at_unix_s", "message", "traceback", "count", "first_unix_s", "ended_worker", "first_task")
    COMPONENT_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_WORKER_FIELD_NUMBER: _ClassVar[int]
    FIRST_TASK_FIELD_NUMBER: _ClassVar[int]
    component_id: str
    task_id: int
    host: str
    port: int
    at_unix_s: float
    message: str
    traceback: str
    count: int
    first_unix_s: float
    ended_worker: bool
    first_task: int
    def __init__(self, component_id: _Optional[str] = ..., task_id: _Optional[int] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., at_unix_s: _Optional[float] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ..., count: _Optional[int] = ..., first_unix_s: _Optional[float] = ..., ended_worker: bool = ..., first_task: _Optional[int] = ...) -> None: ...

class PastTopology(_message.Message):
    __slots__ = ("id", "name", "owner", "users", "readers", "submitted_unix_s", "removed_unix_s", "killed_by", "version", "components", "errors", "workers", "is_shortened")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    REMOVED_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    KILLED_BY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    IS_SHORTENED_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    owner: str
    users: _containers.RepeatedScalarFieldContainer[str]
    readers: _containers.RepeatedScalarFieldContainer[str]
    submitted_unix_s: float
    removed_unix_s: float
    killed_by: str
    version: int
    components: _containers.RepeatedCompositeFieldContainer[PastComponent]
    errors: _containers.RepeatedCompositeFieldContainer[ComponentError]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerAssignment]
    is_shortened: bool
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., users: _Optional[_Iterable[str]] = ..., readers: _Optional[_Iterable[str]] = ..., submitted_unix_s: _Optional[float] = ..., removed_unix_s: _Optional[float] = ..., killed_by: _Optional[str] = ..., version: _Optional[int] = ..., components: _Optional[_Iterable[_Union[PastComponent, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[ComponentError, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[WorkerAssignment, _Mapping]]] = ..., is_shortened: bool = ...) -> None: ...

class PastComponent(_message.Message):
    __slots__ = ("component_id", "tasks", "emitted", "executed", "acked", "failed")
    COMPONENT_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EMITTED_FIELD_NUMBER: _ClassVar[int]
    EXECUTED_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    component_id: str
    tasks: int
    emitted: int
    executed: int
    acked: int
    failed: int
    def __init__(self, component_id: _Optional[str] = ..., tasks: _Optional[int] = ..., emitted: _Optional[int] = ..., executed: _Optional[int] = ..., acked: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class HeldCheckpoint(_message.Message):
    __slots__ = ("txid", "tasks", "versions", "refusal")
    class TasksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TXID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    txid: int
    tasks: _containers.ScalarMap[str, int]
    versions: _containers.ScalarMap[str, int]
    refusal: str
    def __init__(self, txid: _Optional[int] = ..., tasks: _Optional[_Mapping[str, int]] = ..., versions: _Optional[_Mapping[str, int]] = ..., refusal: _Optional[str] = ...) -> None: ...

class TaskState(_message.Message):
    __slots__ = ("index", "committed", "entries", "has_more")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    index: int
    committed: int
    entries: _containers.RepeatedCompositeFieldContainer[StateEntry]
    has_more: bool
    def __init__(self, index: _Optional[int] = ..., committed: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[StateEntry, _Mapping]]] = ..., has_more: bool = ...) -> None: ...

class TaskStateSize(_message.Message):
    __slots__ = ("component", "index", "provider", "committed", "keys", "bytes", "precision", "age_s", "failure", "write_refusal", "largest")
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    WRITE_REFUSAL_FIELD_NUMBER: _ClassVar[int]
    LARGEST_FIELD_NUMBER: _ClassVar[int]
    component: str
    index: int
    provider: str
    committed: int
    keys: int
    bytes: int
    precision: SizePrecision
    age_s: float
    failure: str
    write_refusal: str
    largest: _containers.RepeatedCompositeFieldContainer[LargeEntry]
    def __init__(self, component: _Optional[str] = ..., index: _Optional[int] = ..., provider: _Optional[str] = ..., committed: _Optional[int] = ..., keys: _Optional[int] = ..., bytes: _Optional[int] = ..., precision: _Optional[_Union[SizePrecision, str]] = ..., age_s: _Optional[float] = ..., failure: _Optional[str] = ..., write_refusal: _Optional[str] = ..., largest: _Optional[_Iterable[_Union[LargeEntry, _Mapping]]] = ...) -> None: ...

class LargeEntry(_message.Message):
    __slots__ = ("key", "bytes")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    bytes: int
    def __init__(self, key: _Optional[bytes] = ..., bytes: _Optional[int] = ...) -> None: ...

class StateEntry(_message.Message):
    __slots__ = ("key", "value", "size")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    size: int
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., size: _Optional[int] = ...) -> None: ...

class StateChange(_message.Message):
    __slots__ = ("key", "value", "index", "expected")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    index: int
    expected: bytes
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., index: _Optional[int] = ..., expected: _Optional[bytes] = ...) -> None: ...

class StateWritten(_message.Message):
    __slots__ = ("index", "committed", "put", "deleted")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    PUT_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    index: int
    committed: int
    put: int
    deleted: int
    def __init__(self, index: _Optional[int] = ..., committed: _Optional[int] = ..., put: _Optional[int] = ..., deleted: _Optional[int] = ...) -> None: ...
