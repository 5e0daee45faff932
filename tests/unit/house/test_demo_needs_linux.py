"""The demo ends with a sentence where there is no /proc, in which it finds processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from examples.demo import __main__ as demo
from examples.demo import victims
from tupletree.errors import UsageError


def test_without_proc_the_demo_starts_no_cluster_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(victims, "PROC", tmp_path / "proc")
    monkeypatch.setattr(sys, "argv", ["demo"])
    assert demo.main() == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith("demo: Linux is needed, ")


def test_with_proc_the_demo_may_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victims, "PROC", tmp_path)
    with pytest.raises(UsageError, match=r"Linux is needed"):
        victims.require_proc()
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").touch()
    victims.require_proc()
