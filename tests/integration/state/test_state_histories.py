"""Whatever is done to a state in whatever order, it holds what a dictionary would."""

from __future__ import annotations

import os
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from state_places import State, StatePlace

from tupletree.errors import ConflictError
from tupletree.state import redis as redis_module

EXAMPLES = int(os.environ.get("STATE_EXAMPLES", "20"))
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
    """The same as dictionaries. ``base``: what is seen below the changes that are live; None: is deleted."""

    def __init__(self, is_durable: bool) -> None:
        self.is_durable = is_durable
        self.committed: dict[Any, Any] = {}
        self.prepared: dict[Any, Any] = {}
        self.base: dict[Any, Any] = {}
        self.live: dict[Any, Any] = {}
        self.committed_txid: int | None = None
        self.prepared_txid: int | None = None

    def visible(self) -> dict[Any, Any]:
        return {key: value for key, value in {**self.base, **self.live}.items() if value is not None}

    def prepare(self, txid: int) -> bool:
        if self.prepared_txid is not None or (self.committed_txid is not None and txid <= self.committed_txid):
            return False
        self.prepared_txid = txid
        self.prepared = self.base = self.visible()
        self.live = {}
        return True

    def commit(self, txid: int) -> bool:
        if txid != self.prepared_txid:
            return txid == self.committed_txid or (not self.is_durable and self.prepared_txid is None)
        self.committed_txid, self.prepared_txid = txid, None
        self.committed = self.base = self.prepared
        return True

    def rollback(self) -> None:
        self.prepared_txid = None
        self.reopen()

    def reopen(self) -> None:
        self.base, self.live = self.committed, {}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few keys take several scripts."""
    monkeypatch.setattr(redis_module, "CHUNK_ENTRIES", 2)


@pytest.mark.sized
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=40), cache_entries=st.sampled_from([1, 3, 1000]))
def test_a_state_is_a_dictionary_that_can_be_taken_back(
    place: StatePlace, steps: list[tuple[Any, ...]], cache_entries: int
) -> None:
    namespace = uuid.uuid4().hex
    model = Model(place.provider.is_durable)
    state = place.open(namespace, cache_entries=cache_entries)
    try:
        for step in steps:
            if step[0] == "reopen":
                state.close()
                state = place.open(namespace, cache_entries=cache_entries)
                model.reopen()
            else:
                apply(state, model, step)
            assert (state.committed, state.prepared) == (model.committed_txid, model.prepared_txid)
        assert dict(state.items()) == model.visible()
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
            model.live[key] = value
        case "delete", key:
            state.delete(key)
            model.live[key] = None
        case "get", key:
            assert state.get(key) == model.visible().get(key)
        case ("items",):
            assert dict(state.items()) == model.visible()
        case ("rollback",):
            state.rollback()
            model.rollback()
        case "change in place and roll back", key:
            value = state.get(key)
            if value is not None:
                value.append("changed")
            state.rollback()
            model.rollback()
            assert state.get(key) == model.visible().get(key)
        case ("prepare" | "commit") as name, ahead:
            method = state.prepare_commit if name == "prepare" else state.commit
            expected = model.prepare if name == "prepare" else model.commit
            base = model.prepared_txid - 1 if name == "commit" and model.prepared_txid else model.committed_txid or 0
            if expected(base + ahead):
                method(base + ahead)
            else:
                with pytest.raises(ConflictError):
                    method(base + ahead)
