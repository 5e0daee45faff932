"""Numbers of partitions, and what the next batch of one is."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.spark.sources.kafka_positions import (
    UNKNOWN,
    Bounds,
    OutOfRangeError,
    Place,
    divide,
    is_empty,
    next_split,
    numbers,
    place_of,
    position,
)

PLACE = Place("words", 3)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_every_partition_has_one_number_of_those_that_are_asked_for(counts: list[int]) -> None:
    topics = [f"topic-{index}" for index in range(len(counts))]
    found = [place_of(number, topics) for number in range(numbers(topics, dict(zip(topics, counts, strict=True))))]
    wanted = {Place(topic, number) for topic, count in zip(topics, counts, strict=True) for number in range(count)}
    assert len(set(found)) == len(found)
    assert wanted <= set(found)


def test_growth_of_any_topic_adds_numbers_and_changes_none() -> None:
    topics = ["a", "b"]
    before = [place_of(number, topics) for number in range(numbers(topics, {"a": 2, "b": 1}))]
    assert before == [Place("a", 0), Place("b", 0), Place("a", 1)]
    after = [place_of(number, topics) for number in range(numbers(topics, {"a": 2, "b": 3}))]
    assert after[: len(before)] == before
    assert Place("b", 2) in after


@pytest.mark.parametrize(
    ("previous", "start", "begin"),
    [
        (None, "earliest", 5),
        (None, "latest", 20),
        (["words", 3, 7, 9], "latest", 9),
        (["words", 3, 1, 2], "earliest", 2),
        (["words", 3, UNKNOWN, UNKNOWN], "earliest", 20),
    ],
)
def test_a_batch_begins_where_the_one_before_ended(previous: Any, start: Any, begin: int) -> None:
    assert position(PLACE, previous, Bounds(5, 20), start) == begin


def test_a_batch_takes_up_to_the_limit_and_not_more_than_there_is() -> None:
    assert next_split(PLACE, 9, Bounds(5, 20), 6) == ["words", 3, 9, 15]
    assert next_split(PLACE, 15, Bounds(5, 20), 6) == ["words", 3, 15, 20]
    assert is_empty(next_split(PLACE, 20, Bounds(5, 20), 6))
    assert is_empty(next_split(PLACE, 30, Bounds(30, 20), 6))  # records were deleted between the two answers


def test_a_log_that_ends_before_what_was_read_of_it_is_another_one() -> None:
    with pytest.raises(
        OutOfRangeError, match=r"topic 'words', partition 3: the pipeline has read up to offset 1,000, but the log ends"
    ):
        position(PLACE, ["words", 3, 900, 1000], Bounds(0, 20), "earliest")


def test_a_batch_of_another_partition_is_not_gone_on_from() -> None:
    with pytest.raises(OutOfRangeError, match=r"the previous batch was of topic 'lines', partition 3; with other to"):
        position(PLACE, ["lines", 3, 0, 10], Bounds(0, 20), "earliest")


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 200)), max_size=5),
    st.integers(0, 20),
    st.integers(1, 50),
)
def test_divided_splits_have_the_same_offsets_once(sizes: list[tuple[int, int]], tasks: int, least: int) -> None:
    splits = [["words", number, start, start + size] for number, (start, size) in enumerate(sizes)]
    divided = divide(splits, tasks, least)
    for _, partition, start, end in splits:
        parts = [part for part in divided if part[1] == partition]
        assert parts[0][2] == start
        assert parts[-1][3] == end
        assert all(before[3] == after[2] for before, after in itertools.pairwise(parts))
        assert len(parts) == 1 or all(part[3] - part[2] >= least for part in parts)


def test_a_large_split_is_divided_for_the_tasks_and_a_small_one_is_not() -> None:
    assert divide([["words", 0, 0, 1000]], 4, 100) == [["words", 0, at, at + 250] for at in (0, 250, 500, 750)]
    assert divide([["words", 0, 0, 1000]], 4, 1000) == [["words", 0, 0, 1000]]
    assert divide([["words", 0, 0, 1500]], 4, 1000) == [["words", 0, 0, 1500]]
    assert len(divide([["words", 0, 0, 1000], ["words", 1, 0, 10]], 4, 100)) == 5
