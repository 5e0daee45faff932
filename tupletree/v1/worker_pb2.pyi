from tupletree.v1 import topology_pb2 as _topology_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DumpMemoryRequest(_message.Message):
    __slots__ = ("topology_id",)
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    def __init__(self, topology_id: _Optional[str] = ...) -> None: ...

class DumpMemoryReply(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class ReadTaskStatesRequest(_message.Message):
    __slots__ = ("topology_id", "component", "indexes", "is_live", "keys", "after", "limit", "max_bytes", "is_bulk")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    IS_LIVE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_BULK_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    component: str
    indexes: _containers.RepeatedScalarFieldContainer[int]
    is_live: bool
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    after: bytes
    limit: int
    max_bytes: int
    is_bulk: bool
    def __init__(self, topology_id: _Optional[str] = ..., component: _Optional[str] = ..., indexes: _Optional[_Iterable[int]] = ..., is_live: bool = ..., keys: _Optional[_Iterable[bytes]] = ..., after: _Optional[bytes] = ..., limit: _Optional[int] = ..., max_bytes: _Optional[int] = ..., is_bulk: bool = ...) -> None: ...

class MeasureTaskStatesRequest(_message.Message):
    __slots__ = ("topology_id", "component")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    component: str
    def __init__(self, topology_id: _Optional[str] = ..., component: _Optional[str] = ...) -> None: ...

class MeasureTaskStatesReply(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_topology_pb2.TaskStateSize]
    def __init__(self, tasks: _Optional[_Iterable[_Union[_topology_pb2.TaskStateSize, _Mapping]]] = ...) -> None: ...

class WriteTaskStatesRequest(_message.Message):
    __slots__ = ("topology_id", "component", "indexes", "changes", "wait_s", "tasks")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    component: str
    indexes: _containers.RepeatedScalarFieldContainer[int]
    changes: _containers.RepeatedCompositeFieldContainer[_topology_pb2.StateChange]
    wait_s: float
    tasks: int
    def __init__(self, topology_id: _Optional[str] = ..., component: _Optional[str] = ..., indexes: _Optional[_Iterable[int]] = ..., changes: _Optional[_Iterable[_Union[_topology_pb2.StateChange, _Mapping]]] = ..., wait_s: _Optional[float] = ..., tasks: _Optional[int] = ...) -> None: ...

class WriteTaskStatesReply(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_topology_pb2.StateWritten]
    def __init__(self, tasks: _Optional[_Iterable[_Union[_topology_pb2.StateWritten, _Mapping]]] = ...) -> None: ...

class HoldTaskCheckpointsRequest(_message.Message):
    __slots__ = ("topology_id", "hold_s")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    HOLD_S_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    hold_s: float
    def __init__(self, topology_id: _Optional[str] = ..., hold_s: _Optional[float] = ...) -> None: ...

class HoldTaskCheckpointsReply(_message.Message):
    __slots__ = ("held",)
    HELD_FIELD_NUMBER: _ClassVar[int]
    held: _topology_pb2.HeldCheckpoint
    def __init__(self, held: _Optional[_Union[_topology_pb2.HeldCheckpoint, _Mapping]] = ...) -> None: ...

class ReadTaskStatesReply(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_topology_pb2.TaskState]
    def __init__(self, tasks: _Optional[_Iterable[_Union[_topology_pb2.TaskState, _Mapping]]] = ...) -> None: ...

class DirectAnswer(_message.Message):
    __slots__ = ("tasks", "code", "sentence", "is_elsewhere")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    IS_ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_topology_pb2.TaskState]
    code: int
    sentence: str
    is_elsewhere: bool
    def __init__(self, tasks: _Optional[_Iterable[_Union[_topology_pb2.TaskState, _Mapping]]] = ..., code: _Optional[int] = ..., sentence: _Optional[str] = ..., is_elsewhere: bool = ...) -> None: ...

class TransferRequest(_message.Message):
    __slots__ = ("hello", "frame")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    hello: TransferHello
    frame: Frame
    def __init__(self, hello: _Optional[_Union[TransferHello, _Mapping]] = ..., frame: _Optional[_Union[Frame, _Mapping]] = ...) -> None: ...

class TransferHello(_message.Message):
    __slots__ = ("topology_id", "from_worker_id", "to_worker_id")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TO_WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    from_worker_id: str
    to_worker_id: str
    def __init__(self, topology_id: _Optional[str] = ..., from_worker_id: _Optional[str] = ..., to_worker_id: _Optional[str] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("sequence", "shard_version", "batches", "piece")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SHARD_VERSION_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    shard_version: int
    batches: _containers.RepeatedCompositeFieldContainer[Batch]
    piece: Piece
    def __init__(self, sequence: _Optional[int] = ..., shard_version: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[Batch, _Mapping]]] = ..., piece: _Optional[_Union[Piece, _Mapping]] = ...) -> None: ...

class Piece(_message.Message):
    __slots__ = ("size", "offset", "data")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    size: int
    offset: int
    data: bytes
    def __init__(self, size: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("source_task", "stream", "target_task", "rows", "values", "roots", "edges", "multi", "first", "generation", "sources", "targets")
    SOURCE_TASK_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TARGET_TASK_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    ROOTS_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    MULTI_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    source_task: int
    stream: str
    target_task: int
    rows: int
    values: bytes
    roots: bytes
    edges: bytes
    multi: _containers.RepeatedCompositeFieldContainer[MultiRow]
    first: bytes
    generation: int
    sources: bytes
    targets: bytes
    def __init__(self, source_task: _Optional[int] = ..., stream: _Optional[str] = ..., target_task: _Optional[int] = ..., rows: _Optional[int] = ..., values: _Optional[bytes] = ..., roots: _Optional[bytes] = ..., edges: _Optional[bytes] = ..., multi: _Optional[_Iterable[_Union[MultiRow, _Mapping]]] = ..., first: _Optional[bytes] = ..., generation: _Optional[int] = ..., sources: _Optional[bytes] = ..., targets: _Optional[bytes] = ...) -> None: ...

class MultiRow(_message.Message):
    __slots__ = ("row", "roots", "edges")
    ROW_FIELD_NUMBER: _ClassVar[int]
    ROOTS_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    row: int
    roots: bytes
    edges: bytes
    def __init__(self, row: _Optional[int] = ..., roots: _Optional[bytes] = ..., edges: _Optional[bytes] = ...) -> None: ...

class TransferStatus(_message.Message):
    __slots__ = ("confirmed", "congested", "loads")
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    CONGESTED_FIELD_NUMBER: _ClassVar[int]
    LOADS_FIELD_NUMBER: _ClassVar[int]
    confirmed: int
    congested: _containers.RepeatedScalarFieldContainer[int]
    loads: _containers.RepeatedCompositeFieldContainer[TaskLoad]
    def __init__(self, confirmed: _Optional[int] = ..., congested: _Optional[_Iterable[int]] = ..., loads: _Optional[_Iterable[_Union[TaskLoad, _Mapping]]] = ...) -> None: ...

class TaskLoad(_message.Message):
    __slots__ = ("tasks", "wait_ms")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedScalarFieldContainer[int]
    wait_ms: int
    def __init__(self, tasks: _Optional[_Iterable[int]] = ..., wait_ms: _Optional[int] = ...) -> None: ...
