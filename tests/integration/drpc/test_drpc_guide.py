"""The examples of the guide to DRPC run as a reader pastes them, and print what the guide says."""

from __future__ import annotations

import pytest
from document_blocks import DOCS, blocks_of, run_python

GUIDE = DOCS / "guides" / "drpc.md"


def test_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_python(GUIDE)
    assert capsys.readouterr().out.strip() in GUIDE.read_text()
    assert len(list(blocks_of(GUIDE))) >= 2
