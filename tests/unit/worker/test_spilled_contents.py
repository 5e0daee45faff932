"""States in a shared directory that move to other tasks or come from a savepoint: in pieces, with a crash anywhere.

The spout, the division and the files are the real ones. A process ends before or after one of the steps that others
can see: a manifest, a segment, the deletion of a file or of a state.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redistribution_scene import ID, TXID, begin, begin_with_crashes, owner, record, world
from test_restoring import carried, encoded

from tupletree import StatefulBolt
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.record import stored_checkpoint
from tupletree._wire.codec import decode_value, encode_value
from tupletree.errors import AuthorityError, ConflictError, UnavailableError
from tupletree.state.names import readable_name
from tupletree.state.rocksdb import bulk
from tupletree.state.rocksdb.bulk import SharedBulkState
from tupletree.state.rocksdb.directory_store import DirectoryFolder, DirectoryStore
from tupletree.state.rocksdb.segments import DELETED
from tupletree.state.rocksdb.shared import SharedDirectory, SharedWriter
from tupletree.worker.checkpoint import contents

KEYS = st.one_of(st.text(max_size=40), st.integers(), st.binary(max_size=5))
MORE = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


class Keyed(StatefulBolt):
    """Its keys are those of the grouping."""

    is_divisible = True


@pytest.fixture(autouse=True)
def small_parts_and_counted_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few entries take several pieces and merges, and each step can be the last of its process."""
    monkeypatch.setattr(contents, "MAX_HELD_BYTES", 500)
    monkeypatch.setattr(bulk, "MAX_SEGMENTS", 2)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    for name in ("create", "write", "delete", "remove"):
        monkeypatch.setattr(DirectoryFolder, name, counted(getattr(DirectoryFolder, name)))


def counted(work: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: world.request(lambda: work(*given))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shared"


def begin_anew(folder: Path) -> None:
    """A world without states, whose provider has them in a directory."""
    world.__init__()  # type: ignore[misc]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    world.conf = {
        "topology.state.provider": "rocksdb",
        "topology.state.provider.config": {"shared": str(folder), "directory": str(folder.parent / "copies")},
    }


def store(folder: Path, entries: Sequence[Mapping[Any, Any]], phase: Phase, split: int = 0) -> None:
    """Store the states of tasks at TXID, each in three segments, and more, as ``store_first`` does."""
    for index, own in enumerate(entries):
        writer = SharedWriter(f"{ID}/count/{index}", DirectoryStore(str(folder)))
        stored = sorted((encode_value(key), encode_value(value)) for key, value in own.items())
        gone = encode_value("deleted"), encode_value(1)
        for txid, changes in enumerate(
            (sorted([*stored[::2], gone]), [(gone[0], DELETED)], sorted([*stored[1::2], *stored[:1]])), TXID - 2
        ):
            writer.advance(writer.manifest.preparing(writer.write(txid, changes)))
            if txid < TXID or phase is not Phase.COMMITTING or index < split:
                writer.advance(writer.manifest.committing())
        if phase is Phase.PREPARING and index < split:
            uncounted = writer.write(TXID + 1, [(encode_value("not counted"), encode_value(1))])
            writer.advance(writer.manifest.preparing(uncounted))


def stored(folder: Path, tasks: int) -> list[dict[Any, Any]]:
    """The committed entries of each task, by the stored checkpoint. Their folders have no other segments."""
    checkpoint = stored_checkpoint(world.store, ID)
    assert checkpoint.tasks["count"] == tasks
    names = [namespace_of(ID, "count", index, tasks, checkpoint.layouts.get("count", 0)) for index in range(tasks)]
    found = []
    for name in names:
        state = SharedBulkState(name, DirectoryStore(str(folder)))
        assert (state.committed, state.prepared) == (TXID, None)
        needed = state._shared.manifest.files
        assert {path.name for path in (folder / readable_name(name)).glob("segment*")} == needed
        entries = [entry for page in state.scan_encoded() for entry in page]
        assert entries == sorted(entries)
        found.append({decode_value(key): decode_value(value) for key, value in entries})
        state.close()
    return found


@settings(**MORE)
@given(
    keys=st.dictionaries(KEYS, st.integers(), max_size=12),
    before=st.integers(1, 3),
    changes=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    phase=st.sampled_from(Phase),
    split=st.integers(0, 3),
    is_after=st.booleans(),
)
def test_every_entry_is_at_its_task_wherever_the_moves_are_interrupted(
    folder: Path,
    keys: dict[Any, int],
    before: int,
    changes: list[int],
    phase: Phase,
    split: int,
    is_after: bool,
) -> None:
    begin_anew(folder)
    entries: list[dict[Any, int]] = [{} for _ in range(before)]
    for key, value in keys.items():
        entries[owner(key, before)][key] = value
    store(folder, entries, phase, split)
    record({"count": before}, phase)
    last = before
    for tasks in changes:
        if tasks == last:
            continue
        assert begin_with_crashes({"count": Keyed()}, {"count": tasks}, is_after) > last + tasks
        found = stored(folder, tasks)
        for key, value in keys.items():
            assert found[owner(key, tasks)].pop(key) == value
        assert not any(found), "an entry is at two tasks, or was never committed"
        last = tasks


def test_a_state_of_many_pieces_is_in_few_files_and_states_of_before_are_removed(folder: Path) -> None:
    begin_anew(folder)
    words = {f"word {number}": number for number in range(200)}
    store(folder, [words], Phase.COMMITTED)
    record({"count": 1}, Phase.COMMITTED)
    late = SharedWriter(f"{ID}/count/0", DirectoryStore(str(folder)))
    assert begin({"count": Keyed()}, {"count": 2}) == []
    found = stored(folder, 2)
    assert {**found[0], **found[1]} == words
    assert [owner(key, 2) for key in found[1]] == [1] * len(found[1])
    names = [namespace_of(ID, "count", index, 2, TXID) for index in range(2)]
    assert sorted(path.name for path in folder.iterdir()) == sorted(map(readable_name, names))
    manifest = SharedDirectory(names[0], DirectoryStore(str(folder))).latest()
    assert manifest is not None
    assert {segment.txid for segment in manifest.segments} == {TXID}
    assert len(manifest.segments) > 3
    with pytest.raises(UnavailableError):
        late.advance(late.manifest.rolled_back())


def test_a_refusal_leaves_no_piece_and_the_old_number_goes_on(folder: Path) -> None:
    begin_anew(folder)
    entries: list[dict[Any, Any]] = [{}, {}]
    for number in range(40):
        entries[owner(f"word {number}", 2)][f"word {number}"] = number
    entries[1]["zzz elsewhere"] = 1
    entries[0]["zzz elsewhere"] = 1
    store(folder, entries, Phase.COMMITTED)
    record({"count": 2}, Phase.COMMITTED)
    (error,) = begin({"count": Keyed()}, {"count": 3})
    assert "its state cannot be divided, as key 'zzz elsewhere' is in the state of task " in error
    kept = {readable_name(f"{ID}/count/{index}") for index in range(2)}
    assert {path.parent.name for path in folder.glob("*/segment*")} == kept
    assert begin({"count": Keyed()}, {"count": 2}) == []


class Shared(Keyed):
    """Has an entry of the whole task."""

    def values_of_key(self, key: Any, fields: Sequence[str]) -> Any:
        return None if key == "total" else (key,)

    def merge_values(self, key: Any, values: Sequence[Any]) -> Any:
        return sum(values)


def test_entries_of_whole_tasks_are_merged_and_each_new_task_has_them(folder: Path) -> None:
    begin_anew(folder)
    store(folder, [{"total": 1}, {"total": 2}], Phase.COMMITTED)
    record({"count": 2}, Phase.COMMITTED)
    assert begin({"count": Shared()}, {"count": 3}) == []
    assert stored(folder, 3) == [{"total": 3}] * 3


@settings(**MORE)
@given(
    entries=st.dictionaries(KEYS, st.integers(), max_size=12),
    before=st.integers(0, 3),
    after=st.integers(1, 3),
    is_after=st.booleans(),
)
def test_states_equal_the_savepoint_wherever_restoring_is_interrupted(
    folder: Path, entries: dict[Any, int], before: int, after: int, is_after: bool
) -> None:
    begin_anew(folder)
    with tempfile.TemporaryDirectory() as place:
        bundle = carried(Path(place), {"count": encoded(entries, before)}, {"count": before})
        assert begin_with_crashes({"count": Keyed()}, {"count": after}, is_after, bundle) > after
        found = stored(folder, after)
        for key, value in entries.items():
            assert found[owner(key, after)].pop(key) == value
        assert not any(found), "an entry is at two tasks, or comes from elsewhere"


def test_a_state_that_has_gone_on_is_not_filled_again(folder: Path) -> None:
    begin_anew(folder)
    state = SharedBulkState("words/count/0", DirectoryStore(str(folder)))
    state.add([(b"a", b"1")])
    state.fill(7)
    state.add([(b"b", b"2")])
    with pytest.raises(ConflictError, match=r"^state 'words/count/0': checkpoint 8 cannot be its first, as 7 is commi"):
        state.fill(8)
    state.close()
    assert len(list(folder.glob("*/segment*"))) == 1


def moving_peak(folder: Path, entries: int) -> int:
    """Return the most bytes that Python's objects have while a state of so many entries moves to three tasks."""
    begin_anew(folder)
    store(folder, [{f"word {number:06}": "x" * 100 for number in range(entries)}], Phase.COMMITTED)
    record({"count": 1}, Phase.COMMITTED)
    tracemalloc.start()
    try:
        assert begin({"count": Keyed()}, {"count": 3}) == []
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_memory_of_a_move_does_not_grow_with_the_state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_HELD_BYTES", 100_000)
    monkeypatch.setattr(bulk, "MAX_SEGMENTS", 8)
    small, large = moving_peak(folder, 8_000), moving_peak(folder, 40_000)
    assert sum(file.stat().st_size for file in folder.glob("*/segment*")) > 40_000 * 100
    assert large < small * 1.3
    assert large < 40_000 * 100


def test_a_writer_that_was_replaced_fills_nothing(folder: Path) -> None:
    begin_anew(folder)
    late = SharedBulkState("words/count/0", DirectoryStore(str(folder)))
    late.add([(b"a", b"late")])
    state = SharedBulkState("words/count/0", DirectoryStore(str(folder)))
    state.add([(b"a", b"1")])
    state.fill(7)
    for step in (late.fill, late.commit):
        with pytest.raises(AuthorityError, match=r"^state 'words/count/0' was opened again since"):
            step(7)
    late.close()
    again = SharedBulkState("words/count/0", DirectoryStore(str(folder)))
    assert [list(page) for page in again.scan_encoded()] == [[(b"a", b"1")]]
    assert len(list(folder.glob("*/segment*"))) == 1
    with pytest.raises(ConflictError, match=r"^state 'words/count/0': checkpoint 9 is not prepared in the store"):
        again.commit(9)
