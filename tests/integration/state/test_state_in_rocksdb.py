"""What is particular to states in a shared directory: what writers leave, and surroundings that have changed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from state_places import NAMESPACE, State, StatePlace, checkpoint, files_of, filled, full_disk, rocksdb_place

from tupletree._wire.codec import encode_value
from tupletree.errors import AuthorityError, ConfigError, UnavailableError, UsageError
from tupletree.state.names import readable_name
from tupletree.state.rocksdb import manifests, merging
from tupletree.state.rocksdb.manifests import MERGED_SEGMENTS, manifest_name

Opens = Callable[..., State]


@pytest.fixture
def place(tmp_path: Path) -> StatePlace:
    return rocksdb_place(tmp_path)


def test_a_shared_directory_that_does_not_exist_is_said(opened: Opens, place: StatePlace, shared: Path) -> None:
    state = filled(opened)
    state.put("word", 2)
    hidden = shared.with_suffix(".hidden")
    shared.rename(hidden)
    missing = rf"the directory {shared} of 'shared' does not exist on this machine: mount it, or create it"
    reader = place.reader()
    steps: list[Callable[[], Any]] = [
        lambda: state.prepare_commit(2),
        state.rollback,
        opened,
        lambda: reader.committed,
        lambda: place.provider.remove_state(NAMESPACE, place.provider_config, place.context),
    ]
    for step in steps:
        with pytest.raises(UnavailableError, match=missing):
            step()
    hidden.rename(shared)
    state.put("word", 3)
    checkpoint(state, 2)
    assert opened().get("word") == 3


def test_paths_are_absolute(opened: Opens) -> None:
    with pytest.raises(
        ConfigError, match=r"'shared' of provider 'rocksdb' takes an absolute path, or an address such as s3:"
    ):
        opened(shared="states")
    with pytest.raises(ConfigError, match=r"'directory' of provider 'rocksdb' takes an absolute path, not 'states'"):
        opened(directory="states")


def test_each_checkpoint_writes_what_has_changed(opened: Opens, folder: Path) -> None:
    state = opened()
    for number in range(20_000):
        state.put(number, "x" * 50)
    checkpoint(state, 1)
    (first,) = files_of(folder)
    state.put(7, "changed")
    checkpoint(state, 2)
    (second,) = set(files_of(folder)) - {first}
    assert (folder / first).stat().st_size > 1_000_000
    assert (folder / second).stat().st_size < 200
    checkpoint(state, 3)
    assert len(files_of(folder)) == 2  # nothing has changed
    assert len(files_of(folder, "manifest")) == 1


def test_segments_are_merged_beside_the_task_and_the_old_ones_deleted(opened: Opens, folder: Path) -> None:
    state: Any = opened()
    for txid in range(1, 60):
        state.put("word", txid)
        state.put(txid % 10, [txid])
        if txid % 10 == 9:
            state.delete(3)
        checkpoint(state, txid)
        state._backend._merger.wait()
    assert len(files_of(folder)) <= MERGED_SEGMENTS + 1
    expected = {"word": 59} | {number: [50 + number] for number in range(10) if number != 3}
    shutil.rmtree(Path(state._backend._copy._folder).parent)
    state.close()
    assert dict(opened().items()) == expected


def test_a_merge_that_fails_is_put_off_and_nothing_else_fails(
    opened: Opens, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state: Any = filled(opened, MERGED_SEGMENTS - 1)
    damaged = folder / files_of(folder)[2]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:20] + b"?" + whole[21:])
    for txid in range(MERGED_SEGMENTS, 2 * MERGED_SEGMENTS):
        state.put("word", txid)
        checkpoint(state, txid)
        state._backend._merger.wait()
    assert caplog.text.count("state.merge_failed") == 1
    damaged.write_bytes(whole)
    for txid in range(2 * MERGED_SEGMENTS, 2 * MERGED_SEGMENTS + 3):
        state.put("word", txid)
        checkpoint(state, txid)
        state._backend._merger.wait()
    assert len(files_of(folder)) == 2
    assert opened().get("word") == 2 * MERGED_SEGMENTS + 2


def test_a_merge_is_in_a_manifest_that_was_written_though_the_commit_failed(
    opened: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "MERGED_SEGMENTS", 2)
    state: Any = filled(opened, 3)
    state._backend._merger.wait()
    state.put("word", 4)
    state.prepare_commit(4)

    def link(*arguments: Any, **named: Any) -> None:
        linked(*arguments, **named)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    linked = os.link
    with monkeypatch.context() as failing:
        failing.setattr(os, "link", link)
        with pytest.raises(UnavailableError, match=r"Input/output error"):
            state.commit(4)
    state.commit(4)
    for txid in range(5, 9):
        state.put("word", txid)
        checkpoint(state, txid)
        state._backend._merger.wait()
    assert opened().get("word") == 8


def test_a_state_is_closed_while_others_are_merged(opened: Opens) -> None:
    state: Any = filled(opened, MERGED_SEGMENTS - 1)
    with merging._one_at_a_time:
        state.put("word", 0)
        checkpoint(state, MERGED_SEGMENTS)
        assert state._backend._merger.written is not None
        state.close()
    assert opened().get("word") == 0


def test_what_writers_have_left_is_removed_by_the_next(opened: Opens, folder: Path) -> None:
    first = filled(opened, 1)
    first.put("word", 2)
    first.prepare_commit(2)
    (folder / "segment-0000000001-77").write_bytes(b"begun")
    (folder / "new-0000000001-somebody").write_bytes(b"begun")
    (folder / "segment-0000009999-1").write_bytes(b"of a later writer")
    state = opened()
    state.rollback()
    assert files_of(folder, "") == [files_of(folder, "manifest")[0], files_of(folder)[0], "segment-0000009999-1"]
    with pytest.raises(AuthorityError, match=r"state 'words/count/0' was opened again since"):
        first.commit(2)
    assert opened().get("word") == 1


@pytest.mark.parametrize("is_cleaned", [True, False])
def test_a_writer_that_is_late_finds_its_number_free_and_still_cannot_commit(
    opened: Opens, folder: Path, monkeypatch: pytest.MonkeyPatch, is_cleaned: bool
) -> None:
    """``is_cleaned``: the next writer has deleted what this one was about to rename."""
    first = filled(opened, 1)
    first.put("word", 2)
    first.prepare_commit(2)
    linked = os.link

    def late_link(*arguments: Any, **named: Any) -> None:
        monkeypatch.setattr(os, "link", linked)
        written = (folder / arguments[0]).read_bytes()
        second = opened()
        second.rollback()
        for txid in (2, 3):  # the manifests before the last one are deleted
            second.put("word", 10 * txid)
            checkpoint(second, txid)
        if not is_cleaned:
            (folder / arguments[0]).write_bytes(written)
        linked(*arguments, **named)

    monkeypatch.setattr(os, "link", late_link)
    with pytest.raises(UnavailableError if is_cleaned else AuthorityError):
        first.commit(2)
    with pytest.raises(AuthorityError, match=r"state 'words/count/0' was opened again since"):
        first.commit(2)
    again = opened()
    assert (again.committed, again.prepared, again.get("word")) == (3, None, 30)


def test_a_damaged_or_foreign_file_is_said(opened: Opens, folder: Path, tmp_path: Path, place: StatePlace) -> None:
    filled(opened, 1).close()
    elsewhere = opened(directory=str(tmp_path / "elsewhere"))
    segment = folder / files_of(folder)[0]
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-30])
    with pytest.raises(UsageError, match=r"segment-\d+-1-\w+ is damaged, since it does not have the checksum"):
        elsewhere.get("word")
    segment.write_bytes(whole)
    assert elsewhere.get("word") == 1
    manifest = folder / files_of(folder, "manifest")[0]
    whole = manifest.read_bytes()
    manifest.write_bytes(whole.replace(b'"committed": 1', b'"committed": 2'))
    for step in (opened, lambda: elsewhere.prepare_commit(2), lambda: place.reader().committed):
        with pytest.raises(UsageError, match=r"manifest-\d+.json is damaged, .* another topology.state.id"):
            step()
    manifest.write_bytes(whole)
    shutil.copytree(folder, folder.with_name(readable_name("words/count/1")))
    with pytest.raises(UsageError, match=r"belongs to the state 'words/count/0', not 'words/count/1'"):
        opened("words/count/1")


def test_a_full_shared_directory_is_said_and_changes_nothing(opened: Opens) -> None:
    state = filled(opened, 1)
    state.put("word", os.urandom(1_000_000))
    with full_disk(100_000), pytest.raises(UnavailableError, match=r"words-count-0-.*: File too large"):
        state.prepare_commit(2)
    assert (state.committed, state.prepared) == (1, None)
    assert opened().get("word") == 1
    state = opened()
    state.put("word", "x" * 1_000_000)
    checkpoint(state, 2)
    assert opened().get("word") == "x" * 1_000_000


def test_a_state_goes_on_while_the_local_disk_is_full(
    opened: Opens, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = filled(opened, 1, cache_entries=1)
    with full_disk(100_000):
        for txid in (2, 3):
            for part in range(20):  # more than a file of the copy may have, and less than a segment may
                state.put(f"long {txid} {part}", os.urandom(4_000))
            checkpoint(state, txid)
            assert (state.committed, state.prepared) == (txid, None)
            assert (state.get("word"), len(state.get(f"long {txid} 19"))) == (1, 4_000)
        assert len(dict(state.items())) == 42
    assert [record.message.partition(" ")[0] for record in caplog.records] == ["state.copy_set_aside"]
    state.put("word", 4)
    checkpoint(state, 4)
    hidden = tmp_path / "shared" / "hidden"
    folder = tmp_path / "shared" / readable_name(NAMESPACE)
    folder.rename(hidden)
    assert (state.get("word"), len(state.get("long 2 0"))) == (4, 4_000)  # the copy has caught up
    hidden.rename(folder)


def test_a_state_is_opened_where_its_copy_cannot_be(opened: Opens, tmp_path: Path) -> None:
    filled(opened, 1).close()
    broken = tmp_path / "broken"
    shutil.copytree(tmp_path / "not" / "yet", broken)
    (copies,) = broken.glob(f"*/{readable_name(NAMESPACE)}")
    shutil.rmtree(copies / "0")
    (copies / "0").write_text("as on a disk that fails: nothing can be opened below this name")
    for txid in (2, 3):
        state = opened(directory=str(broken), cache_entries=1)
        assert (state.committed, state.get("word")) == (txid - 1, 1 if txid == 2 else 2)
        state.put("word", txid)
        checkpoint(state, txid)
        assert dict(state.items()) == {"word": txid, 1: "x" * 100}
        state.close()
    (copies / "0").unlink()
    assert opened(directory=str(broken)).get("word") == 3


def test_a_local_directory_that_cannot_be_made_is_said(opened: Opens, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match=r"Not a directory"):
        opened(directory=str(tmp_path / "file" / "states"))


def test_a_file_system_without_hard_links_is_said(opened: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(UnavailableError, match=r"its file system has no hard links, .* another directory as 'shared'"):
        opened()


def test_a_state_that_was_removed_and_made_anew_is_not_written_by_who_had_it_before(
    opened: Opens, place: StatePlace, folder: Path
) -> None:
    first = filled(opened, 5)
    place.provider.remove_state(NAMESPACE, place.provider_config, place.context)
    with pytest.raises(UnavailableError, match=r"was removed or replaced while the state was in use"):
        first.prepare_commit(6)
    filled(opened, 1).close()
    with pytest.raises(UnavailableError, match=r"was removed or replaced while the state was in use"):
        first.prepare_commit(6)
    assert opened().committed == 1
    assert not (folder / manifest_name(12)).exists()


@pytest.mark.parametrize("checkpoints", [1, 3], ids=["fewer manifests", "the same number of manifests"])
def test_a_writer_that_paused_does_not_write_to_a_state_that_was_made_anew_meanwhile(
    opened: Opens, place: StatePlace, folder: Path, checkpoints: int
) -> None:
    first: Any = filled(opened, 3)
    shared = first._backend._shared
    written = shared.write

    def paused(*arguments: Any) -> Any:
        place.provider.remove_state(NAMESPACE, place.provider_config, place.context)
        filled(opened, checkpoints)
        return written(*arguments)

    shared.write = paused
    first.put("word", -1)
    with pytest.raises(UnavailableError, match=r"was removed or replaced while the state was in use"):
        first.prepare_commit(4)
    state = opened()
    assert (state.committed, state.prepared, state.get("word")) == (checkpoints, None, checkpoints)
    state.put("word", 7)
    checkpoint(state, checkpoints + 1)
    assert dict(opened().items()) == {"word": 7} | {txid: "x" * 100 for txid in range(1, checkpoints + 1)}


def test_a_reader_does_not_take_a_new_state_of_the_name_for_the_one_before(opened: Opens, place: StatePlace) -> None:
    reader = place.reader()
    assert (reader.committed, reader.get(encode_value("word"))) == (None, None)
    filled(opened, 2).close()
    assert reader.get(encode_value("word")) == encode_value(2)
    place.provider.remove_state(NAMESPACE, place.provider_config, place.context)
    state = opened()
    for txid in (1, 2):
        state.put("word", -txid)
        checkpoint(state, txid)
    assert reader.get(encode_value("word")) == encode_value(-2)
    place.provider.remove_state(NAMESPACE, place.provider_config, place.context)
    assert (reader.committed, reader.scan(b"", 10, 10)) == (None, [])
    reader.close()


def test_a_missing_package_is_said() -> None:
    code = (
        "import sys; sys.modules['rocksdict'] = None\n"
        "from tupletree.state.rocksdb.local import library\n"
        "try: library()\nexcept Exception as error: print(type(error).__name__, error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told == (
        "UsageError the state provider 'rocksdb' needs the package rocksdict: pip install 'tupletree[rocksdb]'\n"
    )
