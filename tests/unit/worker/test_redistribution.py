"""Division of states among other numbers of tasks, with a crash before and after each request to a store.

The spout, the division and the buffered states are the real ones, over stores in memory whose requests are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redistribution_scene import (
    ID,
    TXID,
    Provider,
    begin,
    begin_with_crashes,
    opened,
    owner,
    part_of,
    record,
    store_first,
    stored,
    world,
)

from tupletree import KeyedProcess, Spout, StatefulBolt
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord, stored_checkpoint
from tupletree._wire.codec import encode_value
from tupletree._wire.value_hash import hash_values
from tupletree.errors import AuthorityError
from tupletree.worker.checkpoint.redistribution import redistribute

KEYS = st.one_of(st.text(max_size=40), st.integers(), st.binary(max_size=5))


class Keyed(StatefulBolt):
    """Its keys are those of the grouping."""

    is_divisible = True


CASES = {
    "keys": st.dictionaries(KEYS, st.integers(), max_size=12),
    "before": st.integers(1, 4),
    "changes": st.lists(st.integers(1, 4), min_size=1, max_size=3),
    "phase": st.sampled_from(Phase),
    "split": st.integers(0, 4),
    "is_after": st.booleans(),
}


@given(**CASES)
def test_every_entry_is_at_its_task_wherever_the_moves_are_interrupted(
    keys: dict[Any, int], before: int, changes: list[int], phase: Phase, split: int, is_after: bool
) -> None:
    world.__init__()  # type: ignore[misc]
    entries: list[dict[Any, int]] = [{} for _ in range(before)]
    for key, value in keys.items():
        entries[owner(key, before)][key] = value
    store_first("count", entries, phase, split)
    record({"count": before}, phase)
    last = before
    for tasks in changes:
        if tasks == last:
            continue
        crashes = begin_with_crashes({"count": Keyed()}, {"count": tasks}, is_after)
        assert crashes > last + tasks
        found = stored("count", tasks)
        for key, value in keys.items():
            assert found[owner(key, tasks)].pop(key) == value
        assert not any(found), "an entry is at two tasks, or was never committed"
        last = tasks


def test_a_component_that_was_away_when_the_others_committed_moves_what_it_had_prepared() -> None:
    """The record says that the checkpoint is committed, and the component is part of the topology again."""
    world.__init__()  # type: ignore[misc]
    store_first("count", [{"a": 1}], Phase.COMMITTING)
    record({"count": 1}, Phase.COMMITTED)
    assert begin({"count": Keyed()}, {"count": 2}) == []
    assert {key: value for entries in stored("count", 2) for key, value in entries.items()} == {"a": 1}


def test_a_late_removal_takes_no_state_that_is_valid() -> None:
    """The states move there, back, and there again at one checkpoint, and whoever moved them first is late."""
    world.__init__()  # type: ignore[misc]
    entries = {word: number for number, word in enumerate("abcdefgh")}
    store_first(
        "count",
        [{word: one for word, one in entries.items() if owner(word, 2) == task} for task in range(2)],
        Phase.COMMITTED,
    )
    record({"count": 2}, Phase.COMMITTED)
    moved, removals = stored_checkpoint(world.store, ID), []
    for tasks in (6, 2, 6, 2, 6):
        moved, remove = redistribute(
            partial(part_of, {"count": Keyed()}, {"count": tasks}), ID, moved, {"count": tasks}
        )
        removals.append(remove)
    for remove in removals:
        remove()
    CheckpointRecord.take_over(world.store, ID, "topology words-0-1").save(moved)
    found = stored("count", 6)
    assert {word: one for task in found for word, one in task.items()} == entries
    assert len(world.states) == 6


def test_states_of_before_are_removed_and_their_writers_have_no_say() -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", [{}, {}], Phase.COMMITTED)
    record({"count": 2}, Phase.COMMITTED)
    late = Provider().new_state(f"{ID}/count/0", {}, None)  # type: ignore[arg-type]
    late.put("late", 1)
    assert begin({"count": StatefulBolt()}, {"count": 3}) == []
    assert sorted(world.states) == [f"{ID}/count@{TXID}.3/{index}" for index in range(3)]
    with pytest.raises(AuthorityError):
        late.prepare_commit(TXID + 1)


def test_one_state_is_open_at_a_time_as_a_process_may_open_few_files() -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", [{}] * 40, Phase.COMMITTED)
    record({"count": 40}, Phase.COMMITTED)
    assert begin({"count": StatefulBolt()}, {"count": 60}) == []
    assert (world.open, world.most_open, len(stored("count", 60))) == (0, 1, 60)


class Logs(Spout):
    def checkpoint_state(self) -> Any: ...

    def restore_state(self, state: Any) -> None: ...

    def merge_states(self, states: Sequence[Mapping[str, int]]) -> dict[str, int]:
        return {name: max(state.get(name, 0) for state in states) for state in states for name in state}


def test_positions_are_joined_and_each_task_has_all_of_them() -> None:
    world.__init__()  # type: ignore[misc]
    store_first("logs", [{"position": {"a": 1, "b": 5}}, {"position": {"b": 3, "c": 2}}, {}], Phase.COMMITTED)
    record({"logs": 3}, Phase.COMMITTED)
    assert begin_with_crashes({"logs": Logs()}, {"logs": 2}, is_after=True) > 5
    assert stored("logs", 2) == [{"position": {"a": 1, "b": 5, "c": 2}}] * 2


class Sessions(KeyedProcess):
    key = ("user", "shop")


def test_entries_of_a_keyed_process_follow_their_key_and_the_watermark_is_the_lowest() -> None:
    world.__init__()  # type: ignore[misc]
    users = [(f"user {number}", number % 3) for number in range(12)]

    def of(user: tuple[str, int], tasks: int) -> int:
        return hash_values([user[0]], "sessions", ["user"]) % tasks

    entries: list[dict[Any, Any]] = [
        {("$progress",): {"format": 1, "watermark": 50 - at, "newest": [["clicks", 0, 60 - at]], "has_timers": at == 1}}
        for at in range(2)
    ]
    for user in users:
        entries[of(user, 2)] |= {("$key", user): 1, ("$timers", user): [[5], [], None], ("$left", user, 3): [1]}
    store_first("sessions", entries, Phase.COMMITTED)
    record({"sessions": 2}, Phase.COMMITTED)
    assert begin({"sessions": Sessions()}, {"sessions": 3}, ["user"]) == []
    progress = {"format": 1, "watermark": 49, "newest": [["clicks", 0, 59]], "senders": [], "has_timers": True}
    for index, found in enumerate(stored("sessions", 3)):
        assert found.pop(("$progress",)) == progress
        own = [user for user in users if of(user, 3) == index]
        assert found.keys() == {one for user in own for one in (("$key", user), ("$timers", user), ("$left", user, 3))}


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ([{"total": 1}, {"total": 2}], "its state cannot be divided, as key 'total' is in the state of task "),
        (
            [{("a", "b"): 1}, {}],
            "as key ('a', 'b') is not a value for each field of the grouping by word; go back to 2",
        ),
    ],
)
def test_keys_that_the_grouping_does_not_send_are_refused_and_nothing_changes(
    entries: list[dict[Any, Any]], sentence: str
) -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", entries, Phase.COMMITTED)
    record({"count": 2}, Phase.COMMITTED)

    class Totals(StatefulBolt):
        def values_of_key(self, key: Any, fields: Sequence[str]) -> Any:
            return (key,) if isinstance(key, str) else key

    (error,) = begin({"count": Totals()}, {"count": 3})
    assert sentence in error
    assert begin({"count": Totals()}, {"count": 2}) == []
    assert [len(one) for one in stored("count", 2)] == [len(one) for one in entries]


class Raising(StatefulBolt):
    def values_of_key(self, key: Any, fields: Sequence[str]) -> Any:
        return {"one": ["one"], "number": 3, "shared": None}[key]


@pytest.mark.parametrize(
    ("component", "entries", "sentence"),
    [
        (Raising(), {"other": 1}, "key 'other' belongs to no task: values_of_key: KeyError: 'other'; go back to 1"),
        (Raising(), {"number": 1}, "key 'number' belongs to no task: values_of_key: TypeError: "),
        (Raising(), {"shared": 1}, "key 'shared' has no value for all tasks: merge_values: NotImplementedError: Rai"),
        (Logs(), {"position": 3}, "as its merge_states raises TypeError: 'int' object is not iterable; go back to 1"),
    ],
)
def test_methods_of_the_user_that_raise_refuse_the_change_and_end_no_worker(
    component: Any, entries: dict[Any, Any], sentence: str
) -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", [entries], Phase.COMMITTED)
    record({"count": 1}, Phase.COMMITTED)
    (error,) = begin({"count": component}, {"count": 3})
    assert sentence in error
    assert begin({"count": component}, {"count": 1}) == []


def test_a_late_checkpoint_spout_of_before_does_not_change_the_tasks_back() -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", [{}, {}], Phase.COMMITTED)
    record({"count": 2}, Phase.COMMITTED)
    late, reports = opened({"count": StatefulBolt()}, {"count": 2})
    late.next_tuple()
    changed, _ = opened({"count": StatefulBolt()}, {"count": 3}, first_task=20)
    changed.next_tuple()
    assert late._coordinator is not None and late._coordinator.step is not None
    late.fail((late._coordinator.step.round, 0))  # its step finds no task any more
    for now_s in range(1, 100):
        late._clock = partial(float, now_s)
        late.next_tuple()
    assert "has taken over: topology words-1-1, task 20, " in str(reports.errors[0])
    assert late.status()["state"] == "stands still"
    assert len(stored("count", 3)) == 3


def test_a_checkpoint_spout_of_before_that_begins_late_does_not_change_the_tasks_back() -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", [{}, {}], Phase.COMMITTED)
    record({"count": 2}, Phase.COMMITTED)
    late, reports = opened({"count": StatefulBolt()}, {"count": 2})
    opened({"count": StatefulBolt()}, {"count": 3}, first_task=20)[0].next_tuple()
    late.next_tuple()
    assert [str(error) for error in reports.errors] == [
        "the checkpoint spout of state id 'words' has other numbers of tasks now"
    ]
    assert late.status()["state"] == "stands still"
    assert len(stored("count", 3)) == 3


def test_a_state_that_lost_what_was_committed_is_not_divided() -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", [{"a": 1}, {}], Phase.COMMITTED)
    record({"count": 2}, Phase.COMMITTED)
    world.states.clear()
    (error,) = begin({"count": StatefulBolt()}, {"count": 3})
    assert error == f"state 'words/count/0' is empty, and the last checkpoint of the topology is {TXID}"
    assert stored_checkpoint(world.store, ID).tasks == {"count": 2}


def test_layouts_stay_in_the_record_and_an_earlier_form_is_read() -> None:
    world.__init__()  # type: ignore[misc]
    plain, with_layouts = (
        Checkpoint(3, Phase.COMMITTED, {"a": 2}, 9),
        Checkpoint(4, Phase.PREPARING, {"a": 2, "b": 1}, 9, {"a": 3}),
    )
    stored = CheckpointRecord.take_over(world.store, ID, "one")
    for checkpoint in (plain, with_layouts):
        stored.save(checkpoint)
        assert stored_checkpoint(world.store, ID) == checkpoint
    assert (
        encode_value([1, 4, "preparing", {"a": 2, "b": 1}, 9, {"a": 3}])
        == world.store.get("/$checkpoints/words/checkpoint").data
    )  # type: ignore[union-attr]
