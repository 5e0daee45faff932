"""The examples of the guide to trees run as a reader pastes them, and print what the guide says."""

from __future__ import annotations

import pytest
import yaml
from document_blocks import DOCS, run_python

from tupletree.acker.namespaces import parse_namespaces

GUIDE = DOCS / "guides" / "trees.md"


def test_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_python(GUIDE)
    text = GUIDE.read_text()
    for line in capsys.readouterr().out.strip().splitlines():
        assert line in text


def test_the_configuration_of_the_guide_is_one() -> None:
    block = GUIDE.read_text().split("```yaml\n")[1].split("```")[0]
    namespaces = parse_namespaces(yaml.safe_load(block)["acker.trees.namespaces"])
    assert namespaces["orders"].max_open_trees == 50_000
