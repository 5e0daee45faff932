"""States restored from a savepoint, with a crash before and after each request to a store.

The spout, the restoring and the buffered states are the real ones, over stores in memory whose requests are counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redistribution_scene import (
    ID,
    TXID,
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
from tupletree._checkpoints.settings import SAVEPOINT, awaits_savepoint
from tupletree._savepoints.manifest import ENCODED, FILE, Manifest, Part
from tupletree._savepoints.rows import FOLDER, Row, write_rows
from tupletree._wire.codec import encode_value
from tupletree.worker.checkpoint.redistribution import layout_after, redistribute
from tupletree.worker.checkpoint.restoring import layout_of, restore

KEYS = st.one_of(st.text(max_size=40), st.integers(), st.binary(max_size=5))


class Keyed(StatefulBolt):
    """Its keys are those of the grouping."""

    is_divisible = True


def carried(folder: Path, rows: Mapping[str, Sequence[Row]], tasks: Mapping[str, int], **more: Any) -> str:
    """A bundle with a savepoint of these rows; ``tasks`` 0: they are of no task."""
    (folder / FOLDER).mkdir()
    parts = {}
    for number, id in enumerate(rows):
        write_rows(folder / FOLDER / f"{number}.rows", rows[id])
        parts[id] = Part(f"{number}.rows", ENCODED, tasks=tasks[id], state_version=more.get("version", 1))
    manifest = Manifest(parts, id=more.get("id", "kept"), checkpoint=TXID)
    (folder / FOLDER / FILE).write_text(manifest.encoded())
    return str(folder)


def encoded(entries: Mapping[Any, Any], tasks: int) -> list[Row]:
    """Entries as rows of the tasks that own their keys."""
    return [
        (owner(key, tasks) if tasks else None, encode_value(key), encode_value(value)) for key, value in entries.items()
    ]


@given(
    st.dictionaries(KEYS, st.integers(), max_size=12),
    st.integers(0, 4),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)
def test_states_equal_the_savepoint_wherever_restoring_is_interrupted(
    entries: dict[Any, int], before: int, after: int, is_after: bool, has_earlier: bool
) -> None:
    world.__init__()  # type: ignore[misc]
    if has_earlier:  # another topology has left its states under the id
        store_first("count", [{"earlier": 1}, {"earlier too": 2}], Phase.COMMITTED)
        record({"count": 2}, Phase.COMMITTED)
    with tempfile.TemporaryDirectory() as folder:
        bundle = carried(Path(folder), {"count": encoded(entries, before)}, {"count": before})
        assert begin_with_crashes({"count": Keyed()}, {"count": after}, is_after, bundle) > after
        found = stored("count", after)
        for key, value in entries.items():
            assert found[owner(key, after)].pop(key) == value
        assert not any(found), "an entry is at two tasks, or comes from elsewhere"
        assert sorted(world.states) == [f"{ID}/count@10000000001.{after}/{index}" for index in range(after)]

        later = stored_checkpoint(world.store, ID)
        world.states.clear()  # what a later process restores would be here again
        assert begin({"count": Keyed()}, {"count": after}, bundle_dir=bundle) == []
        assert (world.states, stored_checkpoint(world.store, ID)) == ({}, later), "restored once"


class Logs(Spout):
    def checkpoint_state(self) -> Any: ...

    def restore_state(self, state: Any) -> None: ...

    def merge_states(self, states: Sequence[Mapping[str, int]]) -> dict[str, int]:
        return {name: max(state.get(name, 0) for state in states) for state in states for name in state}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (2, 2, [{"position": {"a": 1}}, {"position": {"a": 3}}]),
        (2, 3, [{"position": {"a": 3}}] * 3),
        (2, 1, [{"position": {"a": 3}}]),
    ],
)
def test_positions_are_kept_or_joined(tmp_path: Path, before: int, after: int, expected: Any) -> None:
    world.__init__()  # type: ignore[misc]
    rows = [(index, encode_value("position"), encode_value({"a": 2 * index + 1})) for index in range(before)]
    bundle = carried(tmp_path, {"logs": rows}, {"logs": before})
    assert begin({"logs": Logs()}, {"logs": after}, bundle_dir=bundle) == []
    assert stored("logs", after) == expected


def test_one_position_of_no_task_is_that_of_all_tasks(tmp_path: Path) -> None:
    world.__init__()  # type: ignore[misc]
    bundle = carried(tmp_path, {"logs": [(None, encode_value("position"), encode_value(7))]}, {"logs": 0})
    assert begin({"logs": Logs()}, {"logs": 2}, bundle_dir=bundle) == []
    assert stored("logs", 2) == [{"position": 7}] * 2


class Sessions(KeyedProcess):
    key = "word"


def test_timers_go_with_their_keys_and_the_watermark_is_the_lowest(tmp_path: Path) -> None:
    world.__init__()  # type: ignore[misc]
    entries = {"a": 1, ("$timers", "a"): [5], "b": 2}
    rows = [
        (owner(key[1] if type(key) is tuple else key, 2), encode_value(key), encode_value(value))
        for key, value in entries.items()
    ]
    bundle = carried(tmp_path, {"count": rows}, {"count": 2})
    assert begin({"count": Sessions()}, {"count": 3}, bundle_dir=bundle) == []
    found = stored("count", 3)
    assert {**found[owner("a", 3)]}.items() >= {"a": 1, ("$timers", "a"): [5]}.items()
    assert found[owner("b", 3)]["b"] == 2


def test_a_component_that_the_savepoint_does_not_have_begins_empty_and_versions_are_those_of_the_savepoint(
    tmp_path: Path,
) -> None:
    world.__init__()  # type: ignore[misc]
    bundle = carried(tmp_path, {"count": encoded({"a": 1}, 1)}, {"count": 1}, version=3)
    spout, reports = opened({"count": Keyed(), "new": Keyed()}, {"count": 1, "new": 2}, bundle_dir=bundle)
    spout._versions = {"count": 4}
    spout.next_tuple()
    assert reports.errors == []
    checkpoint = stored_checkpoint(world.store, ID)
    assert (checkpoint.txid, checkpoint.phase, checkpoint.tasks) == (TXID, Phase.COMMITTED, {"count": 1})
    assert (checkpoint.versions, checkpoint.origin) == ({"count": 3}, "words-1-1")
    assert checkpoint.layouts == dict.fromkeys(["count", "new"], layout_of("words-1-1"))
    assert spout._coordinator is not None
    assert (spout._coordinator.fresh, spout._coordinator.older) == (("new",), (("count", 3),))


def test_a_restored_topology_continues_with_its_own_checkpoints(tmp_path: Path) -> None:
    world.__init__()  # type: ignore[misc]
    bundle = carried(tmp_path, {"count": encoded({"a": 1}, 1)}, {"count": 1})
    assert begin({"count": Keyed()}, {"count": 1}, bundle_dir=bundle) == []
    taken = CheckpointRecord.take_over(world.store, ID, "topology words-1-1, task 1, x")
    assert taken.checkpoint.origin == "words-1-1"
    conf = {SAVEPOINT: "kept"}
    assert not awaits_savepoint(conf, "words-1-1", taken.checkpoint)
    assert awaits_savepoint(conf, "words-2-1", taken.checkpoint), "another submission restores anew"
    assert not awaits_savepoint({}, "words-2-1", taken.checkpoint)


@pytest.mark.parametrize(
    ("rows", "tasks", "fault"),
    [
        ([(2, encode_value("a"), encode_value(1))], 2, "an entry of task 2 of component 'count', which had 2 tasks"),
        ([(None, encode_value("a"), encode_value(1))], 2, "an entry of task None of component 'count'"),
        ([(1 - owner("a", 2), encode_value("a"), encode_value(1))], 2, "is in the state of task"),
    ],
)
def test_rows_that_belong_to_no_task_are_refused(tmp_path: Path, rows: list[Row], tasks: int, fault: str) -> None:
    world.__init__()  # type: ignore[misc]
    bundle = carried(tmp_path, {"count": rows}, {"count": tasks})
    [error] = begin({"count": Keyed()}, {"count": 3}, bundle_dir=bundle)
    assert fault in error
    assert stored_checkpoint(world.store, ID).origin == ""


def test_a_bundle_without_the_savepoint_is_refused_and_nothing_begins_empty(tmp_path: Path) -> None:
    world.__init__()  # type: ignore[misc]
    for bundle in (str(tmp_path / "none"), carried(tmp_path, {}, {}, id="another")):
        [error] = begin({"count": Keyed()}, {"count": 1}, bundle_dir=bundle)
        assert "which its bundle does not have: kill it, and submit it again with --from-savepoint" in error
    assert stored_checkpoint(world.store, ID).txid == 0


def test_layouts_differ_between_submissions() -> None:
    made = [layout_of(id) for id in ("a-1-1790000000", "a-b-2-1790000000", "a-1-1790000001", "a-12-1790000000")]
    assert len(set(made)) == 4
    assert all(one < 2**63 for one in made)


def test_a_savepoint_never_becomes_what_was_left_of_another(tmp_path: Path) -> None:
    """Both are of the same checkpoint, their states move at once, and whoever moved them dies before a removal."""
    world.__init__()  # type: ignore[misc]
    moved = Checkpoint()
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        bundle = carried(tmp_path / str(number), {"count": encoded({"a": number}, 1)}, {"count": 1})
        load = partial(part_of, {"count": Keyed()}, {"count": 1})
        moved, _ = restore(load, ID, f"words-{number}-179000000{number}", "kept", bundle, moved, {"count": 1})
        moved, _ = redistribute(partial(part_of, {"count": Keyed()}, {"count": 3}), ID, moved, {"count": 3})
    CheckpointRecord.take_over(world.store, ID, "topology words-2-1790000002").save(moved)
    assert {key: value for entries in stored("count", 3) for key, value in entries.items()} == {"a": 2}


def test_no_layout_comes_again() -> None:
    made: list[int] = []
    for first in (0, layout_of("a-1-1790000000"), layout_of("a-2-1790000001"), layout_of("a-112-1790000002")):
        made.append(first)
        for txid in (5, 5, 5, 7, 7, 9):
            made.append(layout_after(made[-1], txid))
    assert len(set(made)) == len(made)
