"""`make demo`, small: a whole cluster, crashes in both acts, compared with the truth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tupletree.testing import wait_until

ROOT = Path(__file__).resolve().parents[2]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        # As in a terminal, though whoever runs the tests may ignore SIGINT, as a shell's background jobs do.
        ["env", "--default-signal=INT", sys.executable, "-m", "examples.demo", *arguments],
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
    """The command lines of all processes that have to do with a directory: they name it, or run in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            runs_in = os.readlink(process / "cwd")
        except OSError:
            continue
        if str(directory) in command or runs_in.startswith(str(directory)):
            found.append(command)
    return found


@pytest.mark.timeout(300)
def test_both_promises_hold_and_nothing_is_left() -> None:
    demo = start("--lines", "40000", "--seconds", "250", "--json")
    out, said = demo.communicate(timeout=280)
    assert demo.returncode == 0, said + out
    result = json.loads(out)
    assert result["held"], result
    first, second = result["at_least_once"], result["exactly_once"]
    assert first["held"] and first["acked"] == 40_000
    assert [crash["role"] for crash in first["crashes"]] == ["worker", "acker"]
    assert all(crash["recovery_s"] < 30 for crash in first["crashes"]), "faster than the message timeout"
    assert second["held"] and second["faults"] == []
    assert second["exact"] == second["distinct"] == first["distinct"]
    assert second["words"] == first["words"] and second["batches"] > 4
    assert second["crash"]["recovery_s"] is not None
    directory = cluster_directory(said)
    assert not directory.exists()
    wait_until(lambda: not living(directory), 30, what="every process has ended")


@pytest.mark.nightly
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("number", "lines", "sign"),
    [
        (signal.SIGINT, 10_000_000, "submitted"),
        (signal.SIGKILL, 10_000_000, "submitted"),
        (signal.SIGINT, 20_000, "Spark: running"),
        (signal.SIGKILL, 20_000, "Spark: running"),
    ],
)
def test_an_interrupted_demo_leaves_nothing(number: signal.Signals, lines: int, sign: str) -> None:
    demo = start("--lines", str(lines), "--seconds", "200", "--plain")
    assert demo.stdout is not None
    said = ""
    while sign not in said:
        line = demo.stdout.readline()
        assert line, "the demo ended before it was interrupted"
        said += line
    demo.send_signal(number)
    demo.communicate(timeout=60)
    assert demo.returncode in (130, -signal.SIGKILL)
    directory = cluster_directory(said)
    wait_until(lambda: not directory.exists(), 30, what="the directory is removed")
    wait_until(lambda: not living(directory), 30, what="every process has ended")
