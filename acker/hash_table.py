"""A packed hash table of pending trees: flat arrays, searched and changed in whole batches.

    slot     root 8 | ack value 8 | spout task 4 | birth 4 | state 1 | next slot 4      one array per field
    bucket   first slot 4                                                               two per entry

Entries lie densely in the slots 0, 1, 2, …: a new entry is appended, and the last entries move into the slots that a
removal empties. The hash of a root selects a bucket; the entries of a bucket form a chain of slots. A batch is searched
in a few rounds of a handful of numpy calls each: first the first slots of all buckets, then the next slot for every
root not found yet, until none is left. With half an entry per bucket that takes four to six rounds, most of them tiny.

The number of buckets grows with the number of entries by linear hashing (Litwin 1980): bucket 0 moves the entries whose
next bit of the hash is set to a new bucket 2^k, bucket 1 to 2^k + 1, and so on, for as many buckets as a batch needs.
(A single insertion doubles the buckets or adds 4,096, whichever is less: splitting two costs as much as 1,000.)
Arrays grow by a thirty-second, in place: realloc moves large arrays by remapping (on Linux; other systems can copy).
So no update ever waits for a table to be rebuilt, and there is never a second table. Shrinking is the reverse.

An entry takes 29 bytes, plus 8 for its two buckets, plus a thirty-second of both as spare room.

The methods for a single entry (``find_one`` and so on) serve small batches, for which a dozen numpy calls would cost
more. Compiled to C, they access the arrays' memory directly; ``_release_views`` and ``_renew_views`` enclose every step
that moves this memory.
"""

from __future__ import annotations  # pure

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .root_hash import KeyedHash

U64: TypeAlias = NDArray[np.uint64]
U32: TypeAlias = NDArray[np.uint32]
I32: TypeAlias = NDArray[np.int32]
U8: TypeAlias = NDArray[np.uint8]
Index: TypeAlias = NDArray[np.int64]

_MIN_SIZE = 64  # slots and buckets
_MAX_SINGLE = 16  # up to this number, entries are faster handled one by one
_MIN_GROWTH = 4096  # slots and buckets: small tables double, others grow by at least this
_MAX_REBUCKETED = 1 << 15  # maximum number of buckets that one removal gives up
_32 = np.uint64(32)


@dataclass(slots=True)
class NewEntries:
    """Entries to insert, one array per column. A single number stands for the same value in all rows."""

    roots: U64
    values: U64 | int
    tasks: U32 | int
    birth: int
    state: int


@dataclass(slots=True)
class Places:
    """The positions of roots, present or absent: arrays of the same length. ``before`` is the slot that points here."""

    slots: Index  # -1: absent
    before: Index  # -1: the bucket
    bucket: Index

    def take(self, numbers: Index) -> Places:
        """Return the places with these numbers."""
        return Places(self.slots.take(numbers), self.before.take(numbers), self.bucket.take(numbers))


class Table:
    """Entries by root. Not thread-safe.

    ``values``, ``tasks``, ``births`` and ``states`` are indexed by slot and may be changed in place. Slots and arrays
    are valid until the next insertion or removal. No entry has state 0; the caller defines all other states. The roots
    given to one call must be distinct.
    """

    def __init__(self, key: int = 0) -> None:
        self._hash = KeyedHash(key)
        self.roots: U64 = np.zeros(_MIN_SIZE, np.uint64)
        self.values: U64 = np.zeros(_MIN_SIZE, np.uint64)
        self.tasks: U32 = np.zeros(_MIN_SIZE, np.uint32)
        self.births: U32 = np.zeros(_MIN_SIZE, np.uint32)
        self.states: U8 = np.zeros(_MIN_SIZE, np.uint8)
        self._next: I32 = np.full(_MIN_SIZE, -1, np.int32)
        self._heads: I32 = np.full(_MIN_SIZE, -1, np.int32)
        self._buckets = self._half = _MIN_SIZE  # buckets in use; the largest power of two up to their number
        self._count = 0
        self._release_views()
        self._renew_views()

    def __len__(self) -> int:
        """Number of entries. They occupy the slots below this number."""
        return self._count

    @property
    def nbytes(self) -> int:
        """Size of all arrays in bytes."""
        return sum(column.nbytes for column in (*self._columns(), self._heads))

    # Batches

    def hashes(self, roots: U64) -> U64:
        """Return the hashes of roots."""
        return self._hash.many(roots)

    def find(self, roots: U64, hashes: U64) -> Places:
        """Return the place of each root."""
        bucket = self._bucket(hashes)
        slots = self._heads.take(bucket).astype(np.int64)
        before = np.full_like(slots, -1)
        left = ((self.roots.take(slots) != roots) & (slots >= 0)).nonzero()[0]
        while left.size > _MAX_SINGLE:
            at = slots.take(left)
            before[left] = at
            slots[left] = at = self._next.take(at)
            left = left.take(((self.roots.take(at) != roots.take(left)) & (at >= 0)).nonzero()[0])
        for number in left.tolist():
            root, slot, previous = int(roots[number]), int(slots[number]), int(before[number])
            while slot >= 0 and self.root_view[slot] != root:
                previous, slot = slot, self._next_view[slot]
            slots[number], before[number] = slot, previous
        return Places(slots, before, bucket)

    def places(self, slots: Index) -> Places:
        """Return the places of entries whose slots are known."""
        bucket = self._bucket(self.hashes(self.roots.take(slots)))
        return Places(slots, self._before(slots, bucket), bucket)

    def insert(self, entries: NewEntries, hashes: U64) -> None:
        """Add entries whose roots are absent."""
        first, count = self._count, self._count + len(hashes)
        self._make_room(count)
        new = slice(first, count)
        self.roots[new] = entries.roots
        self.values[new] = entries.values
        self.tasks[new] = entries.tasks
        self.births[new] = entries.birth
        self.states[new] = entries.state
        self._link(np.arange(first, count), hashes)
        self._count = count

    def remove(self, places: Places) -> None:
        """Remove entries."""
        slots, before, bucket = places.slots, places.before, places.bucket
        after = self._next.take(slots).astype(np.int64)
        self.states[slots] = 0
        while (gone := (self.states.take(after) == 0) & (after >= 0)).any():  # neighbours in a chain, both removed
            after[gone] = self._next.take(after[gone])
        stays = (self.states.take(before) != 0) | (before < 0)
        if not stays.all():
            before, bucket, after = before[stays], bucket[stays], after[stays]
        self._link_to(before, bucket, after)
        self._fill_gaps(slots)
        self._shrink()

    # One entry

    def hash_one(self, root: int) -> int:
        return self._hash.one(root)

    def find_one(self, root: int, mixed: int) -> int:
        """Return the slot of a root, or -1. ``mixed`` is the root's hash."""
        slot: int = self._head_view[self._bucket_one(mixed)]
        while slot >= 0 and self.root_view[slot] != root:
            slot = self._next_view[slot]
        return slot

    def insert_one(self, root: int, mixed: int, value: int, task: int, birth: int, state: int) -> None:
        """Add an entry whose root is absent."""
        slot = self._count
        count = slot + 1
        if 2 * count > self._buckets or count > len(self.roots):
            self._make_room(count)
        self._count = count
        bucket = self._bucket_one(mixed)
        self.root_view[slot] = root
        self.value_view[slot] = value
        self.task_view[slot] = task
        self.birth_view[slot] = birth
        self.state_view[slot] = state
        self._next_view[slot] = self._head_view[bucket]
        self._head_view[bucket] = slot

    def remove_one(self, slot: int, mixed: int) -> None:
        """Remove the entry in a slot. ``mixed`` is the hash of its root."""
        self._redirect(slot, mixed, self._next_view[slot])
        last = self._count = self._count - 1
        if slot != last:
            self._redirect(last, self.hash_one(self.root_view[last]), slot)
            self.root_view[slot] = self.root_view[last]
            self.value_view[slot] = self.value_view[last]
            self.task_view[slot] = self.task_view[last]
            self.birth_view[slot] = self.birth_view[last]
            self.state_view[slot] = self.state_view[last]
            self._next_view[slot] = self._next_view[last]
        self.state_view[last] = 0
        if not last & 63:
            self._shrink()

    def _redirect(self, slot: int, mixed: int, to: int) -> None:
        """Make the pointer to ``slot`` point to ``to``."""
        bucket = self._bucket_one(mixed)
        at = self._head_view[bucket]
        if at == slot:
            self._head_view[bucket] = to
        else:
            while (after := self._next_view[at]) != slot:
                at = after
            self._next_view[at] = to

    # Chains

    def _bucket(self, hashes: U64) -> Index:
        bucket: Index = (hashes >> _32).view(np.int64)
        bucket &= 2 * self._half - 1
        bucket -= (bucket >= self._buckets) * self._half
        return bucket

    def _bucket_one(self, mixed: int) -> int:
        bucket = mixed >> 32 & 2 * self._half - 1
        return bucket if bucket < self._buckets else bucket - self._half

    def _link(self, slots: Index, hashes: U64) -> None:
        """Put each of these slots at the head of its chain."""
        bucket = self._bucket(hashes)
        while slots.size:
            self._next[slots] = self._heads.take(bucket)
            self._heads[bucket] = slots  # of several slots in one bucket the last wins; the others are retried
            lost = self._heads.take(bucket) != slots
            slots, bucket = slots[lost], bucket[lost]

    def _before(self, slots: Index, bucket: Index) -> Index:
        """Return the slot that points to each slot, or -1 if the bucket does."""
        at = self._heads.take(bucket)
        before = np.full_like(slots, -1)
        left = (at != slots).nonzero()[0]
        at = at.take(left)
        while left.size:
            before[left] = at
            at = self._next.take(at)
            is_on = at != slots.take(left)
            left, at = left[is_on], at[is_on]
        return before

    def _link_to(self, before: Index, bucket: Index, to: Index) -> None:
        """Make each slot in ``before`` point to ``to``; if the slot is -1, the bucket."""
        first = (before < 0).nonzero()[0]
        self._heads[bucket.take(first)] = to.take(first)
        later = (before >= 0).nonzero()[0]
        self._next[before.take(later)] = to.take(later)

    def _fill_gaps(self, removed: Index) -> None:
        """Move the last entries into the emptied slots."""
        end = self._count - len(removed)
        moving = self.states[end : self._count].nonzero()[0] + end
        into = removed[removed < end]
        places = self.places(moving)
        self._link_to(places.before, places.bucket, into)
        for column in self._columns():
            column[into] = column.take(moving)
        self.states[end : self._count] = 0
        self._count = end

    # Size

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.roots, self.values, self.tasks, self.births, self.states, self._next

    def _make_room(self, count: int) -> None:
        """Make room for ``count`` entries, with two buckets each.

        If memory runs out, the table is unchanged except for unused room.
        """
        if count > len(self.roots):
            self._resize(count + max(count // 32, min(count, _MIN_GROWTH)) + _MIN_SIZE)
        while self._buckets < 2 * count:
            end = min(max(2 * count, self._buckets + min(self._buckets, _MIN_GROWTH)), 2 * self._half)
            if end > len(self._heads):
                self._resize_heads(end + end // 32)
            slots = self._slots_of(self._buckets - self._half, end - self._half)
            hashes = self.hashes(self.roots.take(slots))
            self._heads[self._buckets - self._half : end - self._half] = -1
            self._heads[self._buckets : end] = -1
            self._set_buckets(end)
            self._link(slots, hashes)

    def _shrink(self) -> None:
        """Release some of the unused room, if there is much."""
        if self._buckets > 8 * self._count + _MIN_GROWTH:
            half = self._half if self._buckets > self._half else self._half // 2
            end = max(half, 4 * self._count, _MIN_SIZE, self._buckets - _MAX_REBUCKETED)
            slots = self._slots_of(end, self._buckets)
            self._set_buckets(end)
            self._link(slots, self.hashes(self.roots.take(slots)))
            if len(self._heads) > 2 * end:
                self._resize_heads(end + end // 32)
        if len(self.roots) > self._count + self._count // 2 + 4096:
            self._resize(self._count + self._count // 8 + _MIN_SIZE)

    def _set_buckets(self, buckets: int) -> None:
        self._buckets = buckets
        self._half = 1 << buckets.bit_length() - 1

    def _slots_of(self, first: int, end: int) -> Index:
        """Return the slots of all entries in these buckets."""
        slots = self._heads[first:end]
        found = [slots := slots[slots >= 0]]
        while slots.size:
            slots = self._next.take(slots)
            found.append(slots := slots[slots >= 0])
        return np.concatenate(found).astype(np.int64)

    def _resize(self, slots: int) -> None:
        roots, *others = self._columns()
        # The number of slots is the length of ``roots``, which never exceeds the others, even if a step fails.
        columns = (*others, roots) if slots > len(roots) else (roots, *others)
        self._release_views()
        try:
            for column in columns:
                column.resize(slots, refcheck=False)
        finally:
            self._renew_views()

    def _resize_heads(self, buckets: int) -> None:
        self._release_views()
        try:
            self._heads.resize(buckets, refcheck=False)
        finally:
            self._renew_views()

    def _release_views(self) -> None:
        """Release the memoryviews: an array cannot be resized while a view exists."""
        nothing: Any = None
        self.root_view = self.value_view = self.task_view = self.birth_view = self.state_view = nothing
        self._next_view = self._head_view = nothing

    def _renew_views(self) -> None:
        """Renew the memoryviews: Python reads single items three times as fast from them as from an array."""
        self.root_view, self.value_view = self.roots.data, self.values.data
        self.task_view, self.birth_view = self.tasks.data, self.births.data
        self.state_view = self.states.data
        self._next_view, self._head_view = self._next.data, self._heads.data
