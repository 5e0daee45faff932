"""Answers to questions about states: bounds, positions, and the plain form of keys and values."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import math
import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tupletree
from tupletree._checkpoints.places import indexes_of, namespace_of
from tupletree._wire import codec
from tupletree._wire.codec import encode_value
from tupletree._wire.plain_form import key_of, plain_form, shown_form
from tupletree.attempt import TransactionAttempt
from tupletree.client.results.state import UnknownValue, answer_of
from tupletree.client.states import _parts
from tupletree.errors import ProtocolError, UnavailableError, UsageError
from tupletree.nimbus.state_queries import workers_of
from tupletree.nimbus.web import states
from tupletree.nimbus.web.requests import ApiCall
from tupletree.state.answers import (
    MAX_REPLY_BYTES,
    Budget,
    TaskAnswer,
    check_keys,
    check_limit,
    decode_key,
    encode_key,
    fault_of,
    fitting,
    message_of,
    parse_position,
    position,
    read_keys,
    read_page,
)
from tupletree.state.reader import MappingReader
from tupletree.v1 import nimbus_pb2, worker_pb2
from tupletree.v1 import topology_pb2 as pb

KEYS = st.recursive(
    st.text() | st.binary() | st.integers(), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6
)


@tupletree.value
@dataclass(frozen=True)
class Fruit:
    name: str
    parts: tuple[int, ...]


@tupletree.value
class Colour(enum.Enum):
    RED = 1


class Grape:
    """Registered below."""


DECODED = []


def decode_grape(data: bytes) -> Grape:
    DECODED.append(data)
    return Grape()


tupletree.register_type(Grape, 117, lambda value: b"grape", decode_grape)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (None, None),
        (True, True),
        (1 << 80, 1 << 80),
        pytest.param(1 << 20_000, {"$int": hex(1 << 20_000)}, id="long"),
        (1.5, 1.5),
        (math.inf, {"$float": "inf"}),
        ("text", "text"),
        (b"\0\1", {"$bytes": "AAE="}),
        ([1, (2, b"")], [1, {"$tuple": [2, {"$bytes": ""}]}]),
        ({"a": {1}}, {"a": {"$set": [1]}}),
        (frozenset({"a"}), {"$frozenset": ["a"]}),
        ({1: 2, ("a",): 3}, {"$dict": [[1, 2], [{"$tuple": ["a"]}, 3]]}),
        ({"$bytes": "x"}, {"$dict": [["$bytes", "x"]]}),
        (dt.datetime(2026, 1, 2, 3, 4), {"$datetime": "2026-01-02T03:04:00"}),
        (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), {"$datetime": "2026-01-02T00:00:00+00:00"}),
        (dt.date(2026, 1, 2), {"$date": "2026-01-02"}),
        (dt.time(3, 4), {"$time": "03:04:00"}),
        (dt.timedelta(seconds=1.5), {"$timedelta": 1.5}),
        (decimal.Decimal("1.20"), {"$decimal": "1.20"}),
        (uuid.UUID(int=1), {"$uuid": "00000000-0000-0000-0000-000000000001"}),
        (TransactionAttempt(3, 4), {"$attempt": [3, 4]}),
        (Fruit("fig", (1, 2)), {"$value": f"{__name__}.Fruit", "fields": ["fig", {"$tuple": [1, 2]}]}),
        (Colour.RED, {"$value": f"{__name__}.Colour", "fields": ["RED"]}),
        ([Grape()], None),
    ],
)
def test_the_plain_form_of_every_type_is_json(value: Any, form: Any) -> None:
    if type(value) is list and type(value[0]) is Grape:
        form = [{"$registered": 117, "bytes": "Z3JhcGU="}]
    found = plain_form(encode_value(value))
    assert found == form
    json.dumps(found, allow_nan=False)


def test_the_plain_form_builds_no_object_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode_value([Fruit("fig", ()), Grape()])
    monkeypatch.setattr("tupletree._wire.value_types._by_name", {})
    monkeypatch.setattr(codec, "_decoders", {})
    [fruit, grape] = plain_form(encoded)
    assert (fruit["fields"], grape["$registered"]) == (["fig", {"$tuple": []}], 117)
    [entry] = answer_of([pb.TaskState(entries=[pb.StateEntry(key=b"\xa1a", value=encoded, size=9)])]).entries
    assert (entry.key, entry.value) == ("a", UnknownValue([fruit, grape]))


def test_bytes_that_are_no_value_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    for data in (b"", b"\xc1", b"\x92\x01", b"\xc7\x01\x0b\xc0", encode_value("x")[:-1], encode_value(deep) * 2):
        with pytest.raises(ProtocolError):
            plain_form(data)
        assert set(shown_form(data)) == {"$unreadable"}


@given(KEYS)
def test_a_key_is_the_same_after_its_way_through_json(key: Any) -> None:
    form = plain_form(encode_key(key))
    assert key_of(json.loads(json.dumps(form))) == key or "$int" in json.dumps(form)
    assert decode_key(encode_key(key)) == key


@pytest.mark.parametrize("form", [None, True, 1.5, {}, {"$bytes": "?"}, {"$tuple": 1}, {"a": 1}, [[None]]])
def test_what_is_no_key_is_refused(form: Any) -> None:
    with pytest.raises(UsageError):
        encode_key(key_of(form))


def test_what_is_no_encoded_key_is_refused() -> None:
    for data in (b"", b"\xc1", *map(encode_value, (1.5, True, {}, Fruit("fig", ()), Grape(), ("a", Grape())))):
        with pytest.raises(UsageError):
            decode_key(data)
    assert DECODED == []  # no code of a user ran
    for keys in ([], [b"a"] * 101, [b"x" * 65_537]):
        with pytest.raises(UsageError):
            check_keys(keys)
    for limit in (0, -1, 1001):
        with pytest.raises(UsageError):
            check_limit(limit)


@given(st.integers(0, 10**9 - 1), st.binary(max_size=100))
def test_a_position_is_found_again(index: int, after: bytes) -> None:
    assert parse_position(position(index, after)) == (index, after)


@pytest.mark.parametrize(
    "text",
    ["1", "x.y", "1.a", "1.=", "-1.", "1.a b", "1111111111.", "1.\n", pytest.param("0." + "A" * 200_000, id="A")],
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no position in a state"):
        parse_position(text)


def reader_of(values: dict[Any, Any], txid: int = 7) -> MappingReader:
    return MappingReader(txid, {encode_value(key): encode_value(value) for key, value in values.items()})


@given(
    st.dictionaries(st.text(max_size=3), st.binary(max_size=400), max_size=20), st.integers(1, 9), st.integers(1, 900)
)
def test_pages_of_any_size_hold_everything_once(values: dict[str, bytes], limit: int, most: int) -> None:
    reader, after, found = reader_of(values), b"", {}
    while True:
        budget = Budget(most)
        answer = read_page(0, reader, after, limit, budget)
        assert (answer.committed, len(answer.entries) <= limit) == (7, True)
        longest = max((len(one.key) for one in answer.entries), default=0)  # a page has an entry, at least its key
        assert sum(len(one.key) + len(one.value or b"") for one in answer.entries) <= max(most, longest)
        assert not {one.key for one in answer.entries} & found.keys()
        found.update({one.key: one for one in answer.entries})
        if not answer.has_more or not answer.entries:
            break
        after = answer.entries[-1].key
    assert found.keys() == {encode_value(key) for key in values}
    for one in found.values():
        value = encode_value(values[decode_key(one.key)])
        assert one.size == len(value)
        assert one.value == value or (one.value is None and len(one.key) + len(value) > most)


class Committing(MappingReader):
    """A commit falls into every read but the last of ``times``."""

    def __init__(self, times: int) -> None:
        super().__init__(1, {})
        self.times = times
        self.reads = 0

    @property
    def committed(self) -> int:
        return min(self.reads, self.times)

    def get(self, key: bytes) -> bytes:
        self.reads += 1
        return encode_value(self.reads)


def test_values_are_read_again_if_a_commit_fell_into_the_read() -> None:
    for times, expected in ((0, (0, 1)), (1, (1, 2)), (2, (2, 3)), (9, (3, 3))):
        answer = read_keys(0, Committing(times), [b"a"], Budget())
        assert (answer.committed, decode_value_of(answer)) == expected


def decode_value_of(answer: TaskAnswer) -> Any:
    value = answer.entries[0].value
    assert value is not None
    return codec.decode_value(value)


def test_missing_keys_are_left_out_and_large_values_named_by_size() -> None:
    reader = reader_of({"a": b"x" * 600, "b": b"x" * 600, "c": 1})
    answer = read_keys(2, reader, [encode_value(key) for key in ("a", "b", "c", "d")], Budget(1000))
    assert [(one.value is None, one.size) for one in answer.entries] == [(False, 603), (True, 603), (False, 1)]
    message = message_of(answer)
    assert (message.index, message.committed, [one.size for one in message.entries]) == (2, 7, [603, 603, 1])
    assert not message_of(TaskAnswer(0, None)).HasField("committed")


def test_answers_of_many_workers_are_bounded_together() -> None:
    tasks = [
        pb.TaskState(index=index, entries=[pb.StateEntry(key=b"k", value=b"x" * 400_000, size=400_000)])
        for index in range(4)
    ]
    kept = [bool(task.entries[0].value) for task in fitting(tasks)]
    assert kept == [True, True, False, False]


NOT_IN_ORDER = "has more entries than were asked for, or not in the order of their keys"


@pytest.mark.parametrize(
    ("asked", "entries", "fault"),
    [
        ({"keys": [b"a", b"b"]}, [], ""),
        ({"keys": [b"a", b"b"]}, [b"b", b"a"], ""),
        ({"keys": [b"a", b"b"]}, [b"c"], "has keys that were not asked for, or one twice"),
        ({"keys": [b"a", b"b"]}, [b"a", b"a"], "has keys that were not asked for, or one twice"),
        ({"limit": 2}, [b"a", b"b"], ""),
        ({"limit": 2}, [b"a", b"b", b"c"], NOT_IN_ORDER),
        ({"limit": 2}, [b"b", b"a"], NOT_IN_ORDER),
        (
            {"limit": 2, "after": b"b"},
            [b"b"],
            NOT_IN_ORDER,
        ),
        ({"limit": 2, "indexes": [1]}, [], "is not of the tasks that were asked"),
        ({"limit": 2, "indexes": [0, 1]}, [], "is not of the tasks that were asked"),
    ],
)
def test_an_answer_of_a_worker_is_checked(asked: dict[str, Any], entries: list[bytes], fault: str) -> None:
    request = worker_pb2.ReadTaskStatesRequest(**{"indexes": [0], **asked})
    task = pb.TaskState(entries=[pb.StateEntry(key=key, value=b"\1", size=1) for key in entries])
    assert fault_of([task], request) == fault


def test_an_answer_of_a_worker_has_bounded_bytes() -> None:
    request = worker_pb2.ReadTaskStatesRequest(indexes=[0], limit=5)
    task = pb.TaskState(entries=[pb.StateEntry(key=b"k", value=bytes(MAX_REPLY_BYTES))])
    assert fault_of([task], request).startswith("has 16,000,001 bytes of keys")


def test_many_keys_are_several_questions() -> None:
    assert [len(part) for part in _parts([*range(250), 5, 5])] == [100, 100, 50]
    assert [len(part) for part in _parts([b"x" * 40_000, b"a", b"y" * 40_000, b"z" * 65_000])] == [2, 1, 1]
    for part in _parts(["k" * number for number in range(1000)]):
        check_keys(part)
    with pytest.raises(UsageError, match="get needs a key or more"):
        _parts([])


def test_tasks_are_asked_at_the_address_of_their_worker() -> None:
    record = pb.TopologyRecord(name="words", tasks={"count": 4, "lines": 1})
    assignment = pb.Assignment(
        workers=[
            pb.WorkerAssignment(host="a", port=6700, executors=[pb.ExecutorRange(first_task=1, last_task=2)]),
            pb.WorkerAssignment(host="::1", port=6701, executors=[pb.ExecutorRange(first_task=4, last_task=5)]),
        ]
    )
    assert workers_of(assignment, record, "count", [0, 1, 3]) == {"a:6700": [0, 1], "[::1]:6701": [3]}
    with pytest.raises(UnavailableError, match="task 2 of component 'count' has no worker"):
        workers_of(assignment, record, "count", range(4))


def test_every_task_is_asked_for_a_key() -> None:
    assert list(indexes_of([b"a"], 3)) == [0, 1, 2]
    assert namespace_of("words", "count", 2, 3, 0) == "words/count/2"
    assert namespace_of("words", "count", 2, 6, 17) == "words/count@17.6/2"


def test_a_request_over_http_is_a_question() -> None:
    def asked(**query: str) -> nimbus_pb2.ReadStateRequest:
        return states.question(ApiCall(path={"component": "count"}, query=query))

    assert list(asked(key="5").keys) == [encode_value("5")]
    assert list(asked(keys='[5, ["a"]]', live="true").keys) == [encode_value(5), encode_value(("a",))]
    assert (asked().limit, asked(limit="7", after="1.").limit, asked(live="yes").is_live) == (100, 7, True)
    for keys in ("1", "[]", "[" * 100_000, "[1.5]", "{"):
        with pytest.raises(UsageError):
            asked(keys=keys)
    for query in ({"key": "a", "keys": "[1]"}, {"limit": "1001"}):
        with pytest.raises(UsageError):
            asked(**query)
