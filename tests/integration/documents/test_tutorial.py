"""The pages of docs/tutorial show what a reader sees who does all that they say, in their order."""

from __future__ import annotations

import os
import re
import subprocess
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


# Stand for the programs of the same names: what is installed is not of interest here, but from where.
STUBS = """
python3() { mkdir -p "$3/bin" && : > "$3/bin/activate"; }
pip() { echo "$PWD: pip $*"; }
"""


@pytest.mark.parametrize("package", [".", "tupletree"])
def test_one_line_installs_from_where_the_reader_is_and_goes_to_the_shop(package: str, tmp_path: Path) -> None:
    lines = re.findall(r"^    (python3 .*)$", INDEX.read_text(), re.M)
    [line] = [line for line in lines if f" pip install {package} &&" in line]
    (tmp_path / "checkout").mkdir()
    done = subprocess.run(
        ["bash", "-c", f"{STUBS}{line}\npwd"],
        cwd=tmp_path / "checkout",
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [f"{tmp_path}/checkout: pip install {package}", f"{tmp_path}/shop"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_reader_sees_what_the_pages_without_a_cluster_show(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        for page in PAGES[: PAGES.index(ON_A_CLUSTER)]:
            session.follow(page)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_the_reader_sees_what_the_pages_on_a_cluster_show(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        for page in PAGES[: PAGES.index(ON_A_CLUSTER)]:
            session.save_files(page)
        for page in PAGES[PAGES.index(ON_A_CLUSTER) :]:
            session.follow(page)
