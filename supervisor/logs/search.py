"""Bounded search in a worker's log, including rotated files.

A search must not slow down the supervisor. Searches therefore run in threads, only a few at a time, and end at a limit
of matches, bytes or seconds; the result names the limit. Regular expressions are those of RE2, through Arrow: matching
takes time linear in the text, without catastrophic backtracking, but there are no back references and no look-around.
Arrow is loaded on the first use of a regular expression.

Lines are decoded as UTF-8, with invalid bytes replaced. Only the beginning of a very long line is searched.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tupletree._extras import PYARROW, imported
from tupletree.errors import UsageError

from .files import open_log

MAX_MATCHES: Final = 1000
DEFAULT_MATCHES: Final = 100
MAX_CONTEXT: Final = 20
MAX_BYTES: Final = 512 * 1024 * 1024
MAX_SECONDS: Final = 20.0
MAX_LINE_LENGTH: Final = 16 * 1024  # bytes of a line that are searched
MAX_SHOWN_LENGTH: Final = 4 * 1024  # characters of a line that are returned
MAX_PATTERN_LENGTH: Final = 500
CHUNK_BYTES: Final = 256 * 1024

Matcher = Callable[[Sequence[str]], Sequence[bool]]


@dataclass(frozen=True)
class Query:
    """A validated search request."""

    pattern: str
    is_regex: bool = False
    ignore_case: bool = False
    max_matches: int = DEFAULT_MATCHES
    before: int = 0
    after: int = 0
    offset: int = 0  # of the first line in each file

    def __post_init__(self) -> None:
        if not self.pattern or len(self.pattern) > MAX_PATTERN_LENGTH:
            raise UsageError(f"a pattern has 1 to {MAX_PATTERN_LENGTH} characters, not {len(self.pattern)}")
        if "\n" in self.pattern:
            raise UsageError("a pattern matches within a line and cannot contain a line break")
        for what, number, most in (
            ("matches", self.max_matches, MAX_MATCHES),
            ("lines of context", self.before, MAX_CONTEXT),
            ("lines of context", self.after, MAX_CONTEXT),
        ):
            if number > most:
                raise UsageError(f"a search returns at most {most} {what}, not {number}")


@dataclass
class Match:
    """A matching line with its context."""

    file: str
    offset: int
    line: str
    before: list[str]
    after: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class End:
    """The end of a search, with the bytes searched. ``incomplete`` is the reason for an early end, or empty."""

    searched_bytes: int
    incomplete: str = ""


def matcher(query: Query) -> Matcher:
    """Return a function that tells for each line if it matches. Raises UsageError for an invalid pattern."""
    if query.is_regex:
        return _regex_matcher(query)
    if query.ignore_case:
        wanted = query.pattern.casefold()
        return lambda lines: [wanted in line.casefold() for line in lines]
    return lambda lines: [query.pattern in line for line in lines]


def search(
    files: Sequence[Path], query: Query, matches: Matcher, clock: Callable[[], float] = time.monotonic
) -> Iterator[Match | End | None]:
    """Yield matches, oldest first, then one End. A None marks progress. The caller may stop after any item."""
    began_s = clock()
    searched = found = 0
    for path in files:
        context = _Context(query)
        for lines, offsets in _chunks(path, query.offset):
            hits = matches(lines)
            for line, offset, is_hit in zip(lines, offsets, hits, strict=True):
                if is_hit and found == query.max_matches:
                    yield from context.rest()
                    yield End(searched, f"there are more matches; the limit is {found}")
                    return
                found += is_hit
                yield from context.add_line(path.name, line, offset, is_hit)
            searched += sum(len(line) + 1 for line in lines)
            if searched > MAX_BYTES or clock() - began_s > MAX_SECONDS:
                yield from context.rest()
                spent = f"{searched // 2**20} MiB" if searched > MAX_BYTES else f"{MAX_SECONDS:.0f} s"
                yield End(searched, f"the search ended after {spent}, in {path.name}")
                return
            yield None
        yield from context.rest()
    yield End(searched)


class _Context:
    """Adds context lines to matches. A match is complete once enough lines have followed."""

    def __init__(self, query: Query) -> None:
        self._after = query.after
        self._before: deque[str] = deque(maxlen=query.before)
        self._open: deque[Match] = deque()

    def add_line(self, file: str, line: str, offset: int, is_hit: bool) -> Iterator[Match]:
        shown = line if len(line) <= MAX_SHOWN_LENGTH else line[:MAX_SHOWN_LENGTH] + "…"
        for match in self._open:
            match.after.append(shown)
        if is_hit:
            self._open.append(Match(file, offset, shown, list(self._before)))
        while self._open and len(self._open[0].after) >= self._after:
            yield self._open.popleft()
        self._before.append(shown)

    def rest(self) -> Iterator[Match]:
        while self._open:
            yield self._open.popleft()


def _chunks(path: Path, start: int) -> Iterator[tuple[list[str], list[int]]]:
    """Yield a file's lines from ``start`` on, and their offsets, in chunks. A missing file yields nothing."""
    file = open_log(path)
    if file is None:
        return
    with file:
        rest, at = b"", start
        if start > os.fstat(file.fileno()).st_size:
            return
        file.seek(start)
        while chunk := file.read(CHUNK_BYTES):
            *whole, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_LINE_LENGTH:  # a very long line: the rest is skipped
                whole, rest, skipped = [*whole, rest[:MAX_LINE_LENGTH]], b"", _skip_line(file, rest)
            else:
                skipped = 0
            lines, offsets = [], []
            for number, line in enumerate(whole):
                offsets.append(at)
                lines.append(line[:MAX_LINE_LENGTH].decode("utf-8", "replace").rstrip("\r"))
                at += skipped if skipped and number == len(whole) - 1 else len(line) + 1
            if lines:
                yield lines, offsets
        if rest:
            yield [rest.decode("utf-8", "replace")], [at]


def _skip_line(file: object, begun: bytes) -> int:
    """Skip the rest of a line that starts with ``begun``. Returns the line's total length with the line break."""
    length = len(begun)
    while piece := file.readline(CHUNK_BYTES):  # type: ignore[attr-defined]
        length += len(piece)
        if piece.endswith(b"\n"):
            break
    return length


def _regex_matcher(query: Query) -> Matcher:
    pyarrow = imported("pyarrow", PYARROW, "a search with a regular expression")
    compute = imported("pyarrow.compute", PYARROW, "a search with a regular expression")

    def matches(lines: Sequence[str]) -> Sequence[bool]:
        texts = pyarrow.array(lines, pyarrow.string())
        found = compute.match_substring_regex(texts, pattern=query.pattern, ignore_case=query.ignore_case)
        hits: list[bool] = found.to_pylist()
        return hits

    try:
        matches([""])
    except pyarrow.ArrowInvalid as error:
        why = re.sub(r"^Invalid regular expression: ", "", str(error))
        raise UsageError(f"'{query.pattern}' is not a valid RE2 regular expression: {why}") from None
    return matches
