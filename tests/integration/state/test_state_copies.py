"""The copy of a state on the disk of a machine: lost, old, damaged, in use, or of another state."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from state_places import NAMESPACE, State, StatePlace, checkpoint, files_of, filled, full_disk, rocksdb_place

from tupletree._wire.codec import encode_value
from tupletree.errors import UnavailableError
from tupletree.state.rocksdb import backend, copying, manifests
from tupletree.state.rocksdb.manifests import MERGED_SEGMENTS

Opens = Callable[..., State]


@pytest.fixture
def place(tmp_path: Path) -> StatePlace:
    return rocksdb_place(tmp_path)


def test_a_machine_that_had_the_state_before_reads_only_what_it_lacks(
    opened: Opens, tmp_path: Path, folder: Path
) -> None:
    filled(opened, 3).close()
    elsewhere = opened(directory=str(tmp_path / "elsewhere"))
    assert elsewhere.get("word") == 3
    elsewhere.put("word", 4)
    checkpoint(elsewhere, 4)
    elsewhere.close()
    for name in files_of(folder)[:3]:
        (folder / name).unlink()  # the copy here has what was in them
    state = opened()
    assert dict(state.items()) == {"word": 4, 1: "x" * 100, 2: "x" * 100, 3: "x" * 100}
    state.close()
    with pytest.raises(UnavailableError, match=r"segment-\d+-1-\w+: No such file"):
        opened(directory=str(tmp_path / "third")).get("word")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes other users")
def test_workers_of_two_users_keep_copies_below_one_directory() -> None:
    code = (
        "import os, sys, rocksdict; from tupletree.state.rocksdb.backend import RocksDBBackend\n"
        "os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1])); os.umask(0o077)\n"
        "state = RocksDBBackend(*sys.argv[2:]); state.prepare(1, {b'k': b'v'}); state.commit(1); state.close()"
    )
    with tempfile.TemporaryDirectory() as base:  # users pass through it, unlike through those of pytest
        os.chmod(base, 0o711)
        directories = [Path(base, "copies"), Path(base, "shared")]
        for one in directories:
            one.mkdir()
            one.chmod(0o1777)
        for user, name in (("61001", "ann"), ("61002", "ben")):
            subprocess.run([sys.executable, "-c", code, user, f"{name}/count/0", *directories], check=True)
        made = [path for one in directories for path in one.iterdir()]
        assert sorted(path.stat().st_uid for path in made) == [61001, 61001, 61002, 61002]
        assert {path.stat().st_mode & 0o777 for path in made} == {0o700}


def test_a_copy_that_lacks_a_merged_segment_is_made_anew(
    opened: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(opened, 2).close()
    monkeypatch.setattr(manifests, "MERGED_SEGMENTS", 2)
    elsewhere: Any = opened(directory=str(tmp_path / "elsewhere"))
    elsewhere.delete(1)
    for txid in (3, 4, 5):
        checkpoint(elsewhere, txid)
        elsewhere._backend._merger.wait()
    assert len(elsewhere._backend._shared.manifest.segments) == 1
    elsewhere.close()
    state = opened()
    assert state.get(1) is None  # the merged segment does not say that it was deleted
    assert dict(state.items()) == {"word": 2, 2: "x" * 100}


def test_a_copy_that_is_damaged_or_ahead_is_made_anew(opened: Opens, tmp_path: Path, shared: Path) -> None:
    filled(opened, 2).close()
    backup = shutil.copytree(shared, tmp_path / "backup")
    state: Any = opened()
    state.put("word", 3)
    checkpoint(state, 3)
    copy = Path(state._backend._copy._database)
    state.close()
    for path in copy.glob("MANIFEST-*"):
        path.write_bytes(path.read_bytes()[:20])
    state = opened()
    assert state.get("word") == 3
    assert dict(state.items()) == {"word": 3, 1: "x" * 100, 2: "x" * 100}
    state.close()
    shutil.rmtree(shared)
    backup.rename(shared)
    assert opened().get("word") == 2


def test_a_large_state_is_read_from_the_shared_directory_until_its_copy_is_there(
    opened: Opens, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "COPIED_AT_ONCE_BYTES", 0)
    filled(opened, 3).close()
    elsewhere = str(tmp_path / "elsewhere")
    state: Any = opened(directory=elsewhere)
    assert state.get("word") == 3
    state.put("word", 4)
    state.delete(1)
    checkpoint(state, 4)
    assert (state.get(1), state.get(2), state.get("missing")) == (None, "x" * 100, None)
    assert dict(state.items()) == {"word": 4, 2: "x" * 100, 3: "x" * 100}
    if state._backend._copying is not None:
        state._backend._copying.wait()
    assert state.get(3) == "x" * 100
    assert state._backend._files is None
    state.close()
    for name in files_of(folder):
        (folder / name).unlink()
    assert dict(opened(directory=elsewhere).items()) == {"word": 4, 2: "x" * 100, 3: "x" * 100}


def test_a_copy_that_cannot_be_made_is_done_without_until_it_can(
    opened: Opens, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "COPIED_AT_ONCE_BYTES", 0)
    caplog.set_level("INFO")
    state: Any = filled(opened, 1)
    state.put("long", os.urandom(1_000_000))
    checkpoint(state, 2)
    expected = dict(state.items())
    state.close()
    state = opened(directory=str(tmp_path / "elsewhere"))
    with full_disk(100_000):
        assert state.get("word") == 1
        state._backend._copying.wait()
    assert state.get("long") == expected["long"]
    assert dict(state.items()) == expected
    assert "state.copy_failed state=words/count/0 error=" in caplog.text
    assert "state.copied" not in caplog.text
    checkpoint(state, 3)
    assert state.get("missing") is None
    state._backend._copying.wait()
    assert state._backend.get(encode_value("word")) == encode_value(1)
    assert "state.copied state=words/count/0 bytes=10" in caplog.text


def test_a_state_is_closed_while_its_copy_is_made(
    opened: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "COPIED_AT_ONCE_BYTES", 0)
    monkeypatch.setattr(copying, "PIECE", 1)
    filled(opened, 3).close()
    for _ in range(3):
        state = opened(directory=str(tmp_path / "elsewhere"))
        assert state.get("word") == 3
        state.close()
    assert dict(opened(directory=str(tmp_path / "elsewhere")).items()) == {"word": 3} | {
        n: "x" * 100 for n in (1, 2, 3)
    }


@pytest.mark.parametrize("work", ["copy", "merge"])
def test_a_process_that_ends_without_closing_a_state_does_not_wait_for_its_threads(
    opened: Opens, place: StatePlace, tmp_path: Path, work: str
) -> None:
    state = opened()
    for txid in range(1, MERGED_SEGMENTS):
        for number in range(txid * 100_000, txid * 100_000 + (60_000 if txid < 3 else 1)):
            state.put(number, "x" * 50)
        checkpoint(state, txid)
    state.close()
    config = place.provider_config | ({"directory": str(tmp_path / "elsewhere")} if work == "copy" else {})
    code = (
        "import sys; from state_places import *\n"
        f"state = RocksDBStateProvider().new_state(NAMESPACE, {config!r}, context_of({{}}))\n"
        f"assert state.get(100_000) == 'x' * 50; state.put(0, 0)\n"
        f"if {work == 'merge'}: checkpoint(state, {MERGED_SEGMENTS})\n"
        "sys.exit(7)"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[3])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")
    assert opened().get(200_000) == "x" * 50


def get_all(state: State) -> dict[Any, Any]:
    return {number: state.get(number) for number in range(20_000)}


def scan_all(state: State) -> dict[Any, Any]:
    return dict(state.items())


@pytest.mark.parametrize("read", [get_all, scan_all])
def test_a_copy_that_is_found_damaged_by_a_read_is_made_anew(
    opened: Opens, caplog: pytest.LogCaptureFixture, read: Callable[[State], dict[Any, Any]]
) -> None:
    state = opened()
    for number in range(20_000):
        state.put(number, os.urandom(100))
    checkpoint(state, 1)
    expected = dict(state.items())
    state.close()
    again: Any = opened()  # which writes the log of before into a table
    database = Path(again._backend._copy._database)
    again.close()
    for path in database.glob("*.sst"):
        data = bytearray(path.read_bytes())
        data[1_000_000:1_100_000] = bytes(100_000)
        path.write_bytes(data)
    state = opened()
    assert state.get(0) == expected[0]
    assert not caplog.text
    assert read(state) == expected
    assert "state.copy_discarded state=words/count/0" in caplog.text


def test_a_copy_of_a_state_that_was_removed_is_removed_too(opened: Opens, place: StatePlace, tmp_path: Path) -> None:
    first: Any = filled(opened, 2, directory=str(tmp_path / "elsewhere"))
    first.close()
    folder = Path(first._backend._copy._folder)
    place.provider.remove_state(NAMESPACE, place.provider_config, place.context)  # on another machine
    assert folder.exists()
    opened("words/count/1", directory=str(tmp_path / "elsewhere")).close()
    assert not folder.exists()
    again = filled(opened, 1)
    again.close()
    place.provider.remove_state(NAMESPACE, place.provider_config, place.context)
    assert not list(Path(place.provider_config["directory"]).glob("*/*"))


def test_a_copy_of_an_earlier_life_of_the_name_is_not_taken(opened: Opens, place: StatePlace, tmp_path: Path) -> None:
    filled(opened, 2, directory=str(tmp_path / "elsewhere")).close()
    place.provider.remove_state(NAMESPACE, place.provider_config, place.context)
    state = opened()
    state.put("other", 1)
    checkpoint(state, 2)
    state.close()
    again = opened(directory=str(tmp_path / "elsewhere"))
    assert (again.get("word"), dict(again.items())) == (None, {"other": 1})


def test_a_copy_that_a_process_has_open_is_left_alone(opened: Opens) -> None:
    first: Any = filled(opened, 2)
    second: Any = opened()
    assert second.get("word") == 2
    folder = Path(first._backend._copy._folder)
    assert sorted(path.name for path in folder.iterdir()) == ["0", "1"]
    assert first.get(1) == second.get(1) == "x" * 100
    first.close()
    with pytest.raises(UnavailableError, match=r"the state is closed"):
        first._backend.get(b"other")
    second.close()
    third: Any = opened()
    assert [path.name for path in folder.iterdir()] == ["1"]  # the one that was opened last
    assert third.get("word") == 2
