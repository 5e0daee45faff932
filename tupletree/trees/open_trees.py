"""The trees that a client has begun and that have not ended, with their deadlines.

Whoever removes a tree ends it: a verdict, its deadline, or the end of the connection. So each tree ends once. Pure.
"""

from __future__ import annotations  # pure

import heapq
from typing import Final, Generic, TypeVar

_SPARE: Final = 1_000

Waiting = TypeVar("Waiting")


class OpenTrees(Generic[Waiting]):
    """Trees by root, each with who waits for it. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[float, Waiting]] = {}
        self._deadlines: list[tuple[float, int]] = []  # also of trees that have ended

    def __len__(self) -> int:
        return len(self._open)

    @property
    def next_deadline_s(self) -> float | None:
        """The time of the next deadline, or an earlier time; None without trees."""
        return self._deadlines[0][0] if self._open else None

    def begin(self, root: int, deadline_s: float, waiting: Waiting) -> None:
        """Add a tree."""
        self._open[root] = deadline_s, waiting
        heapq.heappush(self._deadlines, (deadline_s, root))

    def end(self, root: int) -> Waiting | None:
        """Remove a tree, and return who waits for it; None if it has ended, or is another client's."""
        found = self._open.pop(root, None)
        if len(self._deadlines) > 2 * len(self._open) + _SPARE:
            self._deadlines = [(deadline_s, one) for one, (deadline_s, _) in self._open.items()]
            heapq.heapify(self._deadlines)
        return None if found is None else found[1]

    def due(self, now_s: float) -> dict[int, Waiting]:
        """Remove and return the trees whose deadline has come."""
        found: dict[int, Waiting] = {}
        while self._deadlines and self._deadlines[0][0] <= now_s:
            _, root = heapq.heappop(self._deadlines)
            if root in self._open:
                found[root] = self._open.pop(root)[1]
        return found

    def end_all(self) -> dict[int, Waiting]:
        """Remove and return all trees."""
        found = {root: waiting for root, (_, waiting) in self._open.items()}
        self._open.clear()
        self._deadlines.clear()
        return found
