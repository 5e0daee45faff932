"""Whatever is done to a state in whatever order, it holds what a dictionary would."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from state_places import State, StatePlace

from tupletree.errors import ConflictError
from tupletree.state import redis as redis_module

KEYS = st.sampled_from(["a", "b", b"a", 1, (1, "a"), 1 << 70])
NUMBERS = st.integers(0, 9)
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.lists(NUMBERS, max_size=2)),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("get"), KEYS),
    st.tuples(st.sampled_from(["prepare", "commit"]), st.sampled_from([1, 1, 1, 0, 2])),
    st.tuples(st.just("change in place and roll back"), KEYS),
    st.tuples(st.sampled_from(["rollback", "reopen", "items"])),
)


class Model:
    """The same as dictionaries. ``inherited``: what is prepared was prepared before the state was opened."""

    def __init__(self, is_durable: bool) -> None:
        self.is_durable = is_durable
        self.committed: dict[Any, Any] = {}
        self.visible: dict[Any, Any] = {}
        self.prepared: dict[Any, Any] = {}
        self.txid: int | None = None
        self.prepared_txid: int | None = None
        self.changed: set[Any] = set()
        self.inherited = False

    def prepare(self, txid: int) -> bool:
        if self.prepared_txid is not None or (self.txid is not None and txid <= self.txid):
            return False
        self.prepared, self.prepared_txid, self.changed = dict(self.visible), txid, set()
        return True

    def commit(self, txid: int) -> bool:
        if txid == self.prepared_txid:
            if self.inherited:
                live = {key: self.visible.get(key) for key in self.changed}
                self.visible = {key: live.get(key, self.prepared.get(key)) for key in {**self.prepared, **live}}
                self.visible = {key: value for key, value in self.visible.items() if value is not None}
                for key in [key for key, value in live.items() if value is None]:
                    self.visible.pop(key, None)
            self.committed, self.txid, self.prepared_txid, self.inherited = self.prepared, txid, None, False
            return True
        return txid == self.txid or (not self.is_durable and self.prepared_txid is None)

    def rollback(self) -> None:
        self.visible, self.prepared_txid, self.changed, self.inherited = dict(self.committed), None, set(), False

    def reopen(self) -> None:
        self.visible, self.changed, self.inherited = dict(self.committed), set(), self.prepared_txid is not None


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few keys take several scripts."""
    monkeypatch.setattr(redis_module, "CHUNK_ENTRIES", 2)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=40), cache_entries=st.sampled_from([1, 3, 1000]))
def test_a_state_is_a_dictionary_that_can_be_taken_back(
    place: StatePlace, steps: list[tuple[Any, ...]], cache_entries: int
) -> None:
    namespace = uuid.uuid4().hex
    model = Model(place.provider.is_durable)
    state = place.open(namespace, cache_entries=cache_entries) if place.provider_config.get("shelf") is None else None
    state = state or place.open(namespace)
    try:
        for step in steps:
            if step[0] == "reopen":
                state.close()
                state = place.open(namespace)
                model.reopen()
            else:
                apply(state, model, step)
            assert (state.committed, state.prepared) == (model.txid, model.prepared_txid)
        assert dict(state.items()) == model.visible
    finally:
        state.close()
    again = place.open(namespace)
    assert dict(again.items()) == model.committed
    again.close()


def apply(state: State, model: Model, step: tuple[Any, ...]) -> None:
    """Do a step to both, and compare what it says."""
    match step:
        case "put", key, value:
            state.put(key, list(value))
            model.visible[key] = value
            model.changed.add(key)
        case "delete", key:
            state.delete(key)
            model.visible.pop(key, None)
            model.changed.add(key)
        case "get", key:
            assert state.get(key) == model.visible.get(key)
        case "items",:
            assert dict(state.items()) == model.visible
        case "rollback",:
            state.rollback()
            model.rollback()
        case "change in place and roll back", key:
            value = state.get(key)
            if value is not None:
                value.append("changed")
            state.rollback()
            model.rollback()
            assert state.get(key) == model.visible.get(key)
        case ("prepare" | "commit") as name, ahead:
            method = state.prepare_commit if name == "prepare" else state.commit
            expected = model.prepare if name == "prepare" else model.commit
            base = model.prepared_txid - 1 if name == "commit" and model.prepared_txid else model.txid or 0
            if expected(base + ahead):
                method(base + ahead)
            else:
                with pytest.raises(ConflictError):
                    method(base + ahead)
