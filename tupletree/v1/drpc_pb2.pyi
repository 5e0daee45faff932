from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExecuteRequest(_message.Message):
    __slots__ = ("function", "args", "timeout_s")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    function: str
    args: bytes
    timeout_s: float
    def __init__(self, function: _Optional[str] = ..., args: _Optional[bytes] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class ExecuteReply(_message.Message):
    __slots__ = ("result", "failure")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    result: bytes
    failure: DrpcFailure
    def __init__(self, result: _Optional[bytes] = ..., failure: _Optional[_Union[DrpcFailure, _Mapping]] = ...) -> None: ...

class CallRequest(_message.Message):
    __slots__ = ("calls", "cancelled")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[NumberedCall]
    cancelled: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, calls: _Optional[_Iterable[_Union[NumberedCall, _Mapping]]] = ..., cancelled: _Optional[_Iterable[int]] = ...) -> None: ...

class NumberedCall(_message.Message):
    __slots__ = ("number", "function", "args", "timeout_s")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    number: int
    function: str
    args: bytes
    timeout_s: float
    def __init__(self, number: _Optional[int] = ..., function: _Optional[str] = ..., args: _Optional[bytes] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class CallReply(_message.Message):
    __slots__ = ("replies", "read_until")
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    READ_UNTIL_FIELD_NUMBER: _ClassVar[int]
    replies: _containers.RepeatedCompositeFieldContainer[NumberedReply]
    read_until: int
    def __init__(self, replies: _Optional[_Iterable[_Union[NumberedReply, _Mapping]]] = ..., read_until: _Optional[int] = ...) -> None: ...

class NumberedReply(_message.Message):
    __slots__ = ("number", "result", "failure", "refusal")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    number: int
    result: bytes
    failure: DrpcFailure
    refusal: DrpcRefusal
    def __init__(self, number: _Optional[int] = ..., result: _Optional[bytes] = ..., failure: _Optional[_Union[DrpcFailure, _Mapping]] = ..., refusal: _Optional[_Union[DrpcRefusal, _Mapping]] = ...) -> None: ...

class DrpcRefusal(_message.Message):
    __slots__ = ("kind", "reason")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[DrpcRefusal.Kind]
        KIND_OVERLOADED: _ClassVar[DrpcRefusal.Kind]
        KIND_INVALID: _ClassVar[DrpcRefusal.Kind]
        KIND_FORBIDDEN: _ClassVar[DrpcRefusal.Kind]
    KIND_UNSPECIFIED: DrpcRefusal.Kind
    KIND_OVERLOADED: DrpcRefusal.Kind
    KIND_INVALID: DrpcRefusal.Kind
    KIND_FORBIDDEN: DrpcRefusal.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    kind: DrpcRefusal.Kind
    reason: str
    def __init__(self, kind: _Optional[_Union[DrpcRefusal.Kind, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class DrpcFailure(_message.Message):
    __slots__ = ("kind", "reason")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[DrpcFailure.Kind]
        KIND_FAILED: _ClassVar[DrpcFailure.Kind]
        KIND_TIMEOUT: _ClassVar[DrpcFailure.Kind]
        KIND_LOST: _ClassVar[DrpcFailure.Kind]
        KIND_SHUTDOWN: _ClassVar[DrpcFailure.Kind]
    KIND_UNSPECIFIED: DrpcFailure.Kind
    KIND_FAILED: DrpcFailure.Kind
    KIND_TIMEOUT: DrpcFailure.Kind
    KIND_LOST: DrpcFailure.Kind
    KIND_SHUTDOWN: DrpcFailure.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    kind: DrpcFailure.Kind
    reason: str
    def __init__(self, kind: _Optional[_Union[DrpcFailure.Kind, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class ServeRequest(_message.Message):
    __slots__ = ("hello", "update")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    hello: ServeHello
    update: ServeUpdate
    def __init__(self, hello: _Optional[_Union[ServeHello, _Mapping]] = ..., update: _Optional[_Union[ServeUpdate, _Mapping]] = ...) -> None: ...

class ServeHello(_message.Message):
    __slots__ = ("topology_id", "function", "max_in_flight", "collects", "paused")
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    COLLECTS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    function: str
    max_in_flight: int
    collects: bool
    paused: bool
    def __init__(self, topology_id: _Optional[str] = ..., function: _Optional[str] = ..., max_in_flight: _Optional[int] = ..., collects: bool = ..., paused: bool = ...) -> None: ...

class ServeUpdate(_message.Message):
    __slots__ = ("completed", "failed", "given_back", "paused")
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    GIVEN_BACK_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    completed: _containers.RepeatedScalarFieldContainer[str]
    failed: _containers.RepeatedCompositeFieldContainer[FailedRequest]
    given_back: _containers.RepeatedScalarFieldContainer[str]
    paused: bool
    def __init__(self, completed: _Optional[_Iterable[str]] = ..., failed: _Optional[_Iterable[_Union[FailedRequest, _Mapping]]] = ..., given_back: _Optional[_Iterable[str]] = ..., paused: bool = ...) -> None: ...

class FailedRequest(_message.Message):
    __slots__ = ("id", "failure")
    ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    id: str
    failure: DrpcFailure
    def __init__(self, id: _Optional[str] = ..., failure: _Optional[_Union[DrpcFailure, _Mapping]] = ...) -> None: ...

class ServeReply(_message.Message):
    __slots__ = ("requests", "ended")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[DrpcRequest]
    ended: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, requests: _Optional[_Iterable[_Union[DrpcRequest, _Mapping]]] = ..., ended: _Optional[_Iterable[str]] = ...) -> None: ...

class DrpcRequest(_message.Message):
    __slots__ = ("id", "args")
    ID_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    id: str
    args: bytes
    def __init__(self, id: _Optional[str] = ..., args: _Optional[bytes] = ...) -> None: ...

class AnswerRequest(_message.Message):
    __slots__ = ("hello", "results")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    hello: AnswerHello
    results: Results
    def __init__(self, hello: _Optional[_Union[AnswerHello, _Mapping]] = ..., results: _Optional[_Union[Results, _Mapping]] = ...) -> None: ...

class AnswerHello(_message.Message):
    __slots__ = ("topology_id",)
    TOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    topology_id: str
    def __init__(self, topology_id: _Optional[str] = ...) -> None: ...

class Results(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RequestResult]
    def __init__(self, results: _Optional[_Iterable[_Union[RequestResult, _Mapping]]] = ...) -> None: ...

class RequestResult(_message.Message):
    __slots__ = ("id", "value")
    ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    id: str
    value: bytes
    def __init__(self, id: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class AnswerReply(_message.Message):
    __slots__ = ("confirmed",)
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    confirmed: int
    def __init__(self, confirmed: _Optional[int] = ...) -> None: ...
