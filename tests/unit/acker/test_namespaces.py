"""The configuration of namespaces, and their quotas."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.acker.namespaces import Namespace, Quota, parse_namespaces
from tupletree.acker.updates import Batch
from tupletree.errors import ConfigError


def batch(values: list[int]) -> Batch:
    roots = array("Q", range(1, len(values) + 1))
    return Batch(0, roots, array("Q", values), array("I", [1] * len(values)), array("Q", [9]), array("Q", [9]), (), ())


def test_quotas_have_defaults() -> None:
    assert parse_namespaces({"mail": None, "a.b-c_1": {"users": ["alice"], "timeout_s": 1.5, "max_open_trees": 7}}) == {
        "mail": Namespace("mail", 100_000, 100_000, 600.0),
        "a.b-c_1": Namespace("a.b-c_1", 7, 100_000, 1.5, frozenset({"alice"})),
    }


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"$x": None}, r"a namespace has a name of at most 100 letters, digits, .* not '\$x'"),
        ({"x" * 101: None}, r"a namespace has a name of at most 100 letters"),
        ({"mail": 7}, r"namespace 'mail' takes a mapping of quotas, such as \{max_open_trees: 1000\}"),
        ({"mail": {"max_trees": 7}}, r"namespace 'mail' has no quota 'max_trees'; there are max_open_trees, .*, users"),
        ({"mail": {"max_open_trees": 0}}, r"max_open_trees of namespace 'mail' takes a whole number above 0"),
        ({"mail": {"max_open_trees": True}}, r"max_open_trees of namespace 'mail' takes a whole number above 0"),
        ({"mail": {"max_updates_per_s": 1.5}}, r"max_updates_per_s of namespace 'mail' takes a whole number above 0"),
        ({"mail": {"timeout_s": 604_801}}, r"timeout_s of namespace 'mail' takes a number of seconds above 0 and up"),
        ({"mail": {"users": "alice"}}, r"users of namespace 'mail' are a list of names or null"),
    ],
)
def test_a_mistake_is_named_in_a_sentence(value: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"acker\.trees\.namespaces: " + sentence):
        parse_namespaces(value)


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 20), st.integers(0, 25))
def test_a_quota_admits_the_first_trees_that_stay_open(values: list[int], most: int, open_trees: int) -> None:
    quota = Quota(Namespace("mail", most, 1_000, 60))
    given_batch = batch(values)
    admitted, refused = quota.admitted(given_batch, open_trees)
    assert sorted([*admitted.init_roots, *refused]) == list(given_batch.init_roots)
    assert len(admitted.init_roots) == len(admitted.init_values) == len(admitted.init_tasks)
    staying = sum(value != 0 for value in admitted.init_values)
    assert staying <= max(0, most - open_trees)
    assert not refused or staying == max(0, most - open_trees)
    assert all(values[root - 1] != 0 for root in refused)
    assert list(admitted.ack_roots) == [9]
    assert quota.refused == len(refused)


def test_a_rate_is_kept_by_pauses_and_an_idle_namespace_saves_nothing_up() -> None:
    quota = Quota(Namespace("mail", 10, 100, 60))
    assert quota.pause_s(50, 10.0) == pytest.approx(0.5)
    assert quota.pause_s(50, 10.0) == pytest.approx(1.0)
    assert quota.pause_s(10, 11.0) == pytest.approx(0.1)
    assert quota.pause_s(10, 99.0) == pytest.approx(0.1)
