"""Formats decode what they encode, and say what is wrong with anything else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgpack
import pytest
from google.protobuf.descriptor_pb2 import UninterpretedOption
from google.protobuf.field_mask_pb2 import FieldMask
from hypothesis import given, strategies

from tupletree._wire.codec import decode_value, encode_value
from tupletree.connectors.beanstalkd import BeanstalkSpout
from tupletree.connectors.csv_format import Csv
from tupletree.connectors.formats import Format, FormatError, Json, MsgPack, Protobuf, Raw, Text, WithHeaders
from tupletree.connectors.http import WebhookSpout
from tupletree.errors import UsageError
from tupletree.testing import make_tuple
from tupletree.tuples import Tuple
from tupletree.v1 import nimbus_pb2


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclass
class Sale:
    shop: str
    amount: Decimal

    def __post_init__(self) -> None:
        self.amount = Decimal(self.amount)


PLAIN = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers(-(2**53), 2**53) | strategies.text(),
    lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(strategies.text(), inner, max_size=3),
    max_leaves=8,
)
NamePart = UninterpretedOption.NamePart  # has required fields
MESSAGES = Protobuf(nimbus_pb2.TaskStats)
FORMATS: list[Format] = [Raw(), Text(), Json(), Json(["a"]), MsgPack(), MsgPack(["a"]), MESSAGES, Json(Sale)]


@given(PLAIN, PLAIN)
@pytest.mark.parametrize("kind", [Json, MsgPack])
def test_fields_return(kind: Any, one: Any, other: Any) -> None:
    format = kind(["a", "b"])
    assert format.decode(format.encode(make_tuple({"b": other, "a": one, "c": 1}))) == [one, other]
    whole = kind()
    assert whole.decode(whole.encode(make_tuple({"value": one}))) == [one]


@given(strategies.binary())
@pytest.mark.parametrize("format", FORMATS, ids=lambda format: f"{type(format).__name__} {len(format.fields)}")
def test_any_bytes_are_decoded_or_refused(format: Format, data: bytes) -> None:
    try:
        row = format.decode(data)
    except FormatError:
        return
    assert len(row) == len(format.fields)


def test_raw_and_text() -> None:
    assert Raw().decode(b"\xff") == [b"\xff"]
    assert Raw("x").encode(make_tuple({"x": "é"})) == "é".encode()
    assert Text().decode("é".encode()) == ["é"]


class Loud(Raw):
    def encode(self, tup: Tuple) -> bytes:
        return super().encode(tup).upper()


def test_many_tuples_are_encoded_as_each_is() -> None:
    tuples = [make_tuple({"data": value}) for value in (b"a", "é", b"\xff")]
    for format in (Raw(), Loud(), Text("data")):
        assert format.encode_many(tuples) == [format.encode(tup) for tup in tuples]
        assert format.encode_many(tuples[:1]) == [format.encode(tuples[0])]
        assert format.encode_many([]) == []
    with pytest.raises(FormatError, match=r"field 'data' is int, and Raw writes bytes or str"):
        Raw().encode_many([*tuples, make_tuple({"data": 1})])
    with pytest.raises(FormatError, match=r"'data'"):
        Raw().encode_many([*tuples, make_tuple({"other": b""})])


def test_protobuf_takes_chosen_fields() -> None:
    format = Protobuf(nimbus_pb2.TaskStats, ["task_id", "executed"])
    data = format.encode(make_tuple({"executed": 7, "task_id": 3}))
    assert nimbus_pb2.TaskStats.FromString(data) == nimbus_pb2.TaskStats(task_id=3, executed=7)
    assert format.decode(data) == [3, 7]


def test_repeated_fields_and_maps_of_protobuf_travel() -> None:
    format = Protobuf(nimbus_pb2.RebalanceRequest, ["name", "executors"])
    written = make_tuple({"name": "a", "executors": {"count": 2}})
    row = format.decode(format.encode(written))
    assert row == ["a", {"count": 2}] == [decode_value(encode_value(one)) for one in row]
    paths = Protobuf(FieldMask)
    row = paths.decode(paths.encode(make_tuple({"paths": ["a", "b"]})))
    assert row == [["a", "b"]] == [decode_value(encode_value(one)) for one in row]


def test_a_record_gives_fields_defaults_and_conversions() -> None:
    assert Json(Point).decode(b'{"x": 1, "z": 2}') == [1, 0]
    assert MsgPack(Point).decode(msgpack.packb({"y": 2, "x": 1})) == [1, 2]
    assert Json(Sale).decode(b'{"shop": "a", "amount": "1.50"}') == ["a", Decimal("1.50")]
    assert Json(Point).encode(make_tuple({"y": 2, "x": 1})) == b'{"x": 1, "y": 2}'
    assert (Json(Point).fields, Json(Point).outputs, Json(["x"]).outputs) == (["x", "y"], Point, ["x"])


def test_timestamps_of_messagepack_are_what_other_workers_get() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 600, UTC)
    for message in (msgpack.packb(msgpack.Timestamp.from_datetime(at)), MsgPack().encode(make_tuple({"value": at}))):
        row = MsgPack().decode(message)
        assert row == [at] == [decode_value(encode_value(one)) for one in row]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("half", [r'"a\ud83d"', r'"\uDe00"', r'[{"\ud83d": 1}]', r'{"a": ["\ude00\ud83d"]}'])
def test_json_that_holds_half_of_a_surrogate_pair_is_refused(half: str, encoding: str) -> None:
    with pytest.raises(FormatError, match=r"the message is not JSON: it holds half of a surrogate pair"):
        Json().decode(half.encode(encoding))


@pytest.mark.parametrize(
    "data",
    [
        b'"\xed\xa0\x80"',
        b'{"a": "\xed\xa0\x80"}',
        *('"\ud800"'.encode(one, "surrogatepass") for one in ("utf-16", "utf-32-le")),
    ],
)
def test_json_whose_bytes_hold_half_of_a_surrogate_pair_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"the message is not JSON: .*codec can't decode byte"):
        Json().decode(data)


@pytest.mark.parametrize("whole", [r'"\ud83d\ude00"', r'"\\ud83d"', r'"\n\u00e9"', '"\U0001f600"', r'"\ud7ff\ue000"'])
def test_json_with_whole_characters_is_decoded(whole: str) -> None:
    [text] = Json().decode(whole.encode())
    assert Json().encode(make_tuple({"value": text})).decode() == json.dumps(text, ensure_ascii=False)


def test_a_spout_has_the_outputs_of_its_format() -> None:
    assert BeanstalkSpout("127.0.0.1:11300", "points", Json(Point)).outputs is Point
    assert BeanstalkSpout("127.0.0.1:11300", "points", Json(["x"])).outputs == ["x"]


@pytest.mark.parametrize(
    ("format", "data", "sentence"),
    [
        (Json(Point), b'{"y": 1}', "the message is not a Point: it has no 'x'; it has 'y'"),
        (Json(Sale), b"{}", "the message is not a Sale: it has no 'shop', 'amount'; it has nothing"),
        (Json(Sale), b'{"shop": "a", "amount": "much"}', "the message is not a Sale: InvalidOperation: "),
        (Text(), b"\xff", "the message is not UTF-8"),
        (Json(), b"{", "the message is not JSON"),
        (Json(["a"]), b"[1]", "the message is a JSON list, not an object with fields"),
        (Json(["a", "b"]), b'{"c": 1}', "the message has no 'a', 'b'; it has 'c'"),
        (MsgPack(), b"\xc1", "the message is not MessagePack"),
        (MsgPack(), msgpack.packb(1) + b"1", "the message is not MessagePack"),
        (MsgPack(), b"\x91" * 1_500 + b"\1", "the message is not MessagePack: it is nested too deeply"),
        (MsgPack(), msgpack.packb(msgpack.Timestamp(1 << 60)), "the message is not MessagePack: "),
        (
            MsgPack(["a"]),
            msgpack.packb({"a": [msgpack.ExtType(5, b"x")]}),
            "the message has a value of extension type 5",
        ),
        (Protobuf(nimbus_pb2.TaskStats), b"\xff", "the message is not a TaskStats"),
    ],
)
def test_the_fault_of_a_message_is_named(format: Format, data: bytes, sentence: str) -> None:
    with pytest.raises(FormatError) as caught:
        format.decode(data)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("format", "values", "sentence"),
    [
        (Raw(), {"data": 1}, "field 'data' is int, and Raw writes bytes or str"),
        (Raw(), {"other": b""}, "'data'"),
        (Raw(), {"data": "half \ud83d"}, "field 'data' cannot be written in UTF-8: surrogates not allowed"),
        (Csv(["a", "b"]), {"a": "half \ud83d", "b": 1}, "the line cannot be written in UTF-8: surrogates not allowed"),
        (Json(), {"value": float("nan")}, "the tuple cannot be written as JSON"),
        (Json(["a"]), {"a": b"x"}, "the tuple cannot be written as JSON"),
        (Json(["a"]), {"b": 1}, "'a'"),
        (MsgPack(), {"value": object()}, "the tuple cannot be written as MessagePack"),
        (Protobuf(nimbus_pb2.TaskStats, ["task_id"]), {"task_id": "x"}, "the tuple cannot be written as TaskStats"),
        (Protobuf(NamePart, ["name_part"]), {"name_part": "x"}, "the tuple cannot be written as NamePart: "),
    ],
)
def test_the_fault_of_a_tuple_is_named(format: Format, values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FormatError) as caught:
        format.encode(make_tuple(values))
    assert sentence in str(caught.value)


def test_headers_are_one_field_more() -> None:
    format = WithHeaders(Json(["a"]), "from")
    assert (format.fields, format.outputs) == (["a", "from"], ["a", "from"])
    assert format.decode_delivery(b'{"a": 1}', {"trace": "7"}) == [1, {"trace": "7"}]
    assert format.decode(b'{"a": 1}') == [1, {}]
    assert format.encode(make_tuple({"a": 1, "from": {}})) == b'{"a": 1}'
    with pytest.raises(UsageError, match="WithHeaders: the format has a field 'headers' of its own"):
        WithHeaders(Json(["headers"]))


def test_a_class_that_is_no_record_is_refused() -> None:
    with pytest.raises(UsageError, match="Json: fields: <class 'int'> is neither"):
        Json(int)


def test_an_unknown_field_of_a_message_class_is_refused() -> None:
    with pytest.raises(UsageError, match="Protobuf: fields: TaskStats has no field 'tsk'; it has task_id"):
        Protobuf(nimbus_pb2.TaskStats, ["tsk"])


@pytest.mark.parametrize(("format", "given"), [("json", "'json'"), (Json, "the class Json")])
def test_a_format_that_is_none_is_refused(format: Any, given: str) -> None:
    with pytest.raises(UsageError, match=f"^WebhookSpout: format is {given}; an object such as Json"):
        WebhookSpout(8090, format)
