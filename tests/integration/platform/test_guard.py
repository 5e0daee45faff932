"""Nothing outlives its owner."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

from tupletree._devcluster.guard import Guard, end_all, processes_of
from tupletree.testing.wait import wait_until

OWNER = """
import sys, time
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._devcluster.guard import Guard
guard = Guard(sys.argv[1], remove=True)
EmbeddedZooKeeper(sys.argv[1] + "/data", durable=False).launch()
print("started", flush=True)
time.sleep(600)
"""


def test_the_guard_ends_what_its_killed_owner_left(tmp_path: pathlib.Path) -> None:
    directory = tempfile.mkdtemp(dir=tmp_path)
    owner = subprocess.Popen([sys.executable, "-c", OWNER, directory], stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        # A process that has just become another program has no arguments for a moment.
        wait_until(lambda: len(processes_of(directory)) == 1, 20, what="ZooKeeper is one of ours")
    finally:
        owner.kill()
        owner.communicate()
    wait_until(lambda: not os.path.exists(directory), 20)
    assert processes_of(directory) == []


def test_only_our_processes_under_the_directory_are_ended(tmp_path: pathlib.Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()", str(tmp_path / "log")], stdin=subprocess.PIPE)
    try:
        guard = Guard(str(tmp_path), remove=False)
        guard.close()
        assert end_all(str(tmp_path)) == []
        assert stranger.poll() is None
        assert tmp_path.exists()
    finally:
        stranger.communicate(b"\n", timeout=20)
