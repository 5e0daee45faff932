from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TrackRequest(_message.Message):
    __slots__ = ("hello", "updates")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    hello: TrackHello
    updates: LedgerUpdates
    def __init__(self, hello: _Optional[_Union[TrackHello, _Mapping]] = ..., updates: _Optional[_Union[LedgerUpdates, _Mapping]] = ...) -> None: ...

class TrackHello(_message.Message):
    __slots__ = ("topology_id", "worker_id", "tasks", "message_timeout_s", "shards")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    worker_id: str
    tasks: _containers.RepeatedScalarFieldContainer[int]
    message_timeout_s: float
    shards: int
    def __init__(self, topology_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., tasks: _Optional[_Iterable[int]] = ..., message_timeout_s: _Optional[float] = ..., shards: _Optional[int] = ...) -> None: ...

class TrackTreesRequest(_message.Message):
    __slots__ = ("hello", "updates")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    hello: TreesHello
    updates: LedgerUpdates
    def __init__(self, hello: _Optional[_Union[TreesHello, _Mapping]] = ..., updates: _Optional[_Union[LedgerUpdates, _Mapping]] = ...) -> None: ...

class TreesHello(_message.Message):
    __slots__ = ("namespace", "client_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    client_id: str
    def __init__(self, namespace: _Optional[str] = ..., client_id: _Optional[str] = ...) -> None: ...

class TreesWelcome(_message.Message):
    __slots__ = ("max_open_trees", "max_updates_per_s", "timeout_s")
    MAX_OPEN_TREES_FIELD_NUMBER: _ClassVar[int]
    MAX_UPDATES_PER_S_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    max_open_trees: int
    max_updates_per_s: int
    timeout_s: float
    def __init__(self, max_open_trees: _Optional[int] = ..., max_updates_per_s: _Optional[int] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class LedgerUpdates(_message.Message):
    __slots__ = ("sequence", "shard_version", "shards")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SHARD_VERSION_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    shard_version: int
    shards: _containers.RepeatedCompositeFieldContainer[ShardUpdate]
    def __init__(self, sequence: _Optional[int] = ..., shard_version: _Optional[int] = ..., shards: _Optional[_Iterable[_Union[ShardUpdate, _Mapping]]] = ...) -> None: ...

class ShardUpdate(_message.Message):
    __slots__ = ("shard", "init_roots", "init_values", "init_tasks", "ack_roots", "ack_values", "fail_roots", "reset_roots", "fail_reasons")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    INIT_ROOTS_FIELD_NUMBER: _ClassVar[int]
    INIT_VALUES_FIELD_NUMBER: _ClassVar[int]
    INIT_TASKS_FIELD_NUMBER: _ClassVar[int]
    ACK_ROOTS_FIELD_NUMBER: _ClassVar[int]
    ACK_VALUES_FIELD_NUMBER: _ClassVar[int]
    FAIL_ROOTS_FIELD_NUMBER: _ClassVar[int]
    RESET_ROOTS_FIELD_NUMBER: _ClassVar[int]
    FAIL_REASONS_FIELD_NUMBER: _ClassVar[int]
    shard: int
    init_roots: bytes
    init_values: bytes
    init_tasks: bytes
    ack_roots: bytes
    ack_values: bytes
    fail_roots: bytes
    reset_roots: bytes
    fail_reasons: FailReasons
    def __init__(self, shard: _Optional[int] = ..., init_roots: _Optional[bytes] = ..., init_values: _Optional[bytes] = ..., init_tasks: _Optional[bytes] = ..., ack_roots: _Optional[bytes] = ..., ack_values: _Optional[bytes] = ..., fail_roots: _Optional[bytes] = ..., reset_roots: _Optional[bytes] = ..., fail_reasons: _Optional[_Union[FailReasons, _Mapping]] = ...) -> None: ...

class FailReasons(_message.Message):
    __slots__ = ("reasons", "roots", "which")
    REASONS_FIELD_NUMBER: _ClassVar[int]
    ROOTS_FIELD_NUMBER: _ClassVar[int]
    WHICH_FIELD_NUMBER: _ClassVar[int]
    reasons: _containers.RepeatedScalarFieldContainer[bytes]
    roots: bytes
    which: bytes
    def __init__(self, reasons: _Optional[_Iterable[bytes]] = ..., roots: _Optional[bytes] = ..., which: _Optional[bytes] = ...) -> None: ...

class TrackReply(_message.Message):
    __slots__ = ("acker_id", "confirmed", "verdicts", "drained", "linger_us", "hold", "welcome")
    ACKER_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    LINGER_US_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    acker_id: str
    confirmed: int
    verdicts: _containers.RepeatedCompositeFieldContainer[Verdicts]
    drained: bool
    linger_us: int
    hold: bool
    welcome: TreesWelcome
    def __init__(self, acker_id: _Optional[str] = ..., confirmed: _Optional[int] = ..., verdicts: _Optional[_Iterable[_Union[Verdicts, _Mapping]]] = ..., drained: bool = ..., linger_us: _Optional[int] = ..., hold: bool = ..., welcome: _Optional[_Union[TreesWelcome, _Mapping]] = ...) -> None: ...

class Verdicts(_message.Message):
    __slots__ = ("task", "acked", "failed", "expired", "reset", "reasons", "refused")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    task: int
    acked: bytes
    failed: bytes
    expired: bytes
    reset: bytes
    reasons: FailReasons
    refused: bytes
    def __init__(self, task: _Optional[int] = ..., acked: _Optional[bytes] = ..., failed: _Optional[bytes] = ..., expired: _Optional[bytes] = ..., reset: _Optional[bytes] = ..., reasons: _Optional[_Union[FailReasons, _Mapping]] = ..., refused: _Optional[bytes] = ...) -> None: ...

class DescribeLedgerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShardSummary(_message.Message):
    __slots__ = ("topology_id", "shard", "pending", "oldest_age_s", "inits", "acks", "fails", "resets", "timeouts", "completed", "bytes_held")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    OLDEST_AGE_S_FIELD_NUMBER: _ClassVar[int]
    INITS_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    FAILS_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    BYTES_HELD_FIELD_NUMBER: _ClassVar[int]
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
    def __init__(self, topology_id: _Optional[str] = ..., shard: _Optional[int] = ..., pending: _Optional[int] = ..., oldest_age_s: _Optional[float] = ..., inits: _Optional[int] = ..., acks: _Optional[int] = ..., fails: _Optional[int] = ..., resets: _Optional[int] = ..., timeouts: _Optional[int] = ..., completed: _Optional[int] = ..., bytes_held: _Optional[int] = ...) -> None: ...

class NamespaceSummary(_message.Message):
    __slots__ = ("name", "clients", "open_trees", "max_open_trees", "max_updates_per_s", "timeout_s", "begun", "done", "failed", "timed_out", "refused")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    OPEN_TREES_FIELD_NUMBER: _ClassVar[int]
    MAX_OPEN_TREES_FIELD_NUMBER: _ClassVar[int]
    MAX_UPDATES_PER_S_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
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
    def __init__(self, name: _Optional[str] = ..., clients: _Optional[int] = ..., open_trees: _Optional[int] = ..., max_open_trees: _Optional[int] = ..., max_updates_per_s: _Optional[int] = ..., timeout_s: _Optional[float] = ..., begun: _Optional[int] = ..., done: _Optional[int] = ..., failed: _Optional[int] = ..., timed_out: _Optional[int] = ..., refused: _Optional[int] = ...) -> None: ...

class DescribeLedgerReply(_message.Message):
    __slots__ = ("acker_id", "draining", "ready", "reasons", "shards", "namespaces")
    ACKER_ID_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    acker_id: str
    draining: bool
    ready: bool
    reasons: _containers.RepeatedScalarFieldContainer[str]
    shards: _containers.RepeatedCompositeFieldContainer[ShardSummary]
    namespaces: _containers.RepeatedCompositeFieldContainer[NamespaceSummary]
    def __init__(self, acker_id: _Optional[str] = ..., draining: bool = ..., ready: bool = ..., reasons: _Optional[_Iterable[str]] = ..., shards: _Optional[_Iterable[_Union[ShardSummary, _Mapping]]] = ..., namespaces: _Optional[_Iterable[_Union[NamespaceSummary, _Mapping]]] = ...) -> None: ...

class DropTopologyRequest(_message.Message):
    __slots__ = ("epoch", "topology_id")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    topology_id: str
    def __init__(self, epoch: _Optional[int] = ..., topology_id: _Optional[str] = ...) -> None: ...

class DropTopologyReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
