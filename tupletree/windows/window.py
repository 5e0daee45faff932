"""What ``execute_window`` is handed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tupletree.tuples import Tuple


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The tuples of one window, by time, and by arrival where times are equal.

    Attributes:
        tuples: all of them.
        new: those that were not in the last window that was evaluated.
        expired: those that were in the last window and are not in this one. ``tuples`` are those of the last window
            without ``expired`` and with ``new``. They may be acked already: read them, and do not anchor to them.
        start: when the window began, in seconds; None where its length is a number of tuples.
        end: when it ended, in seconds: a timestamp in event time, the Unix time of this machine in processing time.
    """

    tuples: list[Tuple]
    new: list[Tuple]
    expired: list[Tuple]
    start: float | None
    end: float

    def __len__(self) -> int:
        return len(self.tuples)

    def __iter__(self) -> Iterator[Tuple]:
        return iter(self.tuples)
