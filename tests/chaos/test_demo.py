"""`make demo`, small: a whole cluster, a worker and an acker killed with -9, compared with the truth."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tupletree.testing import wait_until

ROOT = Path(__file__).resolve().parents[2]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "examples.demo", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def cluster_directory(said: str) -> Path:
    """Where the demo said that its cluster is."""
    (line,) = [line for line in said.splitlines() if "the cluster is up, in " in line]
    return Path(line.rpartition(" ")[2])


def living(directory: Path) -> list[str]:
    """The command lines of all processes that have to do with a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in command:
            found.append(command)
    return found


def test_the_promise_holds_and_nothing_is_left() -> None:
    demo = start("--lines", "40000", "--json")
    out, said = demo.communicate(timeout=150)
    assert demo.returncode == 0, said + out
    result = json.loads(out)
    assert result["held"], result
    assert result["acked"] == 40_000
    assert [crash["role"] for crash in result["crashes"]] == ["worker", "acker"]
    assert all(crash["recovery_s"] < 30 for crash in result["crashes"]), "faster than the message timeout"
    directory = cluster_directory(said)
    assert not directory.exists()
    assert living(directory) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_demo_leaves_nothing(number: signal.Signals) -> None:
    demo = start("--lines", "10000000", "--plain")
    assert demo.stdout is not None
    said = ""
    while "submitted" not in said:
        line = demo.stdout.readline()
        assert line, "the demo ended before it was interrupted"
        said += line
    demo.send_signal(number)
    demo.communicate(timeout=60)
    assert demo.returncode in (130, -signal.SIGKILL)
    directory = cluster_directory(said)
    wait_until(lambda: not directory.exists(), 30, what="the directory is removed")
    wait_until(lambda: not living(directory), 30, what="every process has ended")
