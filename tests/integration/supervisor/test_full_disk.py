"""A supervisor that is started while its disk is full: it needs no room for what it has written before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tupletree._net import ReservedPorts
from tupletree.errors import UnavailableError, UsageError
from tupletree.supervisor.identity import choose_port, choose_slots, claim, load_id

FULL = "/dev/full"
pytestmark = pytest.mark.skipif(not os.path.exists(FULL), reason="there is no full device")


def fill(directory: Path) -> None:
    """Let every file that is written anew lie on a full disk."""
    for name in ("supervisor-id", "slots", "grpc-port"):
        (directory / f"{name}.partial").symlink_to(FULL)


def test_a_supervisor_that_starts_again_writes_nothing(tmp_path: Path) -> None:
    local_dir, ports = str(tmp_path), ReservedPorts()

    def start() -> tuple[str, int, tuple[int, ...]]:
        with claim(local_dir):
            slots = choose_slots(local_dir, "127.0.0.1", [0], [], ports)
            return load_id(local_dir, "me"), choose_port(local_dir, "127.0.0.1", 0, ports), slots

    before = start()
    ports.release()
    fill(tmp_path)
    assert start() == before


def test_one_that_must_write_is_tried_again(tmp_path: Path) -> None:
    """Status 2, that of a UsageError, would keep systemd from starting it when there is room again."""
    fill(tmp_path)
    with pytest.raises(UnavailableError, match=r"^cannot write .*/supervisor-id: No space left on device$") as full:
        load_id(str(tmp_path), "me")
    assert not isinstance(full.value, UsageError)
