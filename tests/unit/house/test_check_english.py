"""The checker of docstrings, help texts and documents finds violations, and nothing else."""

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


@pytest.mark.parametrize(
    ("name", "text", "violation"),
    [
        ("one.py", 'option("--all", help="What is shown.")\n', "1: a help text opens with 'What'"),
        ("one.py", 'option("--all", help="Workers that were started again.")\n', "1: a help text says 'started again'"),
        ("one.md", "# Workers\n\nThey run for ever.\n", "3: a document says 'for ever'"),
    ],
)
def test_help_texts_and_documents_are_checked(tmp_path: Path, name: str, text: str, violation: str) -> None:
    (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, CHECKER, tmp_path / name], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{tmp_path / name}:{violation}")


def test_code_in_documents_is_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "one.md"
    path.write_text("```\nfor ever\n```\n\n    for ever\n\nIt says `for ever`.\n")
    done = subprocess.run([sys.executable, CHECKER, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
