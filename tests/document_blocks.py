"""The blocks of code of a document, and what of an output is the same in every run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
HOME: Final = "/home/ada/shop"
"""The directory of the documents' reader."""
_BLOCK: Final = re.compile(
    r"(?:^<!-- (?P<how>[a-z, ]+) -->\n)?^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_MASKS: Final = (
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?", "TIME"),
    (r"\b\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
    (r" --nimbus 127\.0\.0\.1:\d+", ""),  # the reader's cluster has the default ports
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"/tmp/tupletree-dev-\w+", "DIRECTORY"),
    (r"\b(pid|process|port|kill -9|tree) [0-9a-f]+", r"\1 N"),
    (r"\b(\w+)-\d+-\d{10}\b", r"\1-ID"),
    (r"\b[0-9a-f]{12,}\b", "ID"),
    (r"\b\d[\d,]*(\.\d+)? ?(ms|s|m|h)\b( \d+ ?(s|m)\b)?", "DURATION"),
    (r"hot path: (compiled|plain Python.*)", "hot path"),
    (r"waiting for [^,]+, at most", "waiting, at most"),
)
_RATES: Final = re.compile(r"per second|/s\b|execute ms")
_CONNECTED: Final = re.compile(r".*: connected|running \w+ for DURATION")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code. ``how``: the words of the comment before it."""

    kind: str
    title: str
    text: str
    how: frozenset[str]
    line: int


def blocks_of(document: Path, *, after: str = "", before: str = "") -> Iterator[Block]:
    """Yield the fenced blocks of a document, or of its part after one heading and before another."""
    text = document.read_text()
    for heading in filter(None, (after, before)):
        assert f"\n{heading}\n" in text, f"{document} has no heading {heading!r}"
    if before:
        text, _, _ = text.partition(f"\n{before}\n")
    start = text.index(f"\n{after}\n") if after else 0
    for found in _BLOCK.finditer(text, start):
        how = frozenset((found["how"] or "").split(", ")) - {""}
        line = text.count("\n", 0, found.start("kind")) + 1
        yield Block(found["kind"], found["title"] or "", found["text"], how, line)


def run_python(
    document: Path,
    names: dict[str, Any] | None = None,
    *,
    after: str = "",
    before: str = "",
    replaced: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Execute the Python blocks of a document that have no title, in order, and return their names.

    ``names``: those that the blocks before have defined. ``after``, ``before``: as in ``blocks_of``. ``replaced``: what
    a reader has other values for, such as the address of a service; each text must stand in the blocks.
    """
    names = {"__name__": "document"} if names is None else names
    blocks = [
        block for block in blocks_of(document, after=after, before=before) if block.kind == "python" and not block.title
    ]
    assert blocks, f"{document} has no blocks of Python"
    for old in replaced or {}:
        assert any(old in block.text for block in blocks), f"{document} has no {old!r}"
    for block in blocks:
        execute(block, document, names, replaced)
    return names


def execute(block: Block, document: Path, names: dict[str, Any], replaced: Mapping[str, str] | None = None) -> None:
    """Execute a block of Python, which may use ``names`` and adds to them."""
    text = block.text
    for old, new in (replaced or {}).items():
        text = text.replace(old, new)
    exec(compile("\n" * block.line + text, str(document), "exec", dont_inherit=True), names)


def masked(output: str, how: frozenset[str], directory: str = HOME) -> list[str]:
    """Return the lines of an output without what differs from run to run."""
    output = output.replace(directory, HOME)
    for pattern, by in _MASKS:
        output = re.sub(pattern, by, output)
    lines, is_table = [], False
    for line in output.splitlines():
        is_table = bool(line.strip()) and (is_table or bool(_RATES.search(line)))
        text = re.sub(r"\d[\d,.]*|(?<= )-(?= |$)", "N", line) if is_table or "numbers vary" in how else line
        lines.append(" ".join(text.replace("─", " ").split()))
    lines = [line for line in lines if line]
    # What standard error shows at moments of its own is compared before the rest.
    connected = sorted(line for line in lines if _CONNECTED.fullmatch(line))
    others = [line for line in lines if not _CONNECTED.fullmatch(line)]
    return connected + (sorted(others) if "in any order" in how else others)


def is_shown(output: str, shown: str, how: frozenset[str], directory: str) -> bool:
    """True if an output is the shown one, or with other lines between, if ``how`` says so."""
    lines, wanted = masked(output, how, directory), masked(shown, how)
    if "with other lines" not in how:
        return lines == wanted
    rest = iter(lines)
    return all(line in rest for line in wanted)
