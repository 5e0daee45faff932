"""Wherever a state in a shared store is opened next, it holds what a dictionary would."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore
from state_places import State, StatePlace, rocksdb_place
from test_state_histories import KEYS, STEPS, Model, apply

from tupletree._wire.codec import decode_value
from tupletree.errors import AuthorityError
from tupletree.state import RocksDBStateProvider
from tupletree.state.rocksdb import backend, local, manifests, object_store, segments

EXAMPLES = int(os.environ.get("STATE_EXAMPLES", "20"))

MOVES = st.one_of(
    st.tuples(st.just("checkpoint"), st.lists(st.tuples(KEYS, st.none() | st.integers(0, 9)), max_size=6)),
    st.tuples(st.sampled_from(["open", "move", "take over"]), st.integers(0, 2)),
    st.tuples(st.just("lose the copies"), st.integers(0, 2)),
)


@pytest.fixture(params=["directory", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StatePlace:
    """Objects are in memory here, by obstore's own store of this kind."""
    if request.param == "directory":
        return rocksdb_place(tmp_path)
    store = object_store.ObjectStore("s3://bucket/states", MemoryStore())
    monkeypatch.setattr(object_store, "object_store", lambda address, options: store)
    return StatePlace(RocksDBStateProvider(), {"shared": store.address, "directory": str(tmp_path)})


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few keys take several blocks, batches and pages, and a few checkpoints several merges."""
    monkeypatch.setattr(manifests, "MERGED_SEGMENTS", 2)
    monkeypatch.setattr(segments, "BLOCK_BYTES", 4)
    monkeypatch.setattr(local, "BATCH_BYTES", 4)
    monkeypatch.setattr(local, "PAGE", 2)
    monkeypatch.setattr(segments, "PAGE", 2)


class Machines:
    """A task that moves between machines, each with a directory of its own for copies."""

    def __init__(self, place: StatePlace, cache_entries: int) -> None:
        self._place = place
        self._namespace = uuid.uuid4().hex
        self._cache_entries = cache_entries
        self.model = Model(is_durable=True)
        self.machine = 0
        self.state: Any = self.opened()

    def opened(self) -> State:
        directory = self._directory(self.machine)
        return self._place.open(self._namespace, cache_entries=self._cache_entries, directory=directory)

    def step(self, step: tuple[Any, ...]) -> None:
        match step:
            case "checkpoint", changes:
                self._checkpoint(changes)
            case ("reopen",):
                self._reopen(self.machine)
            case "open" | "move", machine:
                self._reopen(machine)
            case "take over", machine:
                self._take_over(machine)
            case "lose the copies", machine:
                if machine != self.machine:
                    shutil.rmtree(self._directory(machine), ignore_errors=True)
            case _:
                apply(self.state, self.model, step)

    def _checkpoint(self, changes: list[tuple[Any, int | None]]) -> None:
        for key, value in changes:
            apply(self.state, self.model, ("delete", key) if value is None else ("put", key, [value]))
        for name in ("prepare", "commit"):
            if self.model.prepared_txid is None or name == "commit":
                apply(self.state, self.model, (name, 1))
        self.state._backend._merger.wait()

    def _reopen(self, machine: int) -> None:
        self.state.close()
        self.machine = machine
        self.state = self.opened()
        self.model.reopen()

    def _take_over(self, machine: int) -> None:
        """Another worker opens the state, while the one before believes that it is its own."""
        before, self.machine = self.state, machine
        self.state = self.opened()
        self.model.reopen()
        with pytest.raises(AuthorityError):
            before.rollback()
        before.close()

    def _directory(self, machine: int) -> str:
        return f"{self._place.provider_config['directory']}/{machine}"


@pytest.mark.sized
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS | MOVES, max_size=40), cache_entries=st.sampled_from([1, 3, 1000]), at_once=st.booleans())
def test_a_state_that_moves_is_a_dictionary_that_can_be_taken_back(
    place: StatePlace,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[tuple[Any, ...]],
    cache_entries: int,
    at_once: bool,
) -> None:
    """``at_once``: copies are made by the task itself, not in a thread."""
    monkeypatch.setattr(backend, "COPIED_AT_ONCE_BYTES", 1 << 20 if at_once else 0)
    machines = Machines(place, cache_entries)
    model = machines.model
    try:
        for step in steps:
            machines.step(step)
            assert (machines.state.committed, machines.state.prepared) == (model.committed_txid, model.prepared_txid)
        assert dict(machines.state.items()) == model.visible()
        reader = place.reader(machines._namespace)
        found = {decode_value(key): decode_value(value) for key, value in reader.scan(b"", 1_000, 1 << 20)}
        assert found == model.committed
        reader.close()
    finally:
        machines.state.close()
    for machine in range(3):
        machines.machine = machine
        again = machines.opened()
        assert dict(again.items()) == model.committed
        again.close()
