"""The first programs run as pasted: that of streams in README, and that of bolts in the guide on the core."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tupletree.cli.main import main

ROOT = Path(__file__).parents[3]
PLACES = {
    "counts": (ROOT / "README.md", "## The API\n"),
    "count": (ROOT / "docs" / "guides" / "core.md", "## A topology\n"),
}
"""The document of each program and the heading above it, by the component whose state has the counts."""
LINES = {"counts": 12, "count": 12}


def program_of(component: str) -> str:
    """Return the first Python block below the heading of a program."""
    document, heading = PLACES[component]
    return document.read_text().partition(heading)[2].partition("```python")[2].partition("\n")[2].partition("```")[0]


def words_of(component: str, text: str) -> Counter[str]:
    """Return the counts that a program is to find in a text."""
    return Counter(filter(str.isalpha, text.split()) if component == "counts" else text.split())


@pytest.fixture(params=PLACES)
def component(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def text(component: str) -> str:
    return program_of(component)


@pytest.fixture
def program(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "words.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", PLACES)
def test_it_has_few_lines(name: str) -> None:
    assert 0 < len(program_of(name).splitlines()) <= LINES[name]


def test_it_counts_and_ends(program: Path, text: str, component: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", str(program), "--json", "--seconds", "60"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    [state] = told["states"]
    assert state["component"] == component
    assert {word: count for word, count in state["entries"]} == words_of(component, text)
    assert told["seconds"] < 60 and told["errors"] == []


def test_the_largest_counts_are_printed(
    program: Path, text: str, component: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", str(program), "--seconds", "60"]) == 0
    printed, counts = capsys.readouterr().out, words_of(component, text)
    word, count = counts.most_common(1)[0]
    shown = ", the first 20" if len(counts) > 20 else ""
    assert f"state of '{component}', {len(counts)} keys{shown}:" in printed
    assert re.search(rf"^ *{re.escape(word)} +{count} *$", printed, re.MULTILINE)


def test_the_program_of_streams_prints_each_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = re.sub(r"^(keyed\.count\(.*?\))", r"\1.print()", program_of("counts"), flags=re.MULTILINE)
    assert ".print()" in text
    (tmp_path / "words.py").write_text(text)
    assert main(["local", str(tmp_path / "words.py"), "--seconds", "60"]) == 0
    updates = [line for line in capsys.readouterr().out.splitlines() if re.fullmatch(r"\S+: \d+", line)]
    newest = dict(line.rsplit(": ", 1) for line in updates)
    assert {word: int(count) for word, count in newest.items()} == words_of("counts", text)
