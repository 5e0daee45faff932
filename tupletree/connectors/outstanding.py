"""The messages that a connection has delivered and that are not acknowledged: how many, and what is due for them."""

from __future__ import annotations  # pure

import heapq
from typing import Any


class Outstanding:
    """The delivered messages of one connection. Time is an argument, in seconds of any clock."""

    def __init__(self, prefetch: int, keep_every_s: float | None, now_s: float) -> None:
        self._prefetch = prefetch
        self._keep_every_s = keep_every_s
        self._keep_at_s = now_s + (keep_every_s or 0)
        self._handles: dict[Any, None] = {}
        self._releases: list[tuple[float, int, Any]] = []
        self._number = 0

    def __len__(self) -> int:
        """The number of messages that are delivered, and neither acknowledged nor released."""
        return len(self._handles)

    @property
    def room(self) -> int:
        """The number of further messages that may be received."""
        return self._prefetch - len(self._handles)

    def add(self, handle: Any) -> None:
        """Add a delivered message."""
        self._handles[handle] = None

    def remove(self, handle: Any) -> bool:
        """Remove a message that is being acknowledged or released. Return false if it is not outstanding."""
        return self._handles.pop(handle, self) is None

    def release_at(self, at_s: float, handle: Any) -> None:
        """Have a message released later. It stays outstanding until then."""
        self._number += 1
        heapq.heappush(self._releases, (at_s, self._number, handle))

    def due_releases(self, now_s: float) -> list[Any]:
        """Remove and return the messages to release now."""
        due = []
        while self._releases and self._releases[0][0] <= now_s:
            handle = heapq.heappop(self._releases)[2]
            if self.remove(handle):
                due.append(handle)
        return due

    def due_keeps(self, now_s: float) -> list[Any]:
        """Return the messages whose time limits restart now, if it is time."""
        if self._keep_every_s is None or now_s < self._keep_at_s:
            return []
        self._keep_at_s = now_s + self._keep_every_s
        return list(self._handles)
