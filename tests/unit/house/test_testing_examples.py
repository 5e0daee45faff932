"""The examples of docs/guides/testing.md run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

SEEDS = min(50, int(os.environ.get("SIMULATED_SEEDS", "10")))
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "testing.md"


@pytest.mark.sized
def test_every_block_of_the_guide_runs() -> None:
    text = GUIDE.read_text()
    assert text.count("seeds=range(50)") == 1
    blocks = re.findall(r"```python\n(.*?)```", text.replace("range(50)", f"range({SEEDS})"), re.DOTALL)
    assert len(blocks) == 6 and sum(block.count("assert ") for block in blocks) >= 9
    names: dict[str, Any] = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
