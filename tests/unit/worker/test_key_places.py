"""The task that a key of a state belongs to is the one that gets the tuples with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree import StatefulBolt
from tupletree._wire.value_hash import hash_values
from tupletree.errors import UsageError
from tupletree.worker.checkpoint.key_places import KeyPlaces

KEYS = st.one_of(st.text(max_size=40), st.binary(max_size=9), st.integers())


class ByUser(StatefulBolt):
    """Its keys are (user, item), and the grouping is by user; "total" is of the whole task."""

    def values_of_key(self, key, fields):
        if key == "total":
            return None
        return [key[0]]


class Raises(StatefulBolt):
    def values_of_key(self, key, fields):
        raise LookupError("no such key")


class Indivisible(StatefulBolt):
    is_divisible = False


def index_of(key, groupings, tasks=3, bolt=StatefulBolt):
    return KeyPlaces(bolt(), "count", groupings, tasks).index_of(key)


@given(KEYS, st.integers(2, 7))
def test_a_key_of_one_field_and_of_several(key, tasks):
    assert index_of(key, [["word"]], tasks) == hash_values([key], "count", ["word"]) % tasks
    assert index_of((key, 1), [["word", "n"]], tasks) == hash_values([key, 1], "count", ["word", "n"]) % tasks
    assert index_of((key, 1), [["user"]], tasks, ByUser) == hash_values([key], "count", ["user"]) % tasks
    assert index_of(key, [], 1) == index_of(key, [["word"]], 1, Raises) == 0


@pytest.mark.parametrize(
    ("key", "groupings", "bolt", "fault"),
    [
        ("a", [], StatefulBolt, "belongs to no fields grouping"),
        ("a", [["word"]], Indivisible, "is possibly none of the grouping's: Indivisible says so"),
        ("a", [["word"]], Raises, "belongs to no task: values_of_key: LookupError: no such key"),
        ("a", [["word", "n"]], StatefulBolt, "is not a value for each field of the grouping by word, n"),
        ("total", [["word"]], ByUser, "belongs to each task, as values_of_key says"),
    ],
)
def test_a_key_without_a_task_is_refused(key, groupings, bolt, fault):
    with pytest.raises(UsageError) as raised:
        index_of(key, groupings, bolt=bolt)
    assert str(raised.value) == (
        f"key '{key}' of component 'count' {fault}, and the component has 3 tasks: name the task that is to have it"
    )


def test_a_key_that_two_inputs_send_to_different_tasks_is_refused():
    class ByEither(StatefulBolt):
        def values_of_key(self, key, fields):
            return [key if fields[0] == "word" else f"{key}!"]

    with pytest.raises(UsageError, match=r"^key 'a' of component 'count' belongs to different tasks by the different"):
        index_of("a", [["word"], ["other"]], tasks=1000, bolt=ByEither)
