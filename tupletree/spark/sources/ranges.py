"""The ranges of files that make up a batch, and their division among Spark's tasks.

The size of a file is a number of *units*, bytes or row groups, of which the first ``read`` have been handed out. The
rest is handed out in **turns**: files follow in the order of their names, over and over. A turn ends where the file
ended when the turn began, so a file that grows faster than it is read does not block the others forever. A batch takes
from as many files as its size allows. If the batch is full in the middle of a turn, the next batch continues that turn.

The metadata of a batch::

    {"read": {name: units handed out}, "turn": [name, until] or None, "ranges": [[name, start, end], …]}

A **piece** is ``[path, start, end, first, last]``: the part of the range ``[path, first, last]`` that one task reads.
Ranges of lines are cut at any byte, and a line belongs to the piece in which the line begins. The reader of a piece
skips to the first line that begins in the piece, and reads to the end of the last one (lines.py). So all pieces of a
range together have each of its lines once.
"""

from __future__ import annotations  # pure

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tupletree.errors import ReportedFailedException

RANGES_PER_BATCH = 1000
"""Maximum number of ranges in a batch. A batch's metadata is one value in the store."""

Sizes = Sequence[tuple[str, int]]
"""Name and size in units of every existing file, sorted by name."""

End = Callable[[str, int, int, int, bool], int | None]
"""(name, start, size, take, may_exceed) -> end of a range that begins at ``start``.

The range has up to ``take`` units, or more if ``may_exceed``. The result ``start`` means that nothing can be handed out
yet; the result None means that the next part does not fit.
"""


def plan_batch(sizes: Sizes, previous: Mapping[str, Any] | None, take: int, end: End) -> dict[str, Any] | None:
    """Return the metadata of the batch after ``previous``, of up to ``take`` units. None if there is nothing new."""
    read = {} if previous is None else dict(previous["read"])
    ranges: list[list[Any]] = []
    turn = _give_out(_in_turn(sizes, None if previous is None else previous["turn"]), read, ranges, take, end)
    return {"read": read, "turn": turn, "ranges": ranges} if ranges else None


def _give_out(turns: Sizes, read: dict[str, int], ranges: list[list[Any]], take: int, end: End) -> list[Any] | None:
    """Add the ranges of one batch to ``read`` and ``ranges``; return the unfinished turn."""
    for name, until in turns:
        while (start := read.get(name, 0)) < until:
            if take <= 0 or len(ranges) == RANGES_PER_BATCH:
                return [name, until]
            reached = end(name, start, until, take, not ranges)
            if reached is None:
                return [name, until]
            if reached == start:
                break  # the rest waits for its line end
            ranges.append([name, start, reached])
            read[name] = reached
            take -= reached - start
    return None


def _in_turn(sizes: Sizes, turn: Sequence[Any] | None) -> list[tuple[str, int]]:
    """Return the files, starting with the current turn, each with the end of its turn."""
    if turn is None:
        return list(sizes)
    name, until = turn
    begun = [(name, until)] if any(other == name for other, _ in sizes) else []
    after = [file for file in sizes if file[0] > name]
    before = [file for file in sizes if file[0] < name]
    return [*begun, *after, *before, *(file for file in sizes if file[0] == name)]


def check_sizes(sizes: Sizes, previous: Mapping[str, Any] | None, path: Callable[[str], str], unit: str) -> None:
    """Raise ReportedFailedException if a file is shorter than the part already read."""
    if previous is None:
        return
    read = previous["read"]
    for name, size in sizes:
        if size < read.get(name, 0):
            raise ReportedFailedException(
                f"file {path(name)}: {read[name]:,} {unit} were already read, but the file has only {size:,}: a file "
                f"may grow, but never shrink"
            )


def cut(ranges: Sequence[Sequence[Any]], tasks: int, least: int) -> list[list[list[Any]]]:
    """Cut ranges into pieces, in up to ``tasks`` shares of equal size. Only the last share can be below ``least``."""
    total = sum(end - start for _, start, end in ranges)
    size = max(least, -(-total // max(1, tasks)))
    shares: list[list[list[Any]]] = []
    room = 0
    for path, first, last in ranges:
        start = first
        while start < last:
            if room == 0:
                shares.append([])
                room = size
            end = min(last, start + room)
            shares[-1].append([path, start, end, first, last])
            room -= end - start
            start = end
    return shares
