"""The argument of ``execute_window``."""

from __future__ import annotations  # pure

from collections.abc import Iterator
from dataclasses import dataclass

from tupletree.tuples import Tuple


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The tuples of one window, ordered by time, and by arrival if times are equal.

    Attributes:
        tuples: all tuples of the window: those of the last window, without ``expired`` and with ``new``.
        new: the tuples that were not in the last evaluated window.
        expired: the tuples of the last window that are not in this window. Do not anchor to them: they are possibly
            acked already.
        start: the start of the window in seconds; None if its length is a number of tuples.
        end: the end of the window in seconds: a timestamp in event time, the Unix time of this machine in processing
            time.
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
