"""docs/storm.md has every key of Storm 2.8. One that it calls the same is ours too, one that it calls absent is not.

storm_2_8_keys.txt has the keys of Storm 2.8.8: those of its classes Config and DaemonConfig, and of defaults.yaml.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tupletree import config

HERE = Path(__file__).parent
STORMS = (HERE / "storm_2_8_keys.txt").read_text(encoding="utf-8").split()
PAGE = (HERE.parents[2] / "docs" / "storm.md").read_text(encoding="utf-8")
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


def test_every_key_of_storm_has_a_row_and_no_row_has_another() -> None:
    named = storms_keys("")
    patterns = {one: re.compile(re.escape(one).replace("…", ".+")) for one in named if "…" in one}
    matched = {key: [one for one, found in patterns.items() if found.fullmatch(key)] for key in STORMS}
    assert len(STORMS) > 500
    assert [key for key in STORMS if key not in named and not matched[key]] == []
    assert named - set(STORMS) - {one for ones in matched.values() for one in ones} == set()
