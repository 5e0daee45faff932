"""Two columns of 64-bit ids that grow together: roots and edges of rows, or roots and ack values of updates."""

from __future__ import annotations

from array import array

FIRST_ROOM = 64


class IdColumns:
    """Pairs of ids in order of arrival, stored as two arrays. Not thread-safe.

    When compiled, neither ``append`` nor ``add_at`` creates a Python object for an id.
    """

    __slots__ = ("_first", "_firsts", "_room", "_second", "_seconds", "count")

    def __init__(self) -> None:
        self.count = 0
        self._room = FIRST_ROOM
        self._firsts = array("Q", bytes(8 * FIRST_ROOM))
        self._seconds = array("Q", bytes(8 * FIRST_ROOM))
        self._first, self._second = self._firsts, self._seconds  # when compiled, raw memory: no objects are created

    def __len__(self) -> int:
        return self.count

    def append(self, first: int, second: int) -> None:
        """Append a pair."""
        at = self.count
        if at == self._room:
            self._make_room()
        self._first[at] = first
        self._second[at] = second
        self.count = at + 1

    def add_at(self, at: int, first: int, second: int) -> bool:
        """Xor ``second`` into pair ``at``. True if the pair exists and has this first id; otherwise nothing changes."""
        if not 0 <= at < self.count or self._first[at] != first:
            return False
        self._second[at] ^= second
        return True

    def columns(self) -> tuple[array[int], array[int]]:
        """Return copies of both columns: the first ids of all pairs, and the second ids."""
        return self._firsts[: self.count], self._seconds[: self.count]

    def clear(self) -> None:
        """Remove all pairs and keep the allocated memory."""
        self.count = 0

    def _make_room(self) -> None:
        fresh = array("Q", bytes(8 * self._room))
        self._room = 2 * self._room
        self._firsts, self._seconds = self._firsts + fresh, self._seconds + fresh
        self._first, self._second = self._firsts, self._seconds
