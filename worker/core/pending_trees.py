"""The pending trees of a spout task: a table with two random accesses per tree, by root.

There are two implementations, which both behave like a ``RotatingMap`` of two cohorts. In plain Python, nothing is
faster than the dictionaries of ``RotatingMap``. When compiled, ``PackedTrees`` creates no Python object for a root.
It stores entries in the order in which they are put, which is mostly the order in which they end.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from tupletree._compiled import IS_COMPILED

from ..rotating_map import RotatingMap

FIRST_ROOM = 64


class PackedTrees:
    """Entries by root, in the order of ``put``. Roots are 64-bit and not 0; entries are not None.

    Entries are appended to a log (``_roots``, ``_entries``). An index with open addressing holds the position in the
    log plus 1, or 0. The lowest bits of a root, which are random already, give the slot (linear probing: Knuth, "The
    Art of Computer Programming" 3, 6.4, algorithm L). An entry that ends leaves root 0 in the log. When the log is
    full, or a rotation leaves few entries, the live entries are compacted into a log of at least twice their number. So
    the index is never more than half full, and ``add`` costs O(1) on average. A slot takes 24 bytes.

    An ``add`` or ``put`` that runs out of memory changes nothing. Not thread-safe.
    """

    __slots__ = ("_end", "_entries", "_index", "_live", "_mask", "_old", "_roots", "room")

    def __init__(self) -> None:
        self.room = FIRST_ROOM  # slots of the log
        self._mask = 2 * FIRST_ROOM - 1
        self._roots = array("Q", bytes(8 * FIRST_ROOM))
        self._index = array("I", bytes(8 * FIRST_ROOM))
        self._entries: list[Any] = [None] * FIRST_ROOM
        self._live = self._end = 0
        self._old = 0  # end of the older cohort in the log

    def add(self, root: int, entry: Any) -> None:
        """Add the entry of a new root."""
        if self._end == self.room:
            self._make_room()
        at = self._end
        self._roots[at] = root
        self._entries[at] = entry
        slot = root & self._mask
        while self._index[slot]:
            slot = (slot + 1) & self._mask
        self._end = at + 1
        self._index[slot] = self._end
        self._live += 1

    def pop(self, root: int) -> Any:
        """Remove and return the entry of a root, or return None."""
        at = self._place(root)
        if at < 0:
            return None
        entry = self._entries[at]
        self._entries[at] = None
        self._roots[at] = 0
        self._live -= 1
        return entry

    def get(self, root: int) -> Any:
        """Return the entry of a root, or None. The entry does not become younger."""
        at = self._place(root)
        return None if at < 0 else self._entries[at]

    def put(self, root: int, entry: Any) -> None:
        """Set the entry of a root and restart its lifetime."""
        if self._end == self.room:
            self._make_room()  # before the pop: if there is no memory, the old entry must stay
        self.pop(root)
        self.add(root, entry)

    def pop_many(self, roots: Iterable[int]) -> list[Any]:
        """Remove and return the entries of these roots, in the order of the roots. Unknown roots are skipped.

        All lookups come first, because a processor overlaps several memory accesses. No object is allocated meanwhile
        that could start a garbage collection, whose finalizers might emit.
        """
        words = array("Q", roots)
        places = array("q", bytes(8 * len(words)))
        found: list[Any] = []
        entries = self._entries
        for at in range(len(words)):
            places[at] = self._place(words[at])
        for at in range(len(words)):
            place = places[at]
            if place >= 0 and entries[place] is not None:  # a root can occur twice
                found.append(entries[place])
                entries[place] = None
                self._roots[place] = 0
                self._live -= 1
        return found

    def oldest(self) -> list[int]:
        """Return the roots that the next ``rotate`` will remove."""
        return [root for root in self._roots[: self._old] if root]

    def rotate(self) -> dict[int, Any]:
        """Remove and return the entries that were last put before the previous ``rotate``."""
        if self.room > max(FIRST_ROOM, 8 * self._live):
            self._move_together()
        expired = {root: self.pop(root) for root in self.oldest()}
        self._old = self._end
        return expired

    def __iter__(self) -> Iterator[int]:
        return iter([root for root in self._roots[: self._end] if root])

    def __len__(self) -> int:
        return self._live

    def _place(self, root: int) -> int:
        """Return the position of a root's entry in the log, or -1."""
        slot = root & self._mask
        while self._index[slot]:
            at = self._index[slot] - 1
            if self._roots[at] == root and root:
                return at
            slot = (slot + 1) & self._mask
        return -1

    def _make_room(self) -> None:
        while self._end == self.room:
            self._move_together()

    def _move_together(self) -> None:
        """Compact the log to its live entries and resize it to fit them."""
        room = FIRST_ROOM
        while room < 2 * self._live:
            room *= 2
        fresh_roots = array("Q", bytes(8 * room))
        fresh_index = array("I", bytes(8 * room))
        fresh_entries: list[Any] = [None] * room
        if self._live >= room:  # user finalizers ran meanwhile and emitted: the caller retries
            return
        roots, entries, end, old = self._roots, self._entries, self._end, self._old
        self._roots = fresh_roots
        self._index = fresh_index
        self._entries = fresh_entries
        self.room = room
        self._mask = 2 * room - 1
        self._live = self._end = self._old = 0
        for at in range(end):
            if at == old:
                self._old = self._end
            if roots[at]:
                self.add(roots[at], entries[at])
        if old == end:
            self._old = self._end


class RotatingTrees(RotatingMap[int, Any]):
    """Implementation with the dictionaries of ``RotatingMap``."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(2)

    def add(self, root: int, entry: Any) -> None:
        """Add the entry of a new root."""
        self.buckets[0][root] = entry

    def pop(self, root: int, default: Any = None) -> Any:
        """Remove and return a root's entry. Most are in the younger cohort."""
        entry = self.buckets[0].pop(root, None)
        return self.buckets[1].pop(root, default) if entry is None else entry

    def oldest(self) -> list[int]:
        """Return the roots that the next ``rotate`` will remove."""
        return list(self.buckets[1])


def pending_trees() -> PackedTrees | RotatingTrees:
    """Return an empty table of the faster implementation here."""
    return PackedTrees() if IS_COMPILED else RotatingTrees()
