"""An interrupted bench leaves nothing behind: no process, no directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tupletree.testing import wait_until

ROOT = Path(__file__).resolve().parents[3]


def processes_in(directory: Path) -> list[int]:
    """Living processes whose arguments name a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(directory).encode() in arguments:
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_an_interrupted_bench(tmp_path: Path, number: int) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-m", "bench", "run", "storm_perf:null-1"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    wait_until(lambda: len(processes_in(tmp_path)) >= 4, 60, what="the cluster starts")
    runner.send_signal(number)
    assert runner.wait(60) in (130, -number)
    wait_until(lambda: not processes_in(tmp_path), 60, what="every process ends")
    wait_until(lambda: not list(tmp_path.iterdir()), 60, what="every directory goes")
