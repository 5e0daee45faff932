"""The entries of a ledger: a packed table, with running counts of entries by cohort, and of trees by birth.

An entry's state is one byte (acker/entry_state.py), which includes the number of its cohort. The youngest ``buckets``
cohorts are alive. A rotation expires the oldest cohort: from then on its entries no longer count. They are removed by
``clear`` in steps, by ``revive_trees``, or by the first update for their root.

The methods for a single entry compile to C. They collect their changes to ``trees`` and ``births``: call
``flush_counts`` after changing entries one by one.
"""

from __future__ import annotations  # pure

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .entry_state import COHORT, FAILED, OPEN
from .hash_table import U8, U32, U64, Index, NewEntries, Places, Table
from .verdicts import Totals, Verdicts, add_verdicts

MAX_COHORTS = 60  # of 63 numbers: one or two expired cohorts can still have entries
_WINDOW = 1 << 16  # slots scanned at once
_MAX_TICKS_COUNTED = 4096  # ticks
_LATEST = (1 << 32) - 1


class Ended:
    """A buffer of at most ``most`` ended trees, by spout task and root, to be reported together."""

    def __init__(self, most: int) -> None:
        self._tasks: U32 = np.empty(most, np.uint32)
        self._roots: U64 = np.empty(most, np.uint64)
        self._task_view, self._root_view = self._tasks.data, self._roots.data
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, task: int, root: int) -> None:
        self._task_view[self._count] = task
        self._root_view[self._count] = root
        self._count += 1

    def report(self, into: dict[int, array[int]]) -> None:
        if self._count:
            add_verdicts(into, self._tasks[: self._count], self._roots[: self._count])


class Entries:
    """Entries by root. Not thread-safe. Roots in one call are distinct. Births count ticks from the ledger's first."""

    def __init__(self, buckets: int, hash_key: int, totals: Totals) -> None:
        self.table = Table(hash_key)
        self.trees = 0
        """Number of entries whose init has arrived."""
        self.births: dict[int, int] = {}
        """Tick -> number of trees with an init that were born in that tick."""
        self._totals = totals
        self.cohort = buckets  # the youngest
        self._live_cohorts = list(range(buckets, 0, -1))  # youngest first
        self._cohort_sizes = array("q", bytes(8 * (COHORT + 1)))  # entries of each cohort
        self._dead = 0  # entries whose cohort has expired
        self._is_dead: NDArray[np.bool_] = np.zeros(256, np.bool_)  # by state
        self._dead_view = self._is_dead.data.cast("B")
        self._late = Verdicts()  # verdicts on expired trees that updates came across
        self._born = 0
        self._change = 0  # in the number of trees born at ``_born``, not yet in ``trees`` and ``births``

    def __len__(self) -> int:
        return len(self.table) - self._dead

    def value(self, root: int) -> int | None:
        """Return the ack value of a root, or None if there is no entry."""
        slot = self.find_one(root, self.table.hash_one(root))
        return None if slot < 0 else int(self.table.value_view[slot])

    # Batches

    def find(self, roots: U64, hashes: U64) -> Places:
        """Return the places of roots. The slot is -1 for a root without a live entry."""
        places = self.table.find(roots, hashes)
        if self._dead:
            found = places.slots[places.slots >= 0]
            if self._expire(found[self._is_dead.take(self.table.states.take(found))], self._late):
                places = self.table.find(roots, hashes)
        return places

    def add(self, roots: U64, hashes: U64, values: U64 | int, tasks: U32 | int, born: int, flags: int) -> None:
        """Add entries for roots that are absent."""
        self.table.insert(NewEntries(roots, values, tasks, born, flags | self.cohort), hashes)
        self._cohort_sizes[self.cohort] += len(roots)
        if not flags & OPEN:
            self._begin_trees(born, len(roots))

    def touch(self, slots: Index, flags: int = 0) -> None:
        """Move updated entries to the youngest cohort, which renews their lifetime, and set ``flags``."""
        states = self.table.states
        old = states.take(slots)
        is_old = (old & np.uint8(COHORT)) != self.cohort
        if is_old.any():
            self._uncount(old[is_old])
            self._cohort_sizes[self.cohort] += int(np.count_nonzero(is_old))
            states[slots] = old & np.uint8(OPEN | FAILED) | np.uint8(self.cohort | flags)
        elif flags:
            states[slots] = old | np.uint8(flags)

    def record_inits(self, slots: Index, tasks: U32) -> None:
        """Record that the inits of these entries have arrived."""
        self.table.tasks[slots] = tasks
        self.table.states[slots] &= np.uint8(255 ^ OPEN)
        for born, trees in _counted(self.table.births.take(slots)):
            self._begin_trees(born, trees)

    def report(self, slots: Index, roots: U64, into: dict[int, array[int]]) -> None:
        """Report ended trees, all with a known task. The caller must remove them next."""
        add_verdicts(into, self.table.tasks.take(slots), roots)
        self._end_trees(self.table.births.take(slots))

    def remove(self, places: Places) -> None:
        """Remove entries that were touched in this batch."""
        self._cohort_sizes[self.cohort] -= len(places.slots)
        self.table.remove(places)

    def _begin_trees(self, born: int, trees: int) -> None:
        self.trees += trees
        self.births[born] = self.births.get(born, 0) + trees

    def _end_trees(self, births: U32) -> None:
        self.trees -= len(births)
        for born, trees in _counted(births):
            self.births[born] -= trees
            if not self.births[born]:
                del self.births[born]

    def _uncount(self, states: U8) -> None:
        counts = np.bincount(states & np.uint8(COHORT))
        for cohort in counts.nonzero()[0].tolist():
            self._cohort_sizes[cohort] -= int(counts[cohort])

    # One entry

    def find_one(self, root: int, mixed: int) -> int:
        """Return the slot of a root, or -1. ``mixed`` is the root's hash."""
        slot = self.table.find_one(root, mixed)
        if self._dead and slot >= 0 and self._dead_view[self.table.state_view[slot]]:
            self._expire(np.array([slot]), self._late)
            return -1
        return slot

    def add_one(self, root: int, mixed: int, value: int, task: int, born: int, flags: int) -> None:
        """Add an entry for a root that is absent."""
        self.table.insert_one(root, mixed, value, task, born, flags | self.cohort)
        self._cohort_sizes[self.cohort] += 1
        if not flags & OPEN:
            self._count_tree(born, 1)

    def touch_one(self, slot: int, flags: int = 0) -> int:
        """Renew an entry's lifetime, set ``flags`` and return the new state."""
        old: int = self.table.state_view[slot]
        new = old & ~COHORT | self.cohort | flags
        if new != old:
            self.table.state_view[slot] = new
            self._cohort_sizes[old & COHORT] -= 1
            self._cohort_sizes[self.cohort] += 1
        return new

    def record_init_one(self, slot: int, task: int) -> None:
        """Record that an entry's init has arrived."""
        self.table.task_view[slot] = task
        self.table.state_view[slot] &= 255 - OPEN
        self._count_tree(self.table.birth_view[slot], 1)

    def end_one(self, slot: int, root: int, mixed: int, ended: Ended) -> None:
        """Remove an ended tree with a known task that was touched in this batch, and add it to ``ended``."""
        ended.add(self.table.task_view[slot], root)
        self._count_tree(self.table.birth_view[slot], -1)
        self._cohort_sizes[self.cohort] -= 1
        self.table.remove_one(slot, mixed)

    def _count_tree(self, born: int, change: int) -> None:
        if born != self._born:
            self.flush_counts()
            self._born = born
        self._change += change

    def flush_counts(self) -> None:
        """Update ``trees`` and ``births`` with the changes made one by one."""
        if self._change:
            change, self._change = self._change, 0
            self._begin_trees(self._born, change)
            if not self.births[self._born]:
                del self.births[self._born]

    # Rotation

    def age(self) -> None:
        """Begin a new cohort and expire the oldest."""
        young = next(
            number
            for number in range(1, COHORT + 1)
            if number not in self._live_cohorts and not self._cohort_sizes[number]
        )
        self._dead += self._cohort_sizes[self._live_cohorts.pop()]
        self._live_cohorts.insert(0, young)
        self.cohort = young
        self._is_dead[:] = ~np.isin(np.arange(256) & COHORT, [0, *self._live_cohorts])

    def clear(self, step: int) -> Iterator[Verdicts]:
        """Remove dead entries, at most ``step`` at a time, and yield the expired trees."""
        start = 0
        while self._dead:
            if start >= len(self.table):
                start = 0  # updates between the steps have moved some entries
            dead = self._dead_from(start)[:step]
            if dead.size:
                verdicts, self._late = self._late, Verdicts()
                self._expire(dead, verdicts)
                yield verdicts
            else:
                start += _WINDOW
        if self._late:
            verdicts, self._late = self._late, Verdicts()
            yield verdicts

    def revive_trees(self) -> None:
        """Move dead trees to the youngest cohort, and remove all other dead entries."""
        while self._dead:
            for start in range(0, len(self.table), _WINDOW):
                dead = self._dead_from(start)
                is_tree = self.table.states.take(dead) < OPEN
                trees = dead[is_tree]
                self._dead -= len(trees)
                self.touch(trees)
                self._expire(dead[~is_tree], self._late)

    def _dead_from(self, start: int) -> Index:
        """Return the slots in a window that hold dead entries."""
        return self._is_dead.take(self.table.states[start : start + _WINDOW]).nonzero()[0] + start

    def _expire(self, slots: Index, into: Verdicts) -> bool:
        """Remove dead entries and report those with a task. Returns True if there were any."""
        if not slots.size:
            return False
        table = self.table
        roots, states = table.roots.take(slots), table.states.take(slots)
        is_tree = states < OPEN
        trees = slots[is_tree]
        if trees.size:
            self.report(trees, roots[is_tree], into.expired)
            self._totals.timeouts += len(trees)
        self._uncount(states)
        self._dead -= len(slots)
        table.remove(table.places(slots))
        return True


def _counted(ticks: U32) -> list[tuple[int, int]]:
    """Return each tick with the number of its occurrences."""
    first = int(ticks.min(initial=_LATEST))
    since = ticks - np.uint32(first)
    if int(since.max(initial=0)) < _MAX_TICKS_COUNTED:
        counts = np.bincount(since)
        found = counts.nonzero()[0]
        return list(zip((found + first).tolist(), counts[found].tolist(), strict=True))
    found, counts = np.unique(ticks, return_counts=True)
    return list(zip(found.tolist(), counts.tolist(), strict=True))
