"""The only task of a key, as a client of states finds it: the task that the tuples with the key are sent to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree import StatefulBolt
from tupletree._checkpoints.places import owner_of
from tupletree._wire.codec import encode_value
from tupletree.keyed import KeyedProcess
from tupletree.worker.checkpoint.key_places import KeyPlaces, plain_key_fields

PLAIN = st.one_of(st.text(max_size=40), st.binary(max_size=9), st.integers(-(2**63), 2**64 - 1), st.booleans())


class Count(StatefulBolt):
    is_divisible = True


class Mine(Count):
    def values_of_key(self, key: Any, fields: Sequence[str]) -> Sequence[Any] | None:
        return [key[:1]]


class Visits(KeyedProcess):
    key = "user"
    ttl = dt.timedelta(hours=1)

    def on_tuple(self, tup: Any, state: Any, timers: Any) -> None: ...


@given(PLAIN, PLAIN, st.integers(1, 7))
def test_it_is_the_task_of_the_grouping(key: Any, other: Any, tasks: int) -> None:
    one, two = ["word"], ["word", "n"]
    assert owner_of(encode_value(key), tasks, 1) == KeyPlaces(Count(), "c", [one], tasks).index_of(key)
    assert owner_of(encode_value(key), tasks, 1) == KeyPlaces(Visits(), "c", [["user"]], tasks).index_of(key)
    both = key, other
    assert owner_of(encode_value(both), tasks, 2) == KeyPlaces(Count(), "c", [two], tasks).index_of(both)


@given(PLAIN, st.integers(2, 7))
def test_other_keys_have_none(key: Any, tasks: int) -> None:
    assert owner_of(encode_value(key), tasks, 0) is None
    assert owner_of(encode_value(key), tasks, 2) is None
    assert owner_of(encode_value((key,)), tasks, 1) is None
    assert owner_of(encode_value(("$key", (key, 1))), tasks, 1) is None
    assert owner_of(encode_value((key, 1, 2)), tasks, 2) is None


@pytest.mark.parametrize(
    ("bolt", "groupings", "fields"),
    [
        (Count(), [["word"]], 1),
        (Count(), [["word"], ["name"]], 1),
        (Count(), [["word", "n"]], 2),
        (Count(), [["word"], ["word", "n"]], 0),
        (Count(), [], 0),
        (StatefulBolt(), [["word"]], 0),
        (Mine(), [["word"]], 0),
        (Visits(), [["user"]], 1),
        (Visits(), [["user", "day"]], 0),
    ],
)
def test_a_class_says_that_its_keys_are_those_of_the_grouping(
    bolt: StatefulBolt, groupings: list[list[str]], fields: int
) -> None:
    assert plain_key_fields(bolt, groupings) == fields
