"""What every state does, whoever provides it: checkpoints, and only one writer. test_state_values.py has the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from state_places import KEYS, NAMESPACE, State, StatePlace, checkpoint

from tupletree._wire.codec import encode_value
from tupletree.errors import AuthorityError, ConflictError, TupletreeError
from tupletree.state import ZooKeeperStateProvider

Opens = Callable[..., State]


def test_a_new_state_is_empty_and_has_no_checkpoint(state: State) -> None:
    assert state.get("word") is None
    assert state.get("word", 3) == 3
    assert list(state.items()) == []
    assert (state.committed, state.prepared) == (None, None)


def test_a_change_is_seen_at_once_by_the_one_who_made_it(state: State) -> None:
    state.put("word", 1)
    assert state.get("word") == 1
    state.put("word", None)
    assert state.get("word", 3) is None
    assert list(state.items()) == [("word", None)]
    state.delete("word")
    state.delete("other")
    assert state.get("word", 3) == 3
    assert list(state.items()) == []


def test_what_is_committed_is_found_by_the_next_to_open_it(opened: Opens) -> None:
    state = opened()
    for number, key in enumerate(KEYS):
        state.put(key, number)
    checkpoint(state, 1)
    again = opened()
    assert (again.committed, again.prepared) == (1, None)
    assert dict(again.items()) == {key: number for number, key in enumerate(KEYS)}
    assert [again.get(key) for key in KEYS] == list(range(len(KEYS)))


def test_what_is_not_committed_is_not_found_by_the_next_to_open_it(opened: Opens) -> None:
    state = opened()
    state.put("word", 1)
    checkpoint(state, 1)
    state.put("word", 2)
    state.put("other", 2)
    state.prepare_commit(2)
    state.put("word", 3)
    again = opened()
    assert dict(again.items()) == {"word": 1}
    assert (again.get("word"), again.get("other")) == (1, None)


def test_reads_see_what_is_prepared_and_what_came_after_it(state: State) -> None:
    for key in ("kept", "changed", "deleted", "deleted later"):
        state.put(key, 1)
    checkpoint(state, 1)
    state.put("changed", 2)
    state.put("new", 2)
    state.delete("deleted")
    state.prepare_commit(2)
    state.put("changed", 3)
    state.put("newer", 3)
    state.delete("deleted later")
    expected = {"kept": 1, "changed": 3, "new": 2, "newer": 3}
    assert dict(state.items()) == expected
    state.commit(2)
    assert dict(state.items()) == expected
    assert {key: state.get(key) for key in (*expected, "deleted", "deleted later")} == {
        **expected,
        "deleted": None,
        "deleted later": None,
    }


def test_what_comes_between_prepare_and_commit_belongs_to_the_next_checkpoint(opened: Opens) -> None:
    state = opened()
    state.put("word", 1)
    state.put("other", 1)
    state.prepare_commit(1)
    state.put("word", 2)
    state.delete("other")
    state.commit(1)
    again = opened()
    assert dict(again.items()) == {"word": 1, "other": 1}
    state = opened()
    state.put("word", 1)
    state.prepare_commit(2)
    state.put("word", 2)
    state.commit(2)
    checkpoint(state, 3)
    assert dict(opened().items()) == {"word": 2, "other": 1}


def test_a_checkpoint_without_changes_is_recorded(opened: Opens) -> None:
    state = opened()
    state.put("word", 1)
    checkpoint(state, 1)
    checkpoint(state, 2)
    assert opened().committed == 2
    state = opened()
    state.prepare_commit(5)
    again = opened()
    assert (again.committed, again.prepared) == (2, 5)
    again.commit(5)
    assert (again.committed, again.prepared, again.get("word")) == (5, None, 1)


def test_rollback_discards_what_is_prepared_and_what_is_live(opened: Opens) -> None:
    state = opened()
    state.put("word", 1)
    state.put("deleted", 1)
    checkpoint(state, 1)
    state.put("word", 2)
    state.put("new", 2)
    state.delete("deleted")
    state.prepare_commit(2)
    state.put("word", 3)
    state.rollback()
    assert (state.committed, state.prepared) == (1, None)
    assert dict(state.items()) == {"word": 1, "deleted": 1}
    assert (state.get("word"), state.get("new")) == (1, None)
    state.prepare_commit(2)
    state.rollback()
    state.rollback()
    again = opened()
    assert (again.committed, again.prepared) == (1, None)
    assert dict(again.items()) == {"word": 1, "deleted": 1}


def words(state: State) -> Any:
    """The value of that key."""
    return state.get("words")


def test_rollback_takes_back_what_was_changed_in_place(state: State) -> None:
    state.put("words", ["a"])
    checkpoint(state, 1)
    words(state).append("b")
    assert state.get("words") == ["a", "b"]
    state.rollback()
    assert state.get("words") == ["a"]
    words(state).append("c")
    state.put("words", state.get("words"))
    state.prepare_commit(2)
    words(state).append("d")
    state.rollback()
    assert dict(state.items()) == {"words": ["a"]}


def test_a_rolled_back_checkpoint_may_be_prepared_again_with_other_changes(opened: Opens) -> None:
    state = opened()
    state.put("a", 1)
    state.prepare_commit(1)
    state.rollback()
    state.put("b", 1)
    checkpoint(state, 1)
    assert dict(opened().items()) == {"b": 1}


def test_what_an_earlier_writer_prepared_can_be_committed(opened: Opens) -> None:
    first = opened()
    first.put("word", 1)
    first.put("deleted", 1)
    checkpoint(first, 1)
    first.put("word", 2)
    first.put("new", 2)
    first.delete("deleted")
    first.prepare_commit(2)
    second = opened()
    assert (second.committed, second.prepared) == (1, 2)
    assert (second.get("word"), second.get("new"), second.get("deleted")) == (1, None, 1)
    second.put("live", 3)
    second.commit(2)
    assert (second.committed, second.prepared) == (2, None)
    assert (second.get("word"), second.get("new"), second.get("deleted")) == (2, 2, None)
    assert dict(second.items()) == {"word": 2, "new": 2, "live": 3}
    checkpoint(second, 3)
    assert dict(opened().items()) == {"word": 2, "new": 2, "live": 3}


def test_what_an_earlier_writer_prepared_can_be_rolled_back(opened: Opens) -> None:
    first = opened()
    first.put("word", 1)
    checkpoint(first, 1)
    first.put("word", 2)
    first.prepare_commit(2)
    second = opened()
    second.rollback()
    assert (second.committed, second.prepared, second.get("word")) == (1, None, 1)
    checkpoint(second, 2)
    assert dict(opened().items()) == {"word": 1}


def test_committing_what_is_committed_changes_nothing(opened: Opens) -> None:
    state = opened()
    state.put("word", 1)
    checkpoint(state, 1)
    state.commit(1)
    state.put("word", 2)
    state.commit(1)
    assert dict(opened().items()) == {"word": 1}
    again = opened()
    again.commit(1)
    assert dict(again.items()) == {"word": 1}


def test_a_checkpoint_must_be_above_what_is_committed(opened: Opens) -> None:
    state = opened()
    checkpoint(state, 5)
    for txid in (4, 5):
        with pytest.raises(ConflictError, match=f"checkpoint {txid} cannot be prepared, as 5 is committed"):
            state.prepare_commit(txid)
        with pytest.raises(ConflictError):
            opened().prepare_commit(txid)
    state = opened()
    checkpoint(state, 7)  # there may be gaps


def test_nothing_is_prepared_beside_what_is_prepared(opened: Opens) -> None:
    state = opened()
    state.put("word", 1)
    state.prepare_commit(1)
    for again in (state, opened()):
        for txid in (1, 2):
            with pytest.raises(ConflictError, match=f"checkpoint {txid} cannot be prepared, as 1 is prepared"):
                again.prepare_commit(txid)
    again.commit(1)
    assert dict(opened().items()) == {"word": 1}


def test_only_what_is_prepared_can_be_committed(state: State, place: StatePlace) -> None:
    if place.provider.is_durable:
        with pytest.raises(ConflictError, match="checkpoint 1 cannot be committed, as nothing is prepared"):
            state.commit(1)
    else:
        state.commit(1)  # what was prepared may have been lost
        assert state.committed is None
    state.put("word", 1)
    checkpoint(state, 1)
    state.put("word", 2)
    state.prepare_commit(3)
    for txid in (2, 4):
        with pytest.raises(ConflictError, match=f"checkpoint {txid} cannot be committed, as 3 is prepared"):
            state.commit(txid)
    state.commit(1)  # is committed
    state.commit(3)
    assert state.committed == 3


def test_whoever_was_the_writer_before_can_write_no_more(opened: Opens) -> None:
    first = opened()
    first.put("word", 1)
    checkpoint(first, 1)
    first.put("word", 2)
    second = opened()
    steps: list[Callable[[], None]] = [lambda: first.prepare_commit(2), first.rollback]
    for step in steps:
        with pytest.raises(AuthorityError, match="state 'words/count/0' was opened again since"):
            step()
    second.put("word", 3)
    checkpoint(second, 2)
    assert dict(opened().items()) == {"word": 3}


def test_whoever_was_the_writer_before_cannot_commit_what_it_prepared(opened: Opens) -> None:
    first = opened()
    first.put("word", 1)
    first.prepare_commit(1)
    second = opened()
    with pytest.raises(AuthorityError, match="was opened again since"):
        first.commit(1)
    assert second.get("word") is None
    second.rollback()
    with pytest.raises(AuthorityError, match="was opened again since"):
        first.commit(1)
    assert list(opened().items()) == []


def test_a_backend_that_is_to_prepare_again_replaces_what_it_had_prepared(opened: Opens) -> None:
    """As after a failure of which nobody knows what came of it."""
    state: Any = opened()
    state._backend.prepare(1, {encode_value("first"): encode_value(1), encode_value("both"): encode_value(1)})
    state._backend.prepare(2, {encode_value("second"): encode_value(2), encode_value("both"): encode_value(2)})
    again = opened()
    assert (again.committed, again.prepared) == (None, 2)
    again.commit(2)
    assert dict(opened().items()) == {"second": 2, "both": 2}


@pytest.mark.parametrize(
    "place", ["memory", "sqlite", "rocksdb", "objects", "postgres", "redis", "zookeeper"], indirect=True
)
def test_a_state_that_was_removed_is_a_new_one_and_its_writer_has_no_say(place: StatePlace, opened: Opens) -> None:
    first = opened()
    for number in range(5_000 if not isinstance(place.provider, ZooKeeperStateProvider) else 50):
        first.put(f"word {number}", "x" * 500)
    checkpoint(first, 1)
    first.put("word", 2)
    first.prepare_commit(2)
    beside = opened("words/count/1")
    beside.put("word", 1)
    checkpoint(beside, 1)
    for _ in range(2):
        place.provider.remove_state(NAMESPACE, place.provider_config, place.context)
    with pytest.raises(TupletreeError):
        first.commit(2)
    again = opened()
    assert (list(again.items()), again.committed, again.prepared) == ([], None, None)
    assert dict(opened("words/count/1").items()) == {"word": 1}
