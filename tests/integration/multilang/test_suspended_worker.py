"""A worker that is suspended, as in a container that is paused: its programs are not blamed for the silence."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from multilang_programs import SPLIT_PY, STORM_PY

from tupletree.testing import wait_until

pytestmark = pytest.mark.long

TIMEOUT_S = 4
PROGRAM = f"""
import sys
from tupletree import TopologyBuilder
from tupletree.multilang import ShellBolt
from tupletree.testing import FeederSpout, LocalCluster

lines = FeederSpout(["line"])
builder = TopologyBuilder()
builder.set_spout("lines", lines)
outputs = {{"default": ["word"], "lengths": ["length"]}}
bolt = ShellBolt([sys.executable, "split.py"], outputs, direct={{"direct": ["line"]}})
builder.set_bolt("split", bolt).shuffle_grouping("lines")
with LocalCluster() as cluster:
    cluster.submit("split", builder.create_topology(), {{"topology.subprocess.timeout.secs": {TIMEOUT_S}}})
    for number in (1, 2):
        lines.feed(["a"], number)
        cluster.wait_until(lambda: number in lines.acked, 30)
        print(number, flush=True)
        sys.stdin.readline()
"""


def test_a_suspended_worker_goes_on(tmp_path: Path) -> None:
    resources = tmp_path / "resources"
    resources.mkdir()
    (resources / "storm.py").write_text(STORM_PY)
    (resources / "split.py").write_text(SPLIT_PY)
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin is not None and worker.stdout is not None
        try:
            assert worker.stdout.readline() == "1\n"
            worker.send_signal(signal.SIGSTOP)
            with pytest.raises(TimeoutError):
                wait_until(lambda: worker.poll() is not None, TIMEOUT_S + 1.5)
            worker.send_signal(signal.SIGCONT)
            with pytest.raises(TimeoutError):  # the next look at the silence
                wait_until(lambda: worker.poll() is not None, 1.5)
            worker.stdin.write("\n")
            worker.stdin.flush()
            assert worker.stdout.readline() == "2\n"
        finally:
            worker.kill()
