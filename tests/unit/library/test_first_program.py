"""README's first program runs as pasted, in a dozen lines."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tupletree.cli.main import main

README = Path(__file__).parents[3] / "README.md"


def first_program() -> str:
    found = re.search(r"## The API\n\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "words.py"
    path.write_text(first_program())
    return path


def test_it_has_at_most_twelve_lines() -> None:
    assert len(first_program().splitlines()) <= 12


def test_it_counts_and_ends(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = Counter(first_program().split())
    assert main(["local", str(program), "--json", "--seconds", "60"]) == 0
    told = json.loads(capsys.readouterr().out)
    [state] = told["states"]
    assert state["component"] == "count"
    assert {word: count for word, count in state["entries"]} == truth
    assert told["seconds"] < 60 and told["errors"] == []


def test_the_largest_counts_are_printed(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", str(program), "--seconds", "60"]) == 0
    printed = capsys.readouterr().out
    word, count = Counter(first_program().split()).most_common(1)[0]
    assert f"state of 'count', {len(set(first_program().split()))} keys, the first 20:" in printed
    assert re.search(rf"^ *{re.escape(word)} +{count} *$", printed, re.MULTILINE)
