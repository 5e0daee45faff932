"""A state as a MutableMapping: it does what a dict does."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.state import KeyValueState
from tupletree.state.buffered import BufferedState
from tupletree.state.memory import MemoryBackend, Namespace


def new_state() -> KeyValueState[Any, Any]:
    return BufferedState("words/count/0", MemoryBackend("words/count/0", Namespace()))


KEYS = st.sampled_from(["a", "b", "c", ("a", 1), 7])
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.integers()),
    st.tuples(st.sampled_from(["add", "plain add", "del", "pop", "pop or 0", "setdefault"]), KEYS, st.integers()),
    st.tuples(st.sampled_from(["clear", "save"]), st.none(), st.none()),
)


def outcome(mapping: MutableMapping[Any, Any], step: tuple[str, Any, Any]) -> Any:
    name, key, value = step
    try:
        match name:
            case "set":
                mapping[key] = value
            case "add" | "plain add" if isinstance(mapping, KeyValueState):
                return mapping.add(key, value) if name == "add" else KeyValueState.add(mapping, key, value)
            case "add" | "plain add":
                mapping[key] = mapping.get(key, 0) + value
                return mapping[key]
            case "del":
                del mapping[key]
            case "pop":
                return mapping.pop(key)
            case "pop or 0":
                return mapping.pop(key, 0)
            case "setdefault":
                return mapping.setdefault(key, value)
            case "clear":
                mapping.clear()
    except KeyError as error:
        return repr(error)


@given(st.lists(STEPS, max_size=30))
def test_a_state_does_what_a_dict_does(steps: list[tuple[str, Any, Any]]) -> None:
    state, truth = new_state(), {}
    for txid, step in enumerate(steps, 1):
        if step[0] == "save":
            state.prepare_commit(txid)
            state.commit(txid)
        assert outcome(state, step) == outcome(truth, step)
        assert state == truth and len(state) == len(truth)
        assert sorted(map(repr, state)) == sorted(map(repr, truth))
        assert sorted(map(repr, state.values())) == sorted(map(repr, truth.values()))
        assert sorted(map(repr, state.items())) == sorted(map(repr, truth.items()))
        assert all((key in state) == (key in truth) and state.get(key, 5) == truth.get(key, 5) for key in "abc")


def test_a_missing_key_is_a_key_error_or_has_the_default() -> None:
    state = new_state()
    with pytest.raises(KeyError, match="'a'"):
        state["a"]
    state.default_factory = int
    state["a"] += 1
    state["a"] += 1
    assert state["b"] == 0
    assert dict(state) == {"a": 2}, "reading adds no key"
    assert ("a", 2) in state.items() and ("b", 0) not in state.items()
    assert "b" not in state and state.get("b") is None


def test_a_state_can_hold_none() -> None:
    state = new_state()
    state["a"] = None
    assert "a" in state and state["a"] is None and state.pop("a", 1) is None and "a" not in state
