"""docs/storm.md: a key that it calls the same is one of ours, and one that it calls absent is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tupletree import config

PAGE = (Path(__file__).parents[3] / "docs" / "storm.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?P<storms>`.*?) \| (?P<ours>.*) \|$", re.MULTILINE)


def storms_keys(*answers: str) -> set[str]:
    """Storm's keys in the rows that begin with one of these answers."""
    section = PAGE.partition("## Keys\n")[2].partition("\n## ")[0]
    rows = [row for row in ROW.finditer(section) if row["ours"].startswith(answers)]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row["storms"])}


@pytest.mark.parametrize(("answers", "is_ours"), [(("the same",), True), (("no", "not yet"), False)])
def test_storms_keys_are_as_the_page_says(answers: tuple[str, ...], is_ours: bool) -> None:
    keys = storms_keys(*answers)
    assert len(keys) > 30
    assert {key for key in keys if (key in config.KEYS) is not is_ours} == set()
