"""Ctrl-C ends a local run of a program whose sources have no end, and what follows in the script runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tupletree.testing import wait_until

PROGRAM = """
from tupletree.streams import StreamBuilder

def lines():
    with open("lines.txt") as file:
        while True:
            yield file.readline() or None

builder = StreamBuilder()
builder.source(lines).key_by(str.strip).count().print()
builder.run_local(seconds=0)
print("after it")
"""


def test_a_growing_file_is_counted_until_the_run_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "lines.txt").write_text("to\nbe\n")
    printed = tmp_path / "printed"
    with (
        printed.open("w") as stdout,
        subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, stdout=stdout) as process,
    ):
        try:
            wait_until(lambda: {"to: 1", "be: 1"} <= set(printed.read_text().splitlines()), 60, what="it counts")
            with (tmp_path / "lines.txt").open("a") as lines:
                lines.write("to\n")
            wait_until(lambda: "to: 2" in printed.read_text().splitlines(), 60, what="it reads what was appended")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert printed.read_text().splitlines()[-1] == "after it"
