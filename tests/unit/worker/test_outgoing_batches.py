"""Rows for another worker leave in messages of bounded size; a row that is larger than allowed is left out alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupletree.errors import UnregisteredTypeError
from tupletree.tuples import Origin
from tupletree.worker.core.batches import BATCH_BYTES, MULTI, EncodedBatch, Row, Rows, bytes_of, decode, weigh
from tupletree.worker.core.output_streams import OutStream, join
from tupletree.worker.execution.outgoing_batches import RowsRefused, send_bounded

SOURCE = Origin("spout", 1, "default", ["number", "blob"])
LIMIT = 4 * BATCH_BYTES


def sent(rows: Rows, limit: int = LIMIT) -> list[EncodedBatch]:
    messages: list[EncodedBatch] = []
    send_bounded(SOURCE, 2, rows, limit, messages.append)
    return messages


def arrived(messages: list[EncodedBatch]) -> list[Row]:
    return [row for message in messages for row in decode(message, SOURCE)]


def rows_of(sizes: list[int]) -> list[Row]:
    return [([number, bytes(size)], number + 1, number + 1000) for number, size in enumerate(sizes)]


def test_a_batch_of_usual_size_is_one_message() -> None:
    rows = rows_of([100] * 1000)
    assert arrived(messages := sent(Rows.of(rows))) == rows
    assert len(messages) == 1


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from([0, 10, 100_000, 700_000, BATCH_BYTES + 1]), min_size=1, max_size=20), st.booleans())
def test_rows_arrive_in_order_in_messages_of_bounded_size(sizes: list[int], is_weighed: bool) -> None:
    rows = rows_of(sizes)
    batch = Rows.of(rows).slice(0, len(rows)) if is_weighed else Rows.of(rows)
    messages = sent(batch)
    assert arrived(messages) == rows
    assert all(bytes_of(message) <= BATCH_BYTES or message.rows == 1 for message in messages)


def test_rows_of_many_trees_are_parted_by_the_size_of_their_anchors() -> None:
    pairs = tuple((root, root + 1) for root in range(1, 20_001))
    rows: list[Row] = [([number, b""], MULTI, pairs) for number in range(10)]
    messages = sent(Rows.of(rows))
    assert arrived(messages) == rows
    assert len(messages) > 1
    assert all(bytes_of(message) <= BATCH_BYTES for message in messages)


def test_a_tuple_above_the_limit_fails_alone_and_the_error_names_what_is_large() -> None:
    rows = rows_of([10, 10, LIMIT + 1, 10])
    messages: list[EncodedBatch] = []
    with pytest.raises(RowsRefused) as caught:
        send_bounded(SOURCE, 2, Rows.of(rows), LIMIT, messages.append)
    assert arrived(messages) == [rows[0], rows[1], rows[3]]
    assert list(caught.value.roots) == [3]
    text = str(caught.value.error)
    for part in ("'spout'", "'default'", "'blob'", str(LIMIT + 1), f"topology.tuple.max.bytes ({LIMIT})", "raise"):
        assert part in text


def test_a_tuple_is_measured_as_it_is_encoded() -> None:
    nested: list[Any] = [[b"x" * 1000] * 1000 for _ in range(5)]
    with pytest.raises(RowsRefused, match="'blob'"):
        sent(Rows.of([([1, nested], 7, 8)]))
    assert arrived(sent(Rows.of([([1, nested[:3]], 7, 8)]))) == [([1, nested[:3]], 7, 8)]


def test_so_many_trees_that_no_message_holds_them_are_named_and_all_fail() -> None:
    pairs = tuple((root, root) for root in range(1, 100_001))
    with pytest.raises(RowsRefused, match="the list of its trees") as caught:
        sent(Rows.of([([1, b""], MULTI, pairs)]), limit=BATCH_BYTES)
    assert set(caught.value.roots) == set(range(1, 100_001))


@pytest.mark.parametrize(
    ("value", "least"),
    [
        (b"x" * 1000, 1000),
        ("x" * 1000, 1000),
        ([b"x" * 1000] * 10, 10_000),
        ({"key": b"x" * 1000}, 1000),
        ((["x" * 1000],), 1000),
        ({"x" * 1000}, 1000),
        (bytearray(1000), 1000),
        ([], 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_the_weight_of_rows_follows_their_values(value: Any, least: int) -> None:
    weight = weigh([[value] * 20], 20)
    assert 20 * least <= weight <= 20 * (2 * least + 200)


def test_a_value_whose_size_cannot_be_told_has_some_weight() -> None:
    class Odd:
        def __sizeof__(self) -> int:
            raise OSError("gone")

    assert weigh([[Odd()]], 1) > 0


def test_batches_of_large_rows_are_full_with_fewer_of_them_and_of_small_ones_with_more_again() -> None:
    stream = OutStream(SOURCE, False, 1000)
    port = stream.port_to(2, "here", False)
    join([stream])
    buffer = port.buffer

    def lengths(value: bytes, count: int) -> list[int]:
        for _ in range(count):
            port.append([1, value], 0, 0)
        assert len(buffer) == count
        return [len(rows) for rows in buffer.pop_all()]

    assert lengths(bytes(100_000), 50) == [50]  # nobody knew
    assert lengths(bytes(100_000), 50) == [10] * 5
    assert lengths(b"small", 2000) == [10, 1000, 990]


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = (value,)
    return value


@pytest.mark.parametrize("value", [nested(100), nested(10_000), "half \ud83d", {"\ud83d": 1}])
def test_a_value_that_cannot_be_encoded_fails_its_tuple_alone_and_the_error_names_the_field(value: Any) -> None:
    rows = rows_of([1, 2, 3])
    odd: Row = ([9, value], 99, 100)
    messages: list[EncodedBatch] = []
    with pytest.raises(RowsRefused, match=r"'spout'.*'blob'.*'default'.*the tuple fails") as caught:
        send_bounded(SOURCE, 2, Rows.of([rows[0], odd, *rows[1:], odd]), LIMIT, messages.append)
    assert arrived(messages) == rows
    assert list(caught.value.roots) == [99, 99]


def test_a_value_of_a_type_that_nobody_registered_is_a_mistake_in_the_component() -> None:
    with pytest.raises(UnregisteredTypeError) as caught:
        sent(Rows.of([([1, object()], 1, 2)]))
    assert type(caught.value) is UnregisteredTypeError
