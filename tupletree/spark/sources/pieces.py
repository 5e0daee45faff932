"""The division of ranges of files among Spark's tasks.

A **piece** is ``[path, start, end, first, last]``: the part of the range ``[path, first, last]`` that one task reads.
Ranges of lines are cut at any byte, and a line belongs to the piece in which the line begins. The reader of a piece
skips to the first line that begins in the piece, and reads to the end of the last one
(tupletree/connectors/file_blocks.py). So all pieces of a range together have each of its lines once.
"""

from __future__ import annotations  # pure

from collections.abc import Sequence
from typing import Any


def pieces(split: Sequence[Any]) -> list[Sequence[Any]]:
    """Return a split as pieces. A divided split already consists of pieces."""
    if isinstance(split[0], str):
        path, start, end = split
        return [[path, start, end, start, end]]
    return list(split)


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
