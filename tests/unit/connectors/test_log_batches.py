"""The range of a partition's next batch, and the division of ranges."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.connectors.log_batches import (
    UNKNOWN,
    OutOfRangeError,
    divide,
    is_empty,
    lost,
    parts_of,
    position,
)

NAME = "words/3"


@pytest.mark.parametrize(
    ("previous", "begin"),
    [(["words/3", 7, 9], 9), (["words/3", 1, 2], 2), (["words/3", UNKNOWN, UNKNOWN], 20), (["words", 3, 7, 9], 9)],
)
def test_a_batch_begins_where_the_one_before_ended(previous: Any, begin: int) -> None:
    assert position(NAME, previous, 20) == begin


def test_ranges_in_the_form_of_earlier_pipelines_are_understood() -> None:
    assert parts_of(["words", 3, 7, 9]) == parts_of(["words/3", 7, 9]) == ("words/3", 7, 9)
    assert divide([["words", 3, 7, 9]], 1, 1) == [["words/3", 7, 9]]
    assert is_empty(["words", 3, 9, 9])


def test_a_log_that_ends_before_what_was_read_of_it_is_another_one() -> None:
    with pytest.raises(OutOfRangeError, match=r"partition 'words/3': the topology has read up to position 1,000, but"):
        position(NAME, ["words/3", 900, 1000], 20)


def test_a_batch_of_another_partition_is_not_gone_on_from() -> None:
    with pytest.raises(OutOfRangeError, match=r"the previous batch was of partition 'lines/3'; with other partitions"):
        position(NAME, ["lines/3", 0, 10], 20)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 200)), max_size=5),
    st.integers(0, 20),
    st.integers(1, 50),
)
def test_divided_ranges_have_the_same_positions_once(sizes: list[tuple[int, int]], tasks: int, least: int) -> None:
    ranges = [[f"words/{number}", start, start + size] for number, (start, size) in enumerate(sizes)]
    divided = divide(ranges, tasks, least)
    for name, start, end in ranges:
        parts = [part for part in divided if part[0] == name]
        assert parts[0][1] == start
        assert parts[-1][2] == end
        assert all(before[2] == after[1] for before, after in itertools.pairwise(parts))
        assert len(parts) == 1 or all(part[2] - part[1] >= least for part in parts)


def test_deleted_positions_are_named() -> None:
    assert lost(2, 5).startswith("positions 2 to 4 were deleted")


def test_a_large_range_is_divided_for_the_tasks_and_a_small_one_is_not() -> None:
    assert divide([["words/0", 0, 1000]], 4, 100) == [["words/0", at, at + 250] for at in (0, 250, 500, 750)]
    assert divide([["words/0", 0, 1000]], 4, 1000) == [["words/0", 0, 1000]]
    assert divide([["words/0", 0, 1500]], 4, 1000) == [["words/0", 0, 1500]]
    assert len(divide([["words/0", 0, 1000], ["words/1", 0, 10]], 4, 100)) == 5
