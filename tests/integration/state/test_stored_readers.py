"""Readers that StoredStates keeps: what becomes of them when the states of a component move."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from state_places import rocksdb_place

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord, checkpoint_path
from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.nodes import Node
from tupletree._wire.codec import encode_value
from tupletree.client import StateAnswer, StoredStates, states
from tupletree.context import TopologyContext
from tupletree.errors import UnavailableError, UsageError
from tupletree.state.providers import bulk_opener, remove_state


@pytest.fixture
def context() -> TopologyContext:
    return TopologyContext(
        topology_id="words-1-1", component_id="count", task_id=1, tasks={"count": [1]}, sources={}, targets={}, conf={}
    )


def files_below(folder: Path) -> list[str]:
    """The files below a folder that this process has open, whether they still have names or not."""
    found = (Path(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd"))
    return [str(path) for one in found if os.path.islink(one) and (path := one.readlink()).is_relative_to(folder)]


class Scene:
    """The states of a component, and the record of its checkpoints; ``move`` gives it other numbers of tasks."""

    def __init__(self, folder: Path, context: TopologyContext) -> None:
        place = rocksdb_place(folder)
        self.conf: dict[str, Any] = {
            "topology.state.provider": "rocksdb",
            "topology.state.provider.config": place.provider_config,
        }
        self.store = MemoryStore()
        self._context = context
        self._record = CheckpointRecord.take_over(self.store, "words", "one")
        self._names: list[str] = []

    def move(self, txid: int, tasks: int) -> None:
        """Each task has an entry of its own, and the states of before are removed."""
        open_bulk = bulk_opener(self.conf)
        assert open_bulk is not None
        names = [namespace_of("words", "count", index, tasks, txid) for index in range(tasks)]
        for index, name in enumerate(names):
            state = open_bulk(name)
            state.add([(encode_value(f"task {index}"), encode_value(txid))])
            state.fill(txid)
            state.close()
        self._layout = {"count": tasks}, 1, {"count": txid}
        self._record.save(Checkpoint(txid, Phase.COMMITTED, *self._layout))
        for name in self._names:
            remove_state(name, self.conf, self._context)
        self._names = names

    def prepare(self, txid: int) -> None:
        """Another checkpoint is under way."""
        self._record.save(Checkpoint(txid, Phase.PREPARING, *self._layout))


@pytest.fixture
def scene(tmp_path: Path, context: TopologyContext) -> Scene:
    return Scene(tmp_path, context)


def test_readers_of_states_that_have_moved_are_closed(tmp_path: Path, scene: Scene) -> None:
    with StoredStates(scene.conf) as stored:
        stored._store = scene.store
        for txid, tasks in ((3, 2), (4, 3), (9, 1)):
            scene.move(txid, tasks)
            for _ in range(2):
                assert [one.value for one in stored.get("words", "count", "task 0").entries] == [txid]
                assert len(stored.scan("words", "count").entries) == tasks
                assert len(files_below(tmp_path)) == tasks, "of the present states alone"
    assert files_below(tmp_path) == []


def test_a_state_that_has_moved_is_found_although_its_places_were_kept(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "PLACES_S", 3600.0)
    with StoredStates(scene.conf) as stored:
        stored._store = scene.store
        for txid, tasks in ((3, 2), (4, 3), (9, 1), (10, 2)):
            scene.move(txid, tasks)
            assert [one.value for one in stored.get("words", "count", "task 0").entries] == [txid]
            scene.move(txid + 20, tasks)
            assert [one.value for one in stored.scan("words", "count").entries] == [txid + 20] * tasks


def test_the_record_is_not_read_for_each_question(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "PLACES_S", 3600.0)

    class Counting(MemoryStore):
        def get(self, path: str) -> Node | None:
            read.append(path)
            return scene.store.get(path)

    read: list[str] = []
    scene.move(3, 2)
    with StoredStates(scene.conf) as stored:
        stored._store = Counting()
        stored.get("words", "count", "task 0")
        once = len(read)
        for _ in range(5):
            stored.get("words", "count", "task 0")
        assert len(read) == once
        # They are read again after a while, and kept although another checkpoint is under way by then.
        stored._places["words", "count"] = 0.0, stored._places["words", "count"][1]
        scene.prepare(4)
        for _ in range(5):
            stored.get("words", "count", "task 0")
        assert len(read) == 2 * once


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_state_that_moves_during_a_question_is_not_taken_for_empty(
    scene: Scene, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "PLACES_S", 0.0)

    class Moving(MemoryStore):
        """The states move when the record was read, before they are."""

        def get(self, path: str) -> Node | None:
            found = scene.store.get(path)
            if path == checkpoint_path("words") and moves:
                scene.move(*moves.pop())
            return found

    moves: list[tuple[int, int]] = []
    scene.move(3, 2)
    with StoredStates(scene.conf) as stored:
        stored._store = Moving()
        if is_kept:
            assert len(stored.scan("words", "count").entries) == 2
        asks: list[Callable[[], StateAnswer]] = [
            lambda: stored.get("words", "count", "task 0"),
            lambda: stored.scan("words", "count"),
        ]
        for ask in asks:
            txid = stored.get("words", "count", "task 0").entries[0].value
            moves.append((txid + 1, 1 + txid % 2))
            with pytest.raises(UnavailableError, match=r"^the states of component 'count' have just moved: repeat the"):
                ask()
            assert ask().entries[0].value == txid + 1
        shutil.rmtree(scene.conf["topology.state.provider.config"]["shared"])
        Path(scene.conf["topology.state.provider.config"]["shared"]).mkdir()
        with pytest.raises(UsageError, match="but the last checkpoint has: this is not the store"):
            stored.get("words", "count", "task 0")
