"""The windows of one key as they are stored, and what happens to them.

The value of a key is a *record*, a list of two dicts:

    cells     accumulators, by a number that orders them: the start of a pane, of a window or of a session
    extras    PENDING: by cell, the number of tuples since the window was last emitted; only with early triggers
              EARLY: the time of the timer that emits windows early, while it is set
              NEXT: the number of tuples of the key so far; only of a CountWindow

A record is changed in place and then assigned, so that a tuple costs one read and one write of the state.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tupletree.keyed.windows.kinds import WindowBounds

Record = list[dict[Any, Any]]
Firing = tuple[WindowBounds, Any]
"""A window that is to be emitted, and its value."""

PENDING: Final = "pending"
EARLY: Final = "early"
NEXT: Final = "next"
MISSING: Final[Any] = object()


class Aggregate(Protocol):
    """The methods of a KeyedWindow that make its accumulators."""

    def initial(self) -> Any: ...

    def add(self, value: Any, tup: Any) -> Any: ...

    def merge(self, first: Any, second: Any) -> Any: ...


@dataclass(slots=True)
class Outcome:
    """The consequences of a tuple or of a time: windows to emit, in order, and at most one timer to set."""

    firings: list[Firing] = field(default_factory=list)
    timer_ms: int | None = None


LATE: Final = Outcome()
"""The outcome of a tuple all windows of which are over. The record is unchanged."""


class Windows(Protocol):
    """Windows of one kind. Times are whole milliseconds; ``floor_ms``: every time up to there has been reached."""

    def add(self, record: Record, item: Any, at_ms: int, floor_ms: int) -> Outcome | None:
        """Add a tuple. None: nothing else is to be done."""

    def reach(self, record: Record, time_ms: int) -> Outcome:
        """Emit the windows that end at a time, and remove those that are not needed any more."""

    def early(self, record: Record, floor_ms: int) -> list[Firing]:
        """Return the windows that are not over and have tuples that no emitted window had."""


def new_record() -> Record:
    """Return the record of a key without windows."""
    return [{}, {}]


def is_empty(record: Record) -> bool:
    """True if nothing of a record is worth storing."""
    return not record[0] and NEXT not in record[1]


def count_pending(record: Record, cell: int) -> int:
    """Count a tuple of a cell, and return the number of its tuples since its window was last emitted."""
    pending = record[1].setdefault(PENDING, {})
    count: int = pending.get(cell, 0) + 1
    pending[cell] = count
    return count


def drop_pending(record: Record, cells: Iterable[int]) -> int:
    """Forget the counts of cells, and return their sum."""
    pending = record[1].get(PENDING)
    if pending is None:
        return 0
    dropped: int = sum(pending.pop(cell, 0) for cell in cells)
    if not pending:
        del record[1][PENDING]
    return dropped
