"""docs/quickstart.md shows what its reader sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from document_blocks import DOCS
from document_session import Session

QUICKSTART = DOCS / "quickstart.md"


def test_the_reader_sees_counts_without_a_cluster(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        session.follow(QUICKSTART, before="## The same on a cluster")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_reader_sees_on_a_cluster_what_the_page_shows(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        session.follow(QUICKSTART)
