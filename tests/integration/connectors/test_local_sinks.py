"""``tupletree local`` with a sink that writes at checkpoints: its results, and a word when nothing was written."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tupletree.testing import wait_until

TOPOLOGY = """
import pathlib
from tupletree import BasicStatefulBolt, Spout, TopologyBuilder
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.sqlite import SqliteSink

class Numbers(Spout):
    outputs = ["number", "text"]

    def open(self, conf, context, collector):
        self.collector, self.next = collector, 0

    def next_tuple(self):
        if self.next < 200:
            self.collector.emit([self.next, "x" * 500], msg_id=self.next)
            self.next += 1
            if self.next == 200:
                pathlib.Path(r"{folder}", "emitted").touch()

    def checkpoint_state(self):
        return self.next

    def restore_state(self, state):
        self.next = state

class Keep(BasicStatefulBolt):
    outputs = ["number", "text"]

    def execute(self, tup):
        self.state["newest"] = [tup["text"], "\\n", tup["number"]]
        yield list(tup.values)

topology = TopologyBuilder()
topology.set_spout("numbers", Numbers())
topology.set_bolt("keep", Keep()).shuffle_grouping("numbers")
sink = SqliteSink(r"{folder}/numbers.db", "numbers", {{"number": "bigint", "text": "string"}}, key="number")
topology.set_bolt("out", ExactlyOnceSinkBolt(sink)).shuffle_grouping("keep")
"""

LISTED = """
from typing import NamedTuple
from tupletree.connectors.sqlite import SqliteSink
from tupletree.streams import StreamBuilder

class Number(NamedTuple):
    number: int
    text: str

builder = StreamBuilder()
sink = SqliteSink(r"{folder}/numbers.db", "numbers", {{"number": "bigint", "text": "string"}}, key="number")
builder.source([Number(1, "one")], name="numbers").sink(sink)
topology = builder.topology("exactly_once")
topology.conf["topology.state.provider"] = "sqlite"
topology.conf["topology.state.provider.config"] = {{"directory": r"{folder}/states"}}
"""


def written(folder: Path) -> int:
    """Return the number of rows in the table."""
    with contextlib.closing(sqlite3.connect(folder / "numbers.db")) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'numbers'").fetchone():
            return 0
        [count] = connection.execute("SELECT count(*) FROM numbers").fetchone()
        return int(count)


def run(folder: Path, interval_ms: int, is_enough: Callable[[], bool]) -> tuple[str, str]:
    """Run the topology until ``is_enough``, and return what is printed, on standard output and error."""
    (folder / "sales.py").write_text(TOPOLOGY.format(folder=folder))
    states = json.dumps({"directory": str(folder / "states")})
    settings = {"aligned": "true", "interval.ms": str(interval_ms)}
    command = [sys.executable, "-m", "tupletree", "local", "sales.py", "--seconds", "0"]
    for name, value in settings.items():
        command += ["-c", f"topology.state.checkpoint.{name}={value}"]
    command += ["-c", "topology.state.provider=sqlite", "-c", f"topology.state.provider.config={states}"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: process.poll() is not None or is_enough(), 60, what="the topology is where it should be")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    return out, err


def test_a_run_shorter_than_the_interval_says_that_nothing_is_written(tmp_path: Path) -> None:
    _, err = run(tmp_path, 20000, (tmp_path / "emitted").exists)
    assert err.splitlines()[-1] == (
        "200 tuples were emitted and no checkpoint was committed: nothing is written; run for longer than "
        "topology.state.checkpoint.interval.ms"
    )


def test_states_are_shown_in_short_lines_and_without_what_waits_for_the_sink(tmp_path: Path) -> None:
    out, err = run(tmp_path, 100, lambda: written(tmp_path) == 200)
    assert "nothing is written" not in err
    assert "state of 'keep', 1 key:" in out and "state of 'out'" not in out
    [line] = [line.strip() for line in out.splitlines() if line.strip().startswith("newest")]
    assert line.endswith("…") and len(line) < 200


def run_listed(folder: Path) -> tuple[int, list[str]]:
    """Run a program of streams that writes one row. Return its status, and its lines on standard error."""
    (folder / "listed.py").write_text(LISTED.format(folder=folder))
    command = [sys.executable, "-m", "tupletree", "local", "listed.py", "--seconds", "4"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stderr.splitlines()


def test_a_table_that_refuses_the_rows_fails_the_run(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "numbers.db")) as connection:
        connection.execute("CREATE TABLE numbers (number BIGINT PRIMARY KEY)")
    status, lines = run_listed(tmp_path)
    assert (status, lines[-1]) == (
        1,
        "the rows of checkpoint 1 are not all written: component 'numbers-sink' reported UsageError: table 'numbers' "
        "exists and has no column 'text': add one of type TEXT",
    )


def test_a_run_on_the_states_of_an_earlier_one_says_so(tmp_path: Path) -> None:
    assert (run_listed(tmp_path)[0], written(tmp_path)) == (0, 1)
    status, lines = run_listed(tmp_path)
    assert status == 1
    assert "was committed with checkpoint" in lines[-1] and lines[-1].endswith(
        "the topology's last checkpoint is 0: the state belongs to another topology, or to a cluster or a run of "
        "'tupletree local' that is gone with its checkpoints; choose another topology.state.id, or remove these states"
    )
