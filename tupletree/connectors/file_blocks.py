"""Lines of files, read in blocks.

If a range is cut into pieces, at any byte, a line belongs to the piece in which the line begins. ``[start, end)`` means
the bytes from the first line that begins at ``start`` or later to the first line that begins at ``end`` or later. Two
adjacent pieces compute the same position for their boundary. The first line begins behind a byte order mark.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any

from tupletree.connectors.file_ranges import first_line_end
from tupletree.errors import ReportedFailedException

BLOCK_BYTES = 1 << 22
"""Maximum number of bytes that are read at a time."""


def blocks(
    path: str, start: int, end: int, first: int, last: int, *, are_complete: bool, reader: str = "a reader"
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a piece in blocks, each with its position.

    Raises ReportedFailedException, naming ``reader``, if lines are missing.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            position = _line_start(file, start, first, last)
            stop = _line_start(file, end, first, last)
            file.seek(position)
            for at, block in _blocks(file, path, position, stop, are_complete and stop == last, reader):
                mark = len(codecs.BOM_UTF8) if at == 0 and block.startswith(codecs.BOM_UTF8) else 0
                if len(block) > mark:
                    yield at + mark, block[mark:]
    except OSError as error:
        raise ReportedFailedException(f"file {path}: {reader} cannot read it: {error.strerror}") from error


def _blocks(
    file: Any, path: str, position: int, stop: int, may_lack_end: bool, reader: str
) -> Iterator[tuple[int, bytes]]:
    rest: list[bytes] = []  # parts of an incomplete line
    reached = position
    while reached < stop:
        data = file.read(min(BLOCK_BYTES, stop - reached))
        if not data:
            raise ReportedFailedException(
                f"file {path}: {reader} reads up to byte {stop:,}, but none follows byte {reached:,}: a file may grow, "
                f"but never shrink"
            )
        reached += len(data)
        lines = len(data) if reached == stop else data.rfind(b"\n") + 1
        if not lines:
            rest.append(data)
            continue
        block = b"".join([*rest, data[:lines]])
        if reached == stop and not may_lack_end and not block.endswith(b"\n"):
            raise ReportedFailedException(
                f"file {path}: no line ends before byte {stop:,} any more: a file may grow, but never change"
            )
        yield position, block
        position += len(block)
        rest = [data[lines:]]


def _line_start(file: Any, position: int, first: int, last: int) -> int:
    """Return the start of the first line at ``position`` or later, in the range from ``first`` to ``last``."""
    if position <= first:
        return first
    return first_line_end(file, position - 1, last)[0] or last
