"""A batch arrives in another worker as it was sent, or is refused as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._wire.packed import pack_u64
from tupletree.attempt import TransactionAttempt
from tupletree.errors import ProtocolError, UnregisteredTypeError
from tupletree.tuples import Origin
from tupletree.worker.core.batches import (
    MULTI,
    UNANCHORED,
    EncodedBatch,
    Row,
    Rows,
    RowTrees,
    check,
    decode,
    encode,
    roots_of,
)

ORIGIN = Origin("split", 7, "words", ["word", "n"])

ids = st.integers(1, 2**64 - 1)
edges = st.integers(0, 2**64 - 1)
values = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2).map(tuple)
anchors = st.one_of(
    st.just((UNANCHORED, 0)),
    st.tuples(ids, edges),
    st.tuples(st.just(MULTI), st.lists(st.tuples(ids, edges), min_size=2, max_size=4).map(tuple)),
)
rows = st.lists(
    st.tuples(st.tuples(values, values).map(list), anchors).map(lambda pair: (pair[0], *pair[1])),
    min_size=1,
    max_size=5,
)


def over_the_wire(batch: EncodedBatch) -> EncodedBatch:
    return EncodedBatch.from_bytes(batch.to_bytes())


@given(rows)
def test_rows_survive_the_wire(sent: list[Row]) -> None:
    message = over_the_wire(encode(ORIGIN, 12, Rows.of(sent)))
    check(message)
    assert (message.source_task, message.stream, message.target_task, message.rows) == (7, "words", 12, len(sent))
    assert [tuple(row) for row in decode(message, ORIGIN)] == sent


attempts = st.builds(TransactionAttempt, st.integers(1, 3), st.integers(0, 1))


@given(st.lists(st.tuples(attempts, values).map(list), min_size=1, max_size=5))
def test_rows_of_transactions_survive_the_wire_whether_they_share_their_attempt_or_not(sent: list[list[Any]]) -> None:
    message = over_the_wire(encode(ORIGIN, 12, Rows.of([(row, UNANCHORED, 0) for row in sent])))
    assert bool(message.first) == (len({row[0] for row in sent}) == 1)
    arrived = [row for row, _, _ in decode(message, ORIGIN)]
    assert arrived == sent
    assert all(type(row[0]) is TransactionAttempt for row in arrived)


def test_an_attempt_that_rows_share_is_sent_once() -> None:
    attempt = TransactionAttempt(1, 1 << 32)
    one, many = (encode(ORIGIN, 12, Rows.of([([attempt, "w"], 0, 0)] * count)) for count in (1, 100))
    assert one.first == many.first
    assert len(many.values) < 5 * 100


def test_a_first_value_makes_up_for_one_that_the_rows_lack_and_no_more() -> None:
    whole = encode(ORIGIN, 12, Rows.of([(["a", 1], 0, 0)]))
    whole.first = b"\x01"
    with pytest.raises(ProtocolError):
        decode(whole, ORIGIN)
    lacking = encode(ORIGIN, 12, Rows.of([([TransactionAttempt(1, 1), 1], 0, 0)]))
    lacking.first = b"\xc1"
    with pytest.raises(ProtocolError):
        decode(lacking, ORIGIN)


@given(rows)
def test_roots_of_a_message_are_those_of_its_rows(sent: list[Row]) -> None:
    expected: set[int] = set()
    for _, root, edge in sent:
        expected |= {pair[0] for pair in edge} if root == MULTI else {root} if root else set()
    assert set(roots_of(encode(ORIGIN, 12, Rows.of(sent)))) == expected


def test_unanchored_rows_carry_no_ids() -> None:
    message = encode(ORIGIN, 12, Rows.of([(["a", 1], 0, 0), (["b", 2], 0, 0)]))
    assert (message.roots, message.edges, list(message.multi)) == (b"", b"", [])


def test_the_types_of_values_survive() -> None:
    [(received, _, _)] = decode(
        over_the_wire(encode(ORIGIN, 12, Rows.of([([(1, {"k": (2,)}), {3, 4}], 0, 0)]))), ORIGIN
    )
    assert received == [(1, {"k": (2,)}), {3, 4}]
    assert [type(value) for value in received] == [tuple, set]


def test_a_value_that_cannot_travel_is_refused_by_component_field_stream_and_type() -> None:
    class Odd:
        pass

    with pytest.raises(UnregisteredTypeError, match=r"'split'.*Odd in field 'n' of stream 'words', which"):
        encode(ORIGIN, 12, Rows.of([(["fine", 1], 0, 0), (["fine", Odd()], 0, 0)]))


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(("value", "why"), [("half \ud83d", "surrogates not allowed"), (nested(2000), "recursion")])
def test_a_value_that_cannot_be_encoded_is_refused_by_component_field_and_stream(value: Any, why: str) -> None:
    refusal = f"'split' emitted a value in field 'word' of stream 'words' that cannot.*{why}"
    with pytest.raises(UnregisteredTypeError, match=refusal):
        encode(ORIGIN, 12, Rows.of([([value, 1], 0, 0)]))


def message(**changes: Any) -> EncodedBatch:
    """A good message of two rows, one anchored and one of two trees, with something changed."""
    good = encode(ORIGIN, 12, Rows.of([(["a", 1], 5, 6), (["b", 2], MULTI, ((7, 8), (9, 10)))]))
    for field, value in changes.items():
        setattr(good, field, value)
    return over_the_wire(good)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 3},
        {"roots": pack_u64([5])},
        {"roots": pack_u64([5, 0, 0])},
        {"roots": b""},
        {"edges": b""},
        {"edges": pack_u64([5])},
        {"rows": 4_000_000_000, "values": b"\x90", "first": b"\x01", "roots": b"", "edges": b"", "multi": []},
        {"roots": b"12345"},
        {"roots": b"1234567", "edges": b"1234567"},
        {"multi": [RowTrees(row=2, roots=pack_u64([1]), edges=pack_u64([1]))]},
        {"multi": [RowTrees(row=1, roots=pack_u64([1, 2]), edges=pack_u64([1]))]},
        {"multi": [RowTrees(row=1, roots=b"123", edges=b"123")]},
    ],
)
def test_arrays_that_do_not_fit_are_refused_before_anything_is_taken(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        check(message(**changes))


@pytest.mark.parametrize(
    "values",
    [
        b"",
        b"\xc1",
        b"\x92\x92\xa1a\x01",  # ends early
        b"\x91\x92\xa1a\x01",  # one column
        b"\x92\x92\xa1a\x01\x91\xa1b",  # a column of one value
        b"\x92\x92\xa1a\x01\xa1b",  # a column that is no list
        b"\x92\x92\xa1a\x01\x92\xa1b\xd4\x7f\x00",  # an extension that nobody registered
        b"\x81\xa1a\x01",
    ],
)
def test_values_that_are_not_the_rows_announced_are_refused(values: bytes) -> None:
    broken = message(values=values)
    check(broken)
    with pytest.raises(ProtocolError):
        decode(broken, ORIGIN)
    assert sorted(roots_of(broken)) == [5, 7, 9]  # what to fail in its stead


@given(st.binary(max_size=64), st.data())
def test_noise_is_refused_or_decoded_and_never_anything_else(noise: bytes, data: st.DataObject) -> None:
    whole = message().to_bytes()
    at = data.draw(st.integers(0, len(whole)))
    try:
        received = EncodedBatch.from_bytes(whole[:at] + noise + whole[at + len(noise) :])
    except Exception:  # not even protobuf
        return
    try:
        check(received)
        decoded = decode(received, ORIGIN)
        assert len(decoded) == received.rows
        assert all(len(row) == 2 for row, _, _ in decoded)
    except ProtocolError:
        pass
