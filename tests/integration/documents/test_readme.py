"""README shows what its program prints, and the figures that were measured."""

from __future__ import annotations

import re
from pathlib import Path

from document_blocks import DOCS
from document_session import Session

README = DOCS.parent / "README.md"


def test_the_program_shows_what_readme_shows(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        session.follow(README)


def test_the_figures_are_those_of_the_page_on_performance() -> None:
    performance = (DOCS / "performance.md").read_text()
    rows = re.findall(r"^\| (.*) \| \[.*\]\(docs/performance\.md#([\w-]+)\) \|$", README.read_text(), re.MULTILINE)
    assert len(rows) == 3
    for text, anchor in rows:
        [section] = [
            part for part in performance.split("\n## ") if part.splitlines()[0].lower().replace(" ", "-") == anchor
        ]
        figures = re.findall(r"\d[\d,.]*\d", text)
        assert figures and all(f"| {figure} " in section for figure in figures), (figures, anchor)
