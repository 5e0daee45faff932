"""The ranges that make up a batch of a log, planned for all partitions together.

A partition has an end, of which the first part has been handed out. The rest is handed out in **turns**: partitions
follow in the order of their names, over and over. A turn ends where the partition ended when the turn began, so a
partition that grows faster than it is read does not block the others forever. A batch takes from as many partitions as
its limit allows. If the batch is full in the middle of a turn, the next batch continues that turn.

The metadata of a batch::

    {"read": {name: position handed out}, "turn": [name, until] or None, "ranges": [[name, start, end], …]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tupletree.connectors.log_source import Bounds

RANGES_PER_BATCH = 1000
"""Maximum number of ranges in a batch. A batch's metadata is one value in the store."""

Extents = Sequence[tuple[str, Bounds]]
"""Name and bounds of every existing partition, sorted by name."""

End = Callable[[str, int, int, int, bool], int | None]
"""(name, start, until, limit, may_exceed) -> end of a range that begins at ``start``.

The range has up to ``limit`` units, or more if ``may_exceed``. The result ``start`` means that nothing can be handed
out yet; the result None means that the next part does not fit.
"""

Plan = Callable[[Extents, Mapping[str, Any] | None, int, End], "dict[str, Any] | None"]
"""Return the metadata of the batch after another, within a limit. None if there is nothing new."""


def plan_batch(extents: Extents, previous: Mapping[str, Any] | None, limit: int, end: End) -> dict[str, Any] | None:
    """Plan a batch of up to ``limit`` units of all partitions together, in turns."""
    read = {} if previous is None else dict(previous["read"])
    ranges: list[list[Any]] = []
    turns = _in_turn(extents, None if previous is None else previous.get("turn"))
    turn = _give_out(turns, dict(extents), read, ranges, limit, end)
    return {"read": read, "turn": turn, "ranges": ranges} if ranges else None


def plan_each(extents: Extents, previous: Mapping[str, Any] | None, limit: int, end: End) -> dict[str, Any] | None:
    """Plan a batch of up to ``limit`` units of each partition."""
    read = {} if previous is None else dict(previous["read"])
    ranges: list[list[Any]] = []
    for name, bounds in extents:
        start = read.get(name, bounds.first)
        reached = end(name, start, bounds.end, limit, True)
        if reached is not None and reached > start:
            ranges.append([name, start, reached])
            read[name] = reached
    return {"read": read, "ranges": ranges} if ranges else None


def _give_out(
    turns: Sequence[tuple[str, int]],
    extents: Mapping[str, Bounds],
    read: dict[str, int],
    ranges: list[list[Any]],
    limit: int,
    end: End,
) -> list[Any] | None:
    """Add the ranges of one batch to ``read`` and ``ranges``; return the unfinished turn."""
    for name, until in turns:
        while (start := read.get(name, extents[name].first)) < until:
            if limit <= 0 or len(ranges) == RANGES_PER_BATCH:
                return [name, until]
            reached = end(name, start, until, limit, not ranges)
            if reached is None:
                return [name, until]
            if reached == start:
                break  # the rest waits, such as a line for its end
            ranges.append([name, start, reached])
            read[name] = reached
            limit -= reached - start
    return None


def _in_turn(extents: Extents, turn: Sequence[Any] | None) -> list[tuple[str, int]]:
    """Return the partitions, starting with the current turn, each with the end of its turn."""
    ends = [(name, bounds.end) for name, bounds in extents]
    if turn is None:
        return ends
    name, until = turn
    begun = [(name, until)] if any(other == name for other, _ in ends) else []
    after = [one for one in ends if one[0] > name]
    before = [one for one in ends if one[0] < name]
    return [*begun, *after, *before, *(one for one in ends if one[0] == name)]
