"""What every state does, whoever provides it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from state_places import State, StatePlace

from tupletree import register_type
from tupletree._wire.codec import encode_value
from tupletree.errors import AuthorityError, ConflictError, UnregisteredTypeError, UsageError

Opens = Callable[..., State]

KEYS: list[Any] = ["word", "", "wörter\0", b"bytes", b"", 0, -1, 1 << 80, ("a", 1), (), ("a", (b"b", (2,)), "")]
VALUES: list[Any] = [
    *[None, True, 7, 1 << 80, 0.5, "text", b"\0\xff", [1, ["a"]], (1, ("a",)), {"a": {1: None}}, {1, 2}],
    frozenset({"a"}),
    dt.datetime(2026, 1, 2, 3, 4, 5, 6),
    dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
]


class Colour:
    """Of a type that nobody registered, unless a test does."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
def state(opened: Opens) -> State:
    return opened()


def checkpoint(state: State, txid: int) -> None:
    state.prepare_commit(txid)
    state.commit(txid)


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


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_as_it_was(opened: Opens, value: Any) -> None:
    state = opened()
    state.put("key", value)
    checkpoint(state, 1)
    again = opened()
    assert (again.get("key", "none"), type(again.get("key", "none"))) == (value, type(value))
    assert list(opened().items()) == [("key", value)]


def test_keys_of_different_types_are_different_keys(opened: Opens) -> None:
    state = opened()
    for key in ("1", b"1", 1, ("1",), (b"1",), (1,)):
        state.put(key, repr(key))
    checkpoint(state, 1)
    again = opened()
    assert all(again.get(key) == repr(key) for key in ("1", b"1", 1, ("1",), (b"1",), (1,)))


@pytest.mark.parametrize(
    ("key", "kind"), [(True, "bool"), (1.0, "float"), (None, "NoneType"), (["a"], "list"), (("a", 1.5), "float")]
)
@pytest.mark.parametrize("step", ["get", "put", "delete"])
def test_what_is_no_key_is_a_mistake(state: State, key: Any, kind: str, step: str) -> None:
    with pytest.raises(UsageError, match=rf"'words/count/0': a key is a str, bytes, an int .*of type {kind}$"):
        getattr(state, step)(key, *([1] if step == "put" else []))
    checkpoint(state, 1)
    assert list(state.items()) == []


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


def test_namespaces_are_apart(opened: Opens) -> None:
    names = ["words/count/0", "words/count/1", "Words/count/0", "words-count-0", "words/count:about", "a.b", "数/x 1"]
    states = {name: opened(name) for name in names}
    for name, state in states.items():
        state.put("name", name)
        checkpoint(state, 1)
    for name in names:
        assert dict(opened(name).items()) == {"name": name}


def test_a_value_of_a_type_that_nobody_registered_is_refused_with_its_key(opened: Opens) -> None:
    state = opened()
    state.put("plain", 1)
    checkpoint(state, 1)
    state.put("plain", 2)
    state.put(("sky", 1), {"colour": Colour("blue")})
    with pytest.raises(
        UnregisteredTypeError, match=r"state 'words/count/0', key \('sky', 1\): .*Colour.*tupletree\.register_type"
    ):
        state.prepare_commit(2)
    assert state.prepared is None
    state.put(("sky", 1), "blue")
    checkpoint(state, 2)
    assert dict(opened().items()) == {"plain": 2, ("sky", 1): "blue"}


def test_a_registered_type_is_carried(opened: Opens) -> None:
    class Shade(Colour):
        pass

    register_type(Shade, 101, lambda shade: shade.name.encode(), lambda data: Shade(data.decode()))
    state = opened()
    state.put("sky", Shade("grey"))
    checkpoint(state, 1)
    shade: Any = opened().get("sky")
    assert (type(shade), shade.name) == (Shade, "grey")


def test_more_keys_than_are_kept_in_memory(opened: Opens) -> None:
    state = opened(cache_entries=10)
    for txid in range(1, 4):
        for number in range(100):
            state.put(f"{number}", txid)
        state.delete(f"{txid}")
        checkpoint(state, txid)
        assert [state.get(f"{number}") for number in (0, txid, 99)] == [txid, None, txid]
    assert dict(state.items()) == {f"{number}": 3 for number in range(100) if number != 3}
    assert [state.get(f"{number}", 0) for number in range(100)] == [3] * 3 + [0] + [3] * 96


def test_thousands_of_keys_come_page_by_page(opened: Opens) -> None:
    state = opened()
    for number in range(5_500):
        state.put(number, str(number))
    checkpoint(state, 1)
    for number in range(0, 5_500, 2):
        state.delete(number)
    checkpoint(state, 2)
    again = opened()
    seen = list(again.items())
    assert len(seen) == 2_750
    assert dict(seen) == {number: str(number) for number in range(1, 5_500, 2)}


def test_a_backend_that_is_to_prepare_again_replaces_what_it_had_prepared(opened: Opens) -> None:
    """As after a failure of which nobody knows what came of it."""
    state: Any = opened()
    state._backend.prepare(1, {encode_value("first"): encode_value(1), encode_value("both"): encode_value(1)})
    state._backend.prepare(2, {encode_value("second"): encode_value(2), encode_value("both"): encode_value(2)})
    again = opened()
    assert (again.committed, again.prepared) == (None, 2)
    again.commit(2)
    assert dict(opened().items()) == {"second": 2, "both": 2}


def test_an_iterator_of_the_items_may_be_left_alone(state: State) -> None:
    for number in range(3):
        state.put(number, number)
    checkpoint(state, 1)
    iterator: Iterator[Any] = iter(state.items())
    next(iterator)
    del iterator
    state.put(7, 7)
    checkpoint(state, 2)
    assert len(dict(state.items())) == 4
