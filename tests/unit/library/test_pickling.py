"""Code that travels by value tells where it came from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle

from tupletree._pickling import dumps
from tupletree.topology import TopologyBuilder

SOURCE = """
from tupletree import BasicBolt, Spout

class Lines(Spout):
    outputs = ["line"]

class Picky(BasicBolt):
    def execute(self, tup, collector):
        def judge():
            raise ValueError("no sentence")
        judge()
"""


WORKER = "import sys, cloudpickle; cloudpickle.loads(sys.stdin.buffer.read()).execute(None, None)"


def test_a_traceback_of_a_bolt_that_was_sent_by_value_names_its_file_and_lines(tmp_path: Path) -> None:
    file = tmp_path / "picky.py"
    file.write_text(SOURCE)
    module: dict[str, Any] = {"__name__": "__main__"}  # of which cloudpickle sends all by value
    exec(compile(SOURCE, str(file), "exec"), module)
    builder = TopologyBuilder()
    builder.set_spout("lines", module["Lines"]())
    builder.set_bolt("picky", module["Picky"]()).shuffle_grouping("lines")
    [sent] = [one.object for one in builder.create_topology().spec().components if one.id == "picky"]
    worker = [sys.executable, "-c", WORKER]  # another process: cloudpickle knows its own classes again
    told = subprocess.run(worker, input=sent, capture_output=True, timeout=60, check=False).stderr.decode()
    assert f'File "{file}", line 11, in execute' in told
    assert f'File "{file}", line 10, in judge' in told
    assert 'raise ValueError("no sentence")' in told


def test_a_pickle_is_read_by_whoever_reads_pickles() -> None:
    assert cloudpickle.loads(dumps(lambda n: n + 1))(1) == 2
