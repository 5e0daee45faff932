"""The checker of docstrings finds what it is for, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).resolve().parents[3] / ".ci" / "check-english"


def check(path: Path, docstring: str) -> subprocess.CompletedProcess[str]:
    path.write_text(f'def free_slots():\n    """{docstring}"""\n')
    return subprocess.run([sys.executable, CHECKER, path], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "docstring",
    ["Whose slots are free.", "What is free.", "How many there are.", "Slots that are free for ever."],
)
def test_a_docstring_that_breaks_a_rule_is_named(tmp_path: Path, docstring: str) -> None:
    done = check(tmp_path / "one.py", docstring)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{tmp_path}/one.py:2: a docstring ")


@pytest.mark.parametrize("docstring", ["Return the free slots.", "Slots without a worker.", "Whatsoever."])
def test_a_docstring_that_keeps_them_is_not(tmp_path: Path, docstring: str) -> None:
    done = check(tmp_path / "one.py", docstring)
    assert (done.returncode, done.stdout) == (0, "")
