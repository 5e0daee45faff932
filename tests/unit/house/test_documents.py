"""The house is in order: links lead somewhere, decisions have their four parts, `make help` knows the targets."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md")])
SOURCES = subprocess.check_output(
    ["git", "ls-files", "*.py", ".ci", "Makefile", "deploy", "*.toml"], cwd=ROOT, text=True
)
NAMED = re.compile(r"(?<![\w/.])docs/[\w./-]+\.md(?:#[\w-]+)?")  # documents as docstrings and comments name them
DECISIONS = sorted(ROOT.glob("docs/adr/0*.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_to_files(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text())
    dead = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert dead == []


def anchors_of(document: Path) -> set[str]:
    titles = re.findall(r"^#{1,6} (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_references(text: str) -> list[str]:
    """The documents that a source file names and that do not exist, or that have no such heading."""
    parts = [(one, *one.partition("#")[::2]) for one in NAMED.findall(text)]
    return [
        one
        for one, name, anchor in parts
        if not (ROOT / name).exists() or (anchor and anchor not in anchors_of(ROOT / name))
    ]


def test_sources_name_documents_that_exist() -> None:
    texts = {
        name: (ROOT / name).read_text() for name in SOURCES.splitlines() if name != "tests/unit/house/test_documents.py"
    }
    assert sum(len(NAMED.findall(text)) for text in texts.values()) >= 50
    assert {name: dead for name, text in texts.items() if (dead := dead_references(text))} == {}
    assert dead_references(
        "See docs/guides/state.md, docs/no.md, docs/guides/streams.md#notebooks, docs/cli.md#no."
    ) == [
        "docs/no.md",
        "docs/cli.md#no",
    ]


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_says_what_would_change_our_mind(decision: Path) -> None:
    text = decision.read_text()
    for part in ("**Context.**", "**Decision.**", "**Consequences.**", "**What would change our mind.**"):
        assert part in text
    assert f"({decision.name})" in (decision.parent / "README.md").read_text(), "not listed in docs/adr/README.md"


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(decision.name[:4]) for decision in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_the_glossary_is_in_alphabetical_order() -> None:
    nouns = re.findall(r"^\| \*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    assert len(nouns) > 50 and nouns == sorted(nouns, key=str.lower)


def test_make_help_lists_the_targets() -> None:
    help_text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("help", "setup", "cluster", "demo", "test", "check", "proto", "bench", "clean"):
        assert f"make {target} " in help_text


def test_no_two_test_files_share_a_name() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert sorted(name for name, count in Counter(names).items() if count > 1) == []


def test_the_files_named_for_typical_changes_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| .* \|$", text.partition("## Where to change what")[2].partition("\n## ")[0], re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([^` ]+/[^` ]*)`", row)]
    assert len(rows) >= 20
    assert len(named) > len(rows)
    assert [name for name in named if not (ROOT / name).exists()] == []
