"""What every state can hold, whoever provides it: keys, values, namespaces, and any number of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from state_places import State, checkpoint

from tupletree import register_type
from tupletree.errors import UnregisteredTypeError, UsageError

Opens = Callable[..., State]

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
    with pytest.raises(UsageError, match=rf"'words/count/0': a key must be a str, bytes, an int .*of type {kind}$"):
        getattr(state, step)(key, *([1] if step == "put" else []))
    checkpoint(state, 1)
    assert list(state.items()) == []


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
