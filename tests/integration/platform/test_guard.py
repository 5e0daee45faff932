"""Nothing outlives its owner."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

from tupletree._devcluster.guard import Guard, end_all, processes_of
from tupletree._process_table import HAS_PROC, started
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


WORKER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not HAS_PROC, reason="other groups of a session are found by /proc")
def test_programs_of_workers_end_with_them(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-c", WORKER, "tupletree.worker", str(tmp_path / "launch.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as worker:
        try:
            assert worker.stdout is not None
            child = int(worker.stdout.readline())
            assert end_all(str(tmp_path)) == [worker.pid]
            wait_until(lambda: started(child) is None)
        finally:
            worker.kill()


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
