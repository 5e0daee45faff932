"""The examples of docs/guides/streams.md run, and what it shows of a plan is what the plan says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "streams.md"


def test_every_block_of_the_guide_on_streams_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 17 and sum(block.count("assert ") for block in blocks) == 20
    names: dict[str, Any] = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    assert f"```text\n{names['explained']}```" in text


def test_our_programs_beside_those_of_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_text("to be or\nnot to be\n")
    (tmp_path / "readings.csv").write_text("a,1\nb,50\na,20\nb,51\na,12\n")
    text = (GUIDE.parent / "coming-from.md").read_text().partition("\n## ")[0]
    names: dict[str, Any] = {"__name__": "guide"}
    shown = []
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, str(GUIDE), "exec"), names)
        names["builder"].run_local(seconds=60)
        shown.append(sorted(capfd.readouterr().out.splitlines()))
    assert len(shown) == 2
    assert {"to: 2", "be: 2", "or: 1", "not: 1"} <= set(shown[0])
    assert shown[1] == ["a: 19.0"]
