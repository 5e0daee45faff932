"""A process that moves states in a shared directory to other tasks is killed: the next one comes to the same end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from moving_process import AFTER, BEFORE, TXID, owner

from tupletree._wire.codec import decode_value, encode_value
from tupletree.state.rocksdb.bulk import SharedBulkState
from tupletree.state.rocksdb.directory_store import DirectoryStore
from tupletree.state.rocksdb.shared import SharedDirectory
from tupletree.worker.checkpoint.redistribution import names_of

HERE = Path(__file__).parent
KILLS = int(os.environ.get("WRITER_KILLS", "2"))
WORDS = {f"word {number}": number for number in range(3_000)}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """The states of the tasks of before."""
    for index, name in enumerate(names_of("words", "count", BEFORE, 0)):
        state = SharedBulkState(name, DirectoryStore(str(tmp_path)))
        own = [word for word in WORDS if owner(word, BEFORE) == index]
        state.add(sorted((encode_value(word), encode_value(WORDS[word])) for word in own))
        state.fill(TXID)
    return tmp_path


def move(shared: Path, until: int = 1_000_000) -> list[str]:
    """What a moving process prints. It is killed when it has written so many files."""
    command = [sys.executable, str(HERE / "moving_process.py"), str(shared)]
    root = str(HERE.parent.parent.parent)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root})
    assert process.stdout is not None
    lines = []
    try:
        for line in process.stdout:
            lines.append(line.strip())
            if len(lines) == until:
                break
    finally:
        process.kill()
        process.communicate()
    return lines


@pytest.mark.sized
@pytest.mark.parametrize("seed", range(KILLS))
def test_states_are_whole_wherever_their_move_is_killed(shared: Path, seed: int) -> None:
    rng = random.Random(seed)
    names = names_of("words", "count", AFTER, TXID)
    for _ in range(2):
        assert move(shared, rng.randrange(1, 16))[-1] == "written"
        manifests = [SharedDirectory(name, DirectoryStore(str(shared))).latest() for name in names]
        assert all(one is None or one.committed is None for one in manifests), "nothing counts before all is there"
    lines = move(shared)
    assert lines[-1] == "moved"
    assert len(lines) > 16
    found = {}
    for index, name in enumerate(names):
        state = SharedBulkState(name, DirectoryStore(str(shared)))
        assert state.committed == TXID
        for page in state.scan_encoded():
            for key, value in page:
                word = decode_value(key)
                assert owner(word, AFTER) == index
                found[word] = decode_value(value)
        needed = state._shared.manifest.files
        assert {path.name for path in Path(state._shared.path).glob("segment-*")} == needed, "what was begun is gone"
    assert found == WORDS
