"""Windows at fixed places: tumbling and sliding windows.

Windows start at ``offset + n * every`` and are ``size`` long. With ``merge``, tuples are added to *panes*, the parts of
time between two neighbouring starts or ends of windows; all tuples of a pane are in the same windows. At most two panes
begin every ``every``, whatever the sizes are:

    windows    [- - - - - - - - - - )
                       [- - - - - - - - - - )
                               [- - - - - - - - - - )
    panes      |       |   |   |   |   |   |   |   |

So a tuple changes one accumulator, and the panes of a window are merged when the window is emitted. Without ``merge``
there is an accumulator per window, and a tuple changes all windows that it is in. Tumbling windows are panes.

A key has a timer at the first time at which something happens to one of its cells, if not at other times too: at the
next end of a window with tuples, or where a cell that was kept for late tuples is removed.
"""

from __future__ import annotations  # pure

import copy
from collections.abc import Iterable
from typing import Any

from tupletree.keyed.windows.kinds import Timing, WindowBounds
from tupletree.keyed.windows.record import (
    LATE,
    MISSING,
    PENDING,
    Aggregate,
    Firing,
    Outcome,
    Record,
    count_pending,
    drop_pending,
)


class AlignedWindows:
    """Tumbling or sliding windows. Times are whole milliseconds, or positions of tuples.

    ``has_panes``: cells are panes; otherwise a cell is a window. ``lateness``: how long after its end a window takes
    late tuples. ``early_count``: an early window after so many tuples; only if a cell is a window, or there is one pane
    per window. ``is_early``: tuples are counted for early triggers.
    """

    def __init__(
        self,
        aggregate: Aggregate,
        size: int,
        every: int,
        offset: int = 0,
        *,
        has_panes: bool = True,
        lateness: int = 0,
        early_count: int | None = None,
        is_early: bool = False,
    ) -> None:
        self._initial, self._add, self._merge = aggregate.initial, aggregate.add, aggregate.merge
        self._size, self._every, self._offset = size, every, offset
        self._split = size % every or every  # where in each `every` windows end; the second pane begins there
        self._has_panes = has_panes
        self._lateness = lateness
        self._early_count = early_count
        self._is_early = is_early

    def add(self, record: Record, item: Any, at_ms: int, floor_ms: int) -> Outcome | None:
        """Add a tuple. None: nothing else is to be done."""
        if self._has_panes and at_ms >= floor_ms and not self._is_early:  # most tuples
            cells = record[0]
            past = (at_ms - self._offset) % self._every
            pane = at_ms - past if past < self._split else at_ms - past + self._split
            value = cells.get(pane, MISSING)
            if value is not MISSING:
                cells[pane] = self._add(value, item)
                return None
            cells[pane] = self._add(self._initial(), item)
            return Outcome(timer_ms=self._next_time(pane, floor_ms))
        if self._last_start(at_ms) + self._size + self._lateness <= floor_ms:
            return LATE
        changed = self._cells_of(at_ms, floor_ms)
        new = self._put(record, changed, item)
        outcome = Outcome(timer_ms=min((self._next_time(cell, floor_ms) for cell in new), default=None))
        if at_ms < floor_ms:
            self._fire_late(record, at_ms, floor_ms, outcome)
        if self._is_early:
            self._count(record, changed, floor_ms, outcome)
        return outcome

    def reach(self, record: Record, time_ms: int) -> Outcome:
        """Emit the window that ends at a time, and remove the cells that are in no window any more."""
        outcome = Outcome()
        cells = record[0]
        removed_before = self._next_start(time_ms - self._lateness - self._size)
        if (time_ms - self._size - self._offset) % self._every == 0:
            self._fire(record, time_ms, "on_time", outcome.firings, removed_before)
        over_before = self._next_start(time_ms - self._size)
        drop_pending(record, [cell for cell in cells if cell < over_before])
        for cell in [cell for cell in cells if cell < removed_before]:
            del cells[cell]
        first_of = (min(cells, default=None), min((cell for cell in cells if cell >= over_before), default=None))
        outcome.timer_ms = min((self._next_time(cell, time_ms) for cell in first_of if cell is not None), default=None)
        return outcome

    def early(self, record: Record, floor_ms: int) -> list[Firing]:
        """Return the windows that are not over and have tuples that no emitted window had."""
        pending = record[1].pop(PENDING, {})
        ends = {
            end
            for cell in pending
            for end in ([cell + self._size] if self._is_window(cell) else self._ends(cell))
            if end > floor_ms
        }
        firings: list[Firing] = []
        for end_ms in sorted(ends):
            self._fire(record, end_ms, "early", firings)
        return firings

    def _is_window(self, cell: int) -> bool:
        """True if a cell is a whole window."""
        return not self._has_panes or self._every == self._size

    def _last_start(self, at_ms: int) -> int:
        """Return the start of the last window that a time is in."""
        return at_ms - (at_ms - self._offset) % self._every

    def _next_start(self, at_ms: int) -> int:
        """Return the first start of a window after a time."""
        return self._last_start(at_ms) + self._every

    def _next_end(self, at_ms: int) -> int:
        """Return the first end of a window after a time."""
        return at_ms + self._every - (at_ms - self._offset - self._size) % self._every

    def _ends(self, at_ms: int) -> range:
        """Return the ends of the windows that a time is in."""
        return range(self._next_end(at_ms), self._last_start(at_ms) + self._size + 1, self._every)

    def _next_time(self, cell: int, after_ms: int) -> int:
        """Return the first time after another at which something happens to a cell: an end, or its removal."""
        last_end = (self._last_start(cell) if self._has_panes else cell) + self._size
        if last_end <= after_ms:
            return last_end + self._lateness
        return max(self._next_end(cell), self._next_end(after_ms)) if self._has_panes else last_end

    def _cells_of(self, at_ms: int, floor_ms: int) -> list[int]:
        """Return the cells that take a tuple: its pane, or its windows that are not removed."""
        if not self._has_panes:
            return [end - self._size for end in self._ends(at_ms) if end + self._lateness > floor_ms]
        past = (at_ms - self._offset) % self._every
        return [at_ms - past if past < self._split else at_ms - past + self._split]

    def _put(self, record: Record, cells: Iterable[int], item: Any) -> list[int]:
        """Add a tuple to cells, to all or, if ``add`` raises, to none; return those that are new."""
        values = record[0]
        new = [cell for cell in cells if cell not in values]
        changed = {
            cell: self._add(self._initial() if (value := values.get(cell, MISSING)) is MISSING else value, item)
            for cell in cells
        }
        values.update(changed)
        return new

    def _fire_late(self, record: Record, at_ms: int, floor_ms: int, outcome: Outcome) -> None:
        """Emit the windows again that a late tuple is in, unless they are removed."""
        for end_ms in self._ends(at_ms):
            if end_ms <= floor_ms < end_ms + self._lateness:
                self._fire(record, end_ms, "late", outcome.firings)

    def _count(self, record: Record, cells: list[int], floor_ms: int, outcome: Outcome) -> None:
        for cell in cells:
            is_window = self._is_window(cell)
            if (cell if is_window else self._last_start(cell)) + self._size <= floor_ms:
                continue
            count = count_pending(record, cell)
            if self._early_count is not None and count >= self._early_count:
                drop_pending(record, [cell])
                self._fire(record, cell + self._size, "early", outcome.firings)

    def _fire(
        self, record: Record, end_ms: int, timing: Timing, firings: list[Firing], removed_before: int | None = None
    ) -> None:
        """Append a window if it has tuples. Its value is its own: no later tuple changes it.

        ``removed_before``: cells before this one are about to be removed, and need not be copied.
        """
        cells, start_ms = record[0], end_ms - self._size
        if self._is_window(start_ms):
            parts = [start_ms] if start_ms in cells else []
        else:
            parts = sorted(cell for cell in cells if start_ms <= cell < end_ms)
        if not parts:
            return
        value = cells[parts[0]]
        if removed_before is None or parts[0] >= removed_before:
            value = copy.deepcopy(value)
        for part in parts[1:]:
            value = self._merge(value, cells[part])
        firings.append((WindowBounds(start_ms, end_ms, timing), value))
