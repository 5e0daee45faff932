"""The trees that a spout task waits for: what is looked into twice for each of them, at random, by their roots.

Two tables of one behaviour, that of a ``RotatingMap`` of two cohorts. In plain Python nothing is faster than its
dictionaries. Where compiled, ``PackedTrees`` makes no Python object of a root, and keeps in memory one after the other
what is put one after the other, and mostly ends so.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from tupletree._compiled import IS_COMPILED

from ..rotating_map import RotatingMap

FIRST_ROOM = 64


class PackedTrees:
    """Entries by root, in the order in which they were put; roots are 64 bits and not 0, entries not None.

    A log (``_roots``, ``_entries``) that is appended to, with an index of open addressing: the place in the log plus 1,
    or 0, found from the lowest bits of a root, which are random already (linear probing: Knuth, "The Art of Computer
    Programming" 3, 6.4, algorithm L). What ends leaves root 0 in the log. When the log is full, or a rotation leaves
    little in it, the rest moves together, into a log of at least twice its size; so the index is never more than half
    full, and ``add`` costs O(1) on the average. A slot takes 24 bytes.

    An ``add`` or ``put`` for which there is no memory changes nothing. Not thread-safe.
    """

    __slots__ = ("_end", "_entries", "_index", "_live", "_mask", "_old", "_roots", "room")

    def __init__(self) -> None:
        self.room = FIRST_ROOM  # slots of the log
        self._mask = 2 * FIRST_ROOM - 1
        self._roots = array("Q", bytes(8 * FIRST_ROOM))
        self._index = array("I", bytes(8 * FIRST_ROOM))
        self._entries: list[Any] = [None] * FIRST_ROOM
        self._live = self._end = 0
        self._old = 0  # before it the older cohort

    def add(self, root: int, entry: Any) -> None:
        """Put the entry of a root that is not here."""
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
        """Take the entry of a root out; None if there is none."""
        at = self._place(root)
        if at < 0:
            return None
        entry = self._entries[at]
        self._entries[at] = None
        self._roots[at] = 0
        self._live -= 1
        return entry

    def get(self, root: int) -> Any:
        """The entry of a root, or None. Looking does not make it younger."""
        at = self._place(root)
        return None if at < 0 else self._entries[at]

    def put(self, root: int, entry: Any) -> None:
        """Set the entry of a root and start its life again."""
        if self._end == self.room:
            self._make_room()  # before it is taken out: what cannot be put back must stay
        self.pop(root)
        self.add(root, entry)

    def pop_many(self, roots: Iterable[int]) -> list[Any]:
        """Take entries out and return those that were here, in the order of the roots.

        All are looked up first: a processor waits for several of these looks into memory at a time. Meanwhile no
        object is made that a garbage collection could begin with, whose finalizers might emit.
        """
        words = array("Q", roots)
        places = array("q", bytes(8 * len(words)))
        found: list[Any] = []
        entries = self._entries
        for at in range(len(words)):
            places[at] = self._place(words[at])
        for at in range(len(words)):
            place = places[at]
            if place >= 0 and entries[place] is not None:  # a root may be named twice
                found.append(entries[place])
                entries[place] = None
                self._roots[place] = 0
                self._live -= 1
        return found

    def oldest(self) -> list[int]:
        """The roots that the next ``rotate`` will forget."""
        return [root for root in self._roots[: self._old] if root]

    def rotate(self) -> dict[int, Any]:
        """Forget what was there at the last ``rotate`` already and was not put again since; return it."""
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
        """Where the entry of a root is in the log; -1 for nowhere."""
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
        """Let the log hold what has not ended only, in as much room as that needs."""
        room = FIRST_ROOM
        while room < 2 * self._live:
            room *= 2
        fresh_roots = array("Q", bytes(8 * room))
        fresh_index = array("I", bytes(8 * room))
        fresh_entries: list[Any] = [None] * room
        if self._live >= room:  # finalizers of the user ran meanwhile, and emitted: whoever called looks again
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
    """The same in dictionaries."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(2)

    def add(self, root: int, entry: Any) -> None:
        """Put the entry of a root that is not here."""
        self.buckets[0][root] = entry

    def pop(self, root: int, default: Any = None) -> Any:
        """Take the entry of a root out; of few it is not the younger cohort that has them."""
        entry = self.buckets[0].pop(root, None)
        return self.buckets[1].pop(root, default) if entry is None else entry

    def oldest(self) -> list[int]:
        """The roots that the next ``rotate`` will forget."""
        return list(self.buckets[1])


def pending_trees() -> PackedTrees | RotatingTrees:
    """What is the faster one here."""
    return PackedTrees() if IS_COMPILED else RotatingTrees()
