"""The pages of docs/tutorial show what a reader sees who does all that they say, in their order."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from document_blocks import DOCS
from document_session import Session

INDEX = DOCS / "tutorial" / "index.md"
PAGES = [
    INDEX,
    *(INDEX.parent / name for name in re.findall(r"^\| \[\d\. [^]]+\]\((\w+\.md)\)", INDEX.read_text(), re.M)),
]
ON_A_CLUSTER = INDEX.parent / "deploy.md"


def test_every_page_is_in_the_list_and_leads_to_the_next() -> None:
    assert set(PAGES) == set(INDEX.parent.glob("*.md"))
    for page, following in pairwise(PAGES):
        assert f"]({following.name})." in page.read_text().rpartition("Next: ")[2]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_reader_sees_what_the_pages_without_a_cluster_show(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        for page in PAGES[: PAGES.index(ON_A_CLUSTER)]:
            session.follow(page)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_reader_sees_what_the_pages_on_a_cluster_show(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        for page in PAGES[: PAGES.index(ON_A_CLUSTER)]:
            session.save_files(page)
        for page in PAGES[PAGES.index(ON_A_CLUSTER) :]:
            session.follow(page)
