"""Dead letters on a terminal: their texts come from wherever the topology reads, and do not control it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tupletree.cli.main import main
from tupletree.dead_letters import Letter, open_store
from tupletree.replaying_spout import LETTER_FIELDS
from tupletree.testing import make_tuple

OBEYED = "\x1b]0;owned\x07"
SHOWN = "\\x1b]0;owned\\x07"


def test_characters_that_terminals_obey_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:{tmp_path}/letters.db"
    traceback = f"Traceback\n\tFile …\nValueError: {OBEYED}\n"
    values = ["m1", ["row"], "default", 5, "enrich", 7, f"ValueError: {OBEYED}", traceback]
    letter = Letter.of(make_tuple(values, LETTER_FIELDS, component="orders"), "orders", 100.0)
    open_store(url).add([dataclasses.replace(letter, message=OBEYED)])
    for command in (["list", url], ["show", url, letter.id]):
        assert main(["dead-letters", *command]) == 0
        shown = capsys.readouterr().out
        assert f"ValueError: {SHOWN}" in shown and shown.count(SHOWN) >= 2
        assert [c for c in shown if not c.isprintable() and c != "\n"] == []
    assert "\n        File …\n" in shown
