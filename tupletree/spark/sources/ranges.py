"""Which ranges of files make up a batch, and how a batch's ranges are cut for Spark's tasks.

A file is so and so many *units* long, bytes or row groups, of which the first ``read`` are given out. What is not is
given out in **turns**: files come in the order of their names, and round again. A turn lasts up to where the file ended
when the turn began, so one that grows faster than it is read does not keep others waiting for ever. A batch takes from
as many files as its size allows; where that cuts a turn, the next batch goes on with the same turn.

The metadata of a batch::

    {"read": {name: units given out}, "turn": [name, until] or None, "ranges": [[name, start, end], …]}

A **piece** is ``[path, start, end, first, last]``: what one task reads of the range ``[path, first, last]``. Ranges of
lines are cut at any byte, and a line belongs to the piece that it begins in: whoever reads a piece skips to the first
line that begins in it, and reads on to the end of the last one (lines.py). So all pieces of a range together have each
of its lines once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tupletree.errors import ReportedFailedException

RANGES_PER_BATCH = 1000
"""At most; a batch's metadata is one value in the store."""

Sizes = Sequence[tuple[str, int]]
"""Name and units of every file that is there, by name."""

End = Callable[[str, int, int, int, bool], int | None]
"""(name, start, size, take, may_exceed) -> where a range ends that begins at ``start``.

It takes up to ``take`` units, more only if it ``may_exceed`` that. ``start``: nothing can be given out yet. None: what
comes next does not fit."""


def plan_batch(sizes: Sizes, previous: Mapping[str, Any] | None, take: int, end: End) -> dict[str, Any] | None:
    """The metadata of the batch after ``previous``, of up to ``take`` units. None if there is nothing to give out."""
    read = {} if previous is None else dict(previous["read"])
    ranges: list[list[Any]] = []
    turn = _give_out(_in_turn(sizes, None if previous is None else previous["turn"]), read, ranges, take, end)
    return {"read": read, "turn": turn, "ranges": ranges} if ranges else None


def _give_out(turns: Sizes, read: dict[str, int], ranges: list[list[Any]], take: int, end: End) -> list[Any] | None:
    """Add to ``read`` and ``ranges`` what one batch takes; return the turn that it has not finished."""
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
    """The files from the one whose turn it is, and up to where each is read in this turn."""
    if turn is None:
        return list(sizes)
    name, until = turn
    begun = [(name, until)] if any(other == name for other, _ in sizes) else []
    after = [file for file in sizes if file[0] > name]
    before = [file for file in sizes if file[0] < name]
    return [*begun, *after, *before, *(file for file in sizes if file[0] == name)]


def check_sizes(sizes: Sizes, previous: Mapping[str, Any] | None, path: Callable[[str], str], unit: str) -> None:
    """ReportedFailedException if a file has less than was read of it."""
    if previous is None:
        return
    read = previous["read"]
    for name, size in sizes:
        if size < read.get(name, 0):
            raise ReportedFailedException(
                f"file {path(name)}: {read[name]:,} {unit} of it were read, and it has {size:,}: a file may grow, "
                f"but never shrink"
            )


def cut(ranges: Sequence[Sequence[Any]], tasks: int, least: int) -> list[list[list[Any]]]:
    """Ranges as pieces, in up to ``tasks`` shares of equal size, none but the last below ``least`` units."""
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
