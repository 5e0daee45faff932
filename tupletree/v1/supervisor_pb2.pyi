from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

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
    def __init__(self, worker_id: _Optional[str] = ..., topology_id: _Optional[str] = ..., port: _Optional[int] = ..., pid: _Optional[int] = ..., ready: bool = ..., http_port: _Optional[int] = ...) -> None: ...

class BeatReply(_message.Message):
    __slots__ = ("stop", "pid")
    STOP_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    stop: bool
    pid: int
    def __init__(self, stop: bool = ..., pid: _Optional[int] = ...) -> None: ...

class ListSlotsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SlotSummary(_message.Message):
    __slots__ = ("port", "state", "topology_id", "worker_id", "pid", "http_port", "launches", "last_exit", "deaths", "misses")
    PORT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HTTP_PORT_FIELD_NUMBER: _ClassVar[int]
    LAUNCHES_FIELD_NUMBER: _ClassVar[int]
    LAST_EXIT_FIELD_NUMBER: _ClassVar[int]
    DEATHS_FIELD_NUMBER: _ClassVar[int]
    MISSES_FIELD_NUMBER: _ClassVar[int]
    port: int
    state: str
    topology_id: str
    worker_id: str
    pid: int
    http_port: int
    launches: int
    last_exit: str
    deaths: int
    misses: int
    def __init__(self, port: _Optional[int] = ..., state: _Optional[str] = ..., topology_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., pid: _Optional[int] = ..., http_port: _Optional[int] = ..., launches: _Optional[int] = ..., last_exit: _Optional[str] = ..., deaths: _Optional[int] = ..., misses: _Optional[int] = ...) -> None: ...

class ListSlotsReply(_message.Message):
    __slots__ = ("supervisor_id", "slots")
    SUPERVISOR_ID_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    supervisor_id: str
    slots: _containers.RepeatedCompositeFieldContainer[SlotSummary]
    def __init__(self, supervisor_id: _Optional[str] = ..., slots: _Optional[_Iterable[_Union[SlotSummary, _Mapping]]] = ...) -> None: ...

class TailLogRequest(_message.Message):
    __slots__ = ("topology_id", "port", "last_bytes", "offset", "follow", "file", "file_id")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    LAST_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    FILE_ID_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    port: int
    last_bytes: int
    offset: int
    follow: bool
    file: str
    file_id: int
    def __init__(self, topology_id: _Optional[str] = ..., port: _Optional[int] = ..., last_bytes: _Optional[int] = ..., offset: _Optional[int] = ..., follow: bool = ..., file: _Optional[str] = ..., file_id: _Optional[int] = ...) -> None: ...

class TailLogReply(_message.Message):
    __slots__ = ("offset", "data", "file_id")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    FILE_ID_FIELD_NUMBER: _ClassVar[int]
    offset: int
    data: bytes
    file_id: int
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ..., file_id: _Optional[int] = ...) -> None: ...

class ListLogsRequest(_message.Message):
    __slots__ = ("topology_id", "port")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    port: int
    def __init__(self, topology_id: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class LogFile(_message.Message):
    __slots__ = ("port", "name", "size", "modified_unix_s")
    PORT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    port: int
    name: str
    size: int
    modified_unix_s: float
    def __init__(self, port: _Optional[int] = ..., name: _Optional[str] = ..., size: _Optional[int] = ..., modified_unix_s: _Optional[float] = ...) -> None: ...

class ListLogsReply(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[LogFile]
    def __init__(self, files: _Optional[_Iterable[_Union[LogFile, _Mapping]]] = ...) -> None: ...

class SearchLogRequest(_message.Message):
    __slots__ = ("topology_id", "port", "file", "pattern", "is_regex", "ignore_case", "max_matches", "before", "after", "offset")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    IS_REGEX_FIELD_NUMBER: _ClassVar[int]
    IGNORE_CASE_FIELD_NUMBER: _ClassVar[int]
    MAX_MATCHES_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    port: int
    file: str
    pattern: str
    is_regex: bool
    ignore_case: bool
    max_matches: int
    before: int
    after: int
    offset: int
    def __init__(self, topology_id: _Optional[str] = ..., port: _Optional[int] = ..., file: _Optional[str] = ..., pattern: _Optional[str] = ..., is_regex: bool = ..., ignore_case: bool = ..., max_matches: _Optional[int] = ..., before: _Optional[int] = ..., after: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class LogMatch(_message.Message):
    __slots__ = ("file", "offset", "line", "before", "after")
    FILE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    file: str
    offset: int
    line: str
    before: _containers.RepeatedScalarFieldContainer[str]
    after: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, file: _Optional[str] = ..., offset: _Optional[int] = ..., line: _Optional[str] = ..., before: _Optional[_Iterable[str]] = ..., after: _Optional[_Iterable[str]] = ...) -> None: ...

class SearchEnd(_message.Message):
    __slots__ = ("searched_bytes", "incomplete")
    SEARCHED_BYTES_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_FIELD_NUMBER: _ClassVar[int]
    searched_bytes: int
    incomplete: str
    def __init__(self, searched_bytes: _Optional[int] = ..., incomplete: _Optional[str] = ...) -> None: ...

class SearchLogReply(_message.Message):
    __slots__ = ("match", "end")
    MATCH_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    match: LogMatch
    end: SearchEnd
    def __init__(self, match: _Optional[_Union[LogMatch, _Mapping]] = ..., end: _Optional[_Union[SearchEnd, _Mapping]] = ...) -> None: ...

class ProfileWorkerRequest(_message.Message):
    __slots__ = ("topology_id", "port", "seconds", "format", "per_second")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    port: int
    seconds: float
    format: str
    per_second: int
    def __init__(self, topology_id: _Optional[str] = ..., port: _Optional[int] = ..., seconds: _Optional[float] = ..., format: _Optional[str] = ..., per_second: _Optional[int] = ...) -> None: ...

class ProfileWorkerReply(_message.Message):
    __slots__ = ("file", "data")
    FILE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    file: str
    data: bytes
    def __init__(self, file: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class DumpStacksRequest(_message.Message):
    __slots__ = ("topology_id", "port")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    port: int
    def __init__(self, topology_id: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class DumpStacksReply(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class RestartWorkerRequest(_message.Message):
    __slots__ = ("epoch", "port", "topology_id")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    port: int
    topology_id: str
    def __init__(self, epoch: _Optional[int] = ..., port: _Optional[int] = ..., topology_id: _Optional[str] = ...) -> None: ...

class RestartWorkerReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
