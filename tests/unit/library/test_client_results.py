"""The dataclasses that a client returns hold every field of the contract, or leave a field to ``raw`` on purpose."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from enum import StrEnum
from itertools import count
from typing import Any, get_type_hints

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tupletree import client as results
from tupletree.cli.output import message_dict
from tupletree.client import (
    ComponentSpec,
    InputSpec,
    LogLevel,
    LogMatch,
    Presence,
    Result,
    SearchEnd,
    TaskStatus,
    TopologyRecord,
    TopologySpec,
    TopologyStatus,
)
from tupletree.client.results.conversion import message_type
from tupletree.client.supervisors import _search_result
from tupletree.v1 import acker_pb2, nimbus_pb2, supervisor_pb2, topology_pb2

CLASSES: list[type[Any]] = [
    one
    for one in map(results.__dict__.get, results.__all__)
    if isinstance(one, type) and issubclass(one, Result) and one is not Result
]
BY_MESSAGE = {message_type(one).full_name: one for one in CLASSES}
ENUMS: list[type[StrEnum]] = [
    one for one in map(results.__dict__.get, results.__all__) if isinstance(one, type) and issubclass(one, StrEnum)
]

RAW_ONLY = {  # pickled user code, which only a worker may load
    ComponentSpec: {"object"},
    TopologySpec: {"worker_hooks"},
    InputSpec: {"custom"},
}
UNPACKED = {  # replies that a method of the client takes apart, with all their fields
    "SubmitReply": {"topology_id"},
    "TopologyReply": {"record"},
    "BlobReply": {"blob"},
    "DeleteBlobReply": set(),
    "ListBlobsReply": {"blobs"},
    "FetchBlobReply": {"record", "chunk"},
    "ListTopologiesReply": {"topologies"},
    "ListPastTopologiesReply": {"topologies"},
    "RestartTopologyWorkerReply": set(),
    "GetConfigurationReply": {"conf_json", "address"},  # the address is that of ``leader``
    "ListLogsReply": {"files"},
    "SearchLogReply": {"match", "end"},
    "DumpStacksReply": {"text"},
    "HoldCheckpointsReply": {"topology_id", "held", "quiet_age_s"},  # to a Held, of client/savepoint_pages.py
    "HeldCheckpoint": {"txid", "tasks", "versions", "refusal"},
    "LocateStateReply": {"topology_id", "tasks", "places", "ticket", "valid_s"},  # to connections to workers
    "StatePlace": {"host", "http_port", "worker_id", "indexes"},
    "ReadStateReply": {"tasks", "next", "topology_id"},  # to a StateAnswer
    "TaskState": {"index", "committed", "entries", "has_more"},
    "StateEntry": {"key", "value", "size"},
    "MeasureStatesReply": {"topology_id", "tasks"},  # to ComponentStates
    "TaskStateSize": {
        "component",
        "index",
        "provider",
        "committed",
        "keys",
        "bytes",
        "precision",
        "age_s",
        "failure",
        "write_refusal",
        "largest",
    },
    "LargeEntry": {"key", "bytes"},
    "WriteStateReply": {"tasks", "topology_id"},  # to a StateWrite
    "StateWritten": {"index", "committed", "put", "deleted"},
}
INTERNAL = {  # replies to daemons, and what the client asks for itself
    "GetLeaderReply",
    "FetchBundleReply",
    "WorkerReportReply",
    "WakeReply",
    "BeatReply",
    "RestartWorkerReply",
    "TrackReply",
    "DropTopologyReply",
}
SERVICES = (
    nimbus_pb2.DESCRIPTOR.services_by_name["Nimbus"],
    supervisor_pb2.DESCRIPTOR.services_by_name["Supervisor"],
    acker_pb2.DESCRIPTOR.services_by_name["Acker"],
)


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def contained(message: Descriptor) -> dict[str, Descriptor]:
    """Return the message and all messages that its fields hold, by name."""
    found = {message.full_name: message}
    for field in message.fields:
        inner = field.message_type
        if inner is not None and is_map(field):
            inner = inner.fields_by_name["value"].message_type
        found |= contained(inner) if inner is not None else {}
    return found


def names_of(kind: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def is_repeated(field: FieldDescriptor) -> bool:
    """``FieldDescriptor.is_repeated``, which protobuf 5 does not have."""
    return bool(field.default_value == [])


def filled(message: Descriptor, numbers: count[int]) -> Message:
    """Return a message in which every field has a value, and no two fields the same."""
    made: Message = GetMessageClass(message)()
    for field in message.fields:
        if is_map(field):
            key, value = f"key-{next(numbers)}", field.message_type.fields_by_name["value"]  # type: ignore[union-attr]
            if value.message_type is not None:
                getattr(made, field.name)[key].CopyFrom(filled(value.message_type, numbers))
            else:
                getattr(made, field.name)[key] = scalar(value, numbers)
        elif field.message_type is not None and is_repeated(field):
            getattr(made, field.name).extend(filled(field.message_type, numbers) for _ in range(2))
        elif field.message_type is not None:
            getattr(made, field.name).CopyFrom(filled(field.message_type, numbers))
        elif is_repeated(field):
            getattr(made, field.name).extend(scalar(field, numbers) for _ in range(2))
        else:
            setattr(made, field.name, scalar(field, numbers))
    return made


def scalar(field: FieldDescriptor, numbers: count[int]) -> Any:
    number = next(numbers)
    if field.enum_type is not None:
        return 1 + number % (len(field.enum_type.values) - 1)
    kinds: dict[int, Any] = {
        FieldDescriptor.CPPTYPE_STRING: b"%d" % number
        if field.type == FieldDescriptor.TYPE_BYTES
        else f"text {number}",
        FieldDescriptor.CPPTYPE_BOOL: True,
        FieldDescriptor.CPPTYPE_DOUBLE: number + 0.5,
    }
    return kinds.get(field.cpp_type, number)


def plain(value: Any) -> Any:
    """Return a result as ``message_dict`` shows its message: without bytes."""
    if isinstance(value, Result):
        shown = {name: getattr(value, name) for name in names_of(type(value)) if name != "raw"}
        return {name: plain(one) for name, one in shown.items() if not isinstance(one, bytes)}
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    return {key: plain(one) for key, one in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_field_of_a_message_is_in_its_dataclass_or_left_to_raw_on_purpose(kind: type[Any]) -> None:
    names = names_of(kind)
    assert names[-1] == "raw"
    raw_only = RAW_ONLY.get(kind, set())
    assert not raw_only & set(names)
    assert {*names[:-1], *raw_only} == {field.name for field in message_type(kind).fields}


def test_every_message_that_a_client_returns_has_a_dataclass() -> None:
    for service in SERVICES:
        for method in service.methods:
            reply = method.output_type
            if reply.name in INTERNAL:
                continue
            for message in contained(reply).values():
                fields = {field.name for field in message.fields}
                if message.name in UNPACKED:
                    assert fields == UNPACKED[message.name], message.name
                else:
                    assert message.full_name in BY_MESSAGE, f"{message.name}, in the reply to {method.name}"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_dataclass_holds_the_values_of_its_message(kind: type[Any]) -> None:
    message = filled(message_type(kind), count(1))
    made = kind.of(message)
    assert made.raw is message
    assert plain(made) == message_dict(message)
    for field in message_type(kind).fields:
        if field.type == FieldDescriptor.TYPE_BYTES and field.name in names_of(kind):
            assert getattr(made, field.name) == getattr(message, field.name)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_result_is_an_immutable_value(kind: type[Any]) -> None:
    message = filled(message_type(kind), count(1))
    made, same, other = kind.of(message), kind.of(message), kind.of(filled(message_type(kind), count(1000)))
    assert made == same and hash(made) == hash(same) and made != other
    assert "raw" not in repr(made) and not hasattr(made, "__dict__")
    for name in names_of(kind):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, name, None)
    for copied in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert copied == made and copied.raw == message
    assert dataclasses.asdict(made)["raw"] == message


OPTIONAL = {
    "TopologyRecord": ["pending", "previous", "earlier", "autoscaled"],
    "PendingAction": ["update", "autoscaled"],
    "Autoscaling": ["next", "last"],
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_empty_message_makes_a_result_too(kind: type[Any]) -> None:
    message = GetMessageClass(message_type(kind))()
    made = kind.of(message)
    none = [name for name in names_of(kind) if getattr(made, name) is None]
    assert none == OPTIONAL.get(kind.__name__, [])


def test_every_enumeration_has_the_values_of_the_contract() -> None:
    contract = {
        field.enum_type.full_name: (hint, field.enum_type)
        for kind in CLASSES
        for field in message_type(kind).fields
        if field.enum_type is not None and (hint := get_type_hints(kind)[field.name])
    }
    assert {hint for hint, _ in contract.values()} == set(ENUMS)
    for hint, enum in contract.values():
        prefix = enum.values[0].name.removesuffix("UNSPECIFIED")
        assert {one.value for one in hint} == {"unknown"} | {
            one.name.removeprefix(prefix).lower() for one in enum.values[1:]
        }


def test_a_status_of_a_newer_version_is_unknown() -> None:
    assert TopologyRecord.of(topology_pb2.TopologyRecord(status=99)).status is TopologyStatus.UNKNOWN  # type: ignore[arg-type]
    assert TopologyRecord.of(topology_pb2.TopologyRecord()).status is TopologyStatus.UNKNOWN


def test_a_search_yields_matches_and_then_its_end() -> None:
    match = supervisor_pb2.LogMatch(file="worker.log", line="b", before=["a"])
    found = _search_result(supervisor_pb2.SearchLogReply(match=match))
    assert isinstance(found, LogMatch) and (found.line, found.before, found.raw) == ("b", ("a",), match)
    end = supervisor_pb2.SearchEnd(searched_bytes=7, incomplete="a file is gone")
    assert _search_result(supervisor_pb2.SearchLogReply(end=end)) == SearchEnd.of(end)


def test_what_is_json_is_decoded() -> None:
    assert TopologyRecord.of(topology_pb2.TopologyRecord(conf_json='{"topology.workers": 2}')).conf == {
        "topology.workers": 2
    }
    assert ComponentSpec.of(topology_pb2.ComponentSpec()).conf == {}
    assert TaskStatus.of(nimbus_pb2.TaskStatus(status_json='{"kind": "x"}')).status == {"kind": "x"}
    assert TaskStatus.of(nimbus_pb2.TaskStatus(status_json="no JSON")).status is None


def test_addresses_of_daemons() -> None:
    presence = Presence.of(topology_pb2.Presence(host="::1", grpc_port=1, http_port=2))
    assert (presence.address, presence.http_address) == ("[::1]:1", "[::1]:2")


def test_a_level_that_a_caller_makes_equals_the_level_that_comes_back() -> None:
    made = LogLevel("DEBUG", until_unix_s=5.0)
    assert made.raw is None
    assert made == LogLevel.of(topology_pb2.LogLevel(level="DEBUG", until_unix_s=5.0))
