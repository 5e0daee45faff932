"""Session windows: tuples that follow each other within less than a gap.

The cell of a session is ``[end, value]``, under its start. Sessions of a key never overlap, since a tuple that is in
two of them merges them.

The timer of a session stays where it was when the session grows: when it fires, the next is set at the end by then. So
most tuples cost no timer.
"""

from __future__ import annotations  # pure

import copy
from typing import Any

from tupletree.keyed.windows.kinds import Timing, WindowBounds
from tupletree.keyed.windows.record import (
    LATE,
    PENDING,
    Aggregate,
    Firing,
    Outcome,
    Record,
    count_pending,
    drop_pending,
)


class SessionWindows:
    """Sessions. Times are whole milliseconds.

    ``lateness``: how long after its end a session takes late tuples. ``early_count``: an early session after so many
    tuples. ``is_early``: tuples are counted for early triggers.
    """

    def __init__(
        self,
        aggregate: Aggregate,
        gap: int,
        *,
        lateness: int = 0,
        early_count: int | None = None,
        is_early: bool = False,
    ) -> None:
        self._initial, self._add, self._merge = aggregate.initial, aggregate.add, aggregate.merge
        self._gap = gap
        self._lateness = lateness
        self._early_count = early_count
        self._is_early = is_early

    def add(self, record: Record, item: Any, at_ms: int, floor_ms: int) -> Outcome | None:
        """Add a tuple. None: nothing else is to be done."""
        cells = record[0]
        end_ms = at_ms + self._gap
        touched = [start for start, cell in cells.items() if start < end_ms and at_ms < cell[0]]
        if len(touched) == 1 and touched[0] <= at_ms and at_ms >= floor_ms and not self._is_early:  # most tuples
            cell = cells[touched[0]]
            cell[1] = self._add(cell[1], item)
            cell[0] = max(cell[0], end_ms)
            return None
        if not touched and end_ms + self._lateness <= floor_ms:
            return LATE
        was_open = any(cells[start][0] > floor_ms for start in touched)
        start = self._put(record, touched, item, at_ms)
        end_ms = cells[start][0]
        outcome = Outcome()
        if end_ms <= floor_ms:
            outcome.timer_ms = end_ms + self._lateness
            self._fire(record, start, "late", outcome.firings)
            drop_pending(record, [start])
            return outcome
        if not was_open:
            outcome.timer_ms = end_ms
        if self._is_early:
            count = count_pending(record, start)
            if self._early_count is not None and count >= self._early_count:
                drop_pending(record, [start])
                self._fire(record, start, "early", outcome.firings)
        return outcome

    def reach(self, record: Record, time_ms: int) -> Outcome:
        """Emit the session that ends at a time, and remove those that take no late tuples any more."""
        cells = record[0]
        outcome = Outcome()
        for start in [start for start, cell in cells.items() if cell[0] == time_ms]:
            self._fire(record, start, "on_time", outcome.firings)
            drop_pending(record, [start])
        for start in [start for start, cell in cells.items() if cell[0] + self._lateness <= time_ms]:
            del cells[start]
        outcome.timer_ms = min(
            (end_ms if end_ms > time_ms else end_ms + self._lateness for end_ms, _ in cells.values()), default=None
        )
        return outcome

    def early(self, record: Record, floor_ms: int) -> list[Firing]:
        """Return the sessions that are not over and have tuples that no emitted session had."""
        firings: list[Firing] = []
        for start in sorted(record[1].pop(PENDING, {})):  # no session that is over is among them
            self._fire(record, start, "early", firings)
        return firings

    def _put(self, record: Record, touched: list[int], item: Any, at_ms: int) -> int:
        """Add a tuple to the sessions that it is in, which become one; return the start of that."""
        cells = record[0]
        if len(touched) == 1:
            value = self._add(cells[touched[0]][1], item)
        else:
            value = self._add(self._initial(), item)
            parts = [*((start, cells[start][1]) for start in touched), (at_ms, value)]
            (_, value), *others = sorted(parts, key=lambda part: part[0])
            for _, other in others:
                value = self._merge(value, other)
        start = min(at_ms, *touched) if touched else at_ms
        end_ms = max([at_ms + self._gap, *(cells[one][0] for one in touched)])
        for one in touched:
            del cells[one]
        cells[start] = [end_ms, value]
        pending = drop_pending(record, touched)
        if pending:
            record[1].setdefault(PENDING, {})[start] = pending
        return start

    def _fire(self, record: Record, start: int, timing: Timing, firings: list[Firing]) -> None:
        end_ms, value = record[0][start]
        is_removed = timing == "on_time" and not self._lateness
        firings.append((WindowBounds(start, end_ms, timing), value if is_removed else copy.deepcopy(value)))
