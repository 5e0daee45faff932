from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WakeRequest(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class WakeReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BeatRequest(_message.Message):
    __slots__ = ("worker_id", "topology_id", "port", "pid", "ready", "http_port")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    HTTP_PORT_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    topology_id: str
    port: int
    pid: int
    ready: bool
    http_port: int
    def __init__(self, worker_id: _Optional[str] = ..., topology_id: _Optional[str] = ..., port: _Optional[int] = ..., pid: _Optional[int] = ..., ready: _Optional[bool] = ..., http_port: _Optional[int] = ...) -> None: ...

class BeatReply(_message.Message):
    __slots__ = ("stop",)
    STOP_FIELD_NUMBER: _ClassVar[int]
    stop: bool
    def __init__(self, stop: _Optional[bool] = ...) -> None: ...

class ListSlotsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SlotSummary(_message.Message):
    __slots__ = ("port", "state", "topology_id", "worker_id", "pid", "http_port", "launches", "last_exit")
    PORT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HTTP_PORT_FIELD_NUMBER: _ClassVar[int]
    LAUNCHES_FIELD_NUMBER: _ClassVar[int]
    LAST_EXIT_FIELD_NUMBER: _ClassVar[int]
    port: int
    state: str
    topology_id: str
    worker_id: str
    pid: int
    http_port: int
    launches: int
    last_exit: str
    def __init__(self, port: _Optional[int] = ..., state: _Optional[str] = ..., topology_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., pid: _Optional[int] = ..., http_port: _Optional[int] = ..., launches: _Optional[int] = ..., last_exit: _Optional[str] = ...) -> None: ...

class ListSlotsReply(_message.Message):
    __slots__ = ("supervisor_id", "slots")
    SUPERVISOR_ID_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    supervisor_id: str
    slots: _containers.RepeatedCompositeFieldContainer[SlotSummary]
    def __init__(self, supervisor_id: _Optional[str] = ..., slots: _Optional[_Iterable[_Union[SlotSummary, _Mapping]]] = ...) -> None: ...

class TailLogRequest(_message.Message):
    __slots__ = ("topology_id", "port", "last_bytes", "offset", "follow")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    LAST_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    port: int
    last_bytes: int
    offset: int
    follow: bool
    def __init__(self, topology_id: _Optional[str] = ..., port: _Optional[int] = ..., last_bytes: _Optional[int] = ..., offset: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class TailLogReply(_message.Message):
    __slots__ = ("offset", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class RestartWorkerRequest(_message.Message):
    __slots__ = ("epoch", "port")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    port: int
    def __init__(self, epoch: _Optional[int] = ..., port: _Optional[int] = ...) -> None: ...

class RestartWorkerReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
