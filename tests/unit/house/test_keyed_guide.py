"""The examples of the guides on keyed state and windows per key run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDES = Path(__file__).parents[3] / "docs" / "guides"


@pytest.mark.parametrize(("guide", "blocks", "asserts"), [("keyed.md", 6, 4), ("keyed-windows.md", 6, 3)])
def test_every_block_of_the_guide_runs(guide: str, blocks: int, asserts: int) -> None:
    found = re.findall(r"```python\n(.*?)```", (GUIDES / guide).read_text(), re.DOTALL)
    assert len(found) == blocks and sum(block.count("assert ") for block in found) == asserts
    names: dict[str, Any] = {"__name__": "guide"}
    for block in found:
        exec(compile(block, str(GUIDES / guide), "exec"), names)
