"""A map whose entries age in cohorts, used to expire tuple trees.

Theory (https://storm.apache.org/releases/current/Acking-framework-implementation.html).
Entries are held in ``buckets`` dictionaries. Each dictionary is a cohort whose entries expire together. ``put`` moves
an entry to the youngest bucket, whichever bucket held the entry before. ``rotate`` removes the oldest bucket and adds
a new youngest bucket.

    put ->  [ youngest | ... | oldest ]  -> rotate returns these

The expiry window. An entry is returned by exactly the ``buckets``-th ``rotate`` after its last ``put``, never
earlier. So if ``rotate`` is called every ``p`` seconds, an entry that is not put again expires after more than
``(buckets - 1) * p`` and at most ``buckets * p`` seconds. With two buckets rotated every message timeout T, a spout's
message times out after T to 2T; with three, an acker's entry lives 2T to 3T.

Cost: ``put``, ``get``, ``pop`` and ``in`` look into at most ``buckets`` dictionaries; ``rotate`` and ``len`` cost
O(buckets), however many entries the map holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar, overload

from tupletree.errors import UsageError

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class RotatingMap(Generic[K, V]):
    """A map from keys to values that forgets entries not put again within ``buckets`` rotations.

    Not thread-safe: one owner. A key is held by one bucket at a time. Iteration and the dictionary that ``rotate``
    returns follow the order of the last ``put`` of each key, oldest first.
    """

    __slots__ = ("buckets",)

    def __init__(self, buckets: int) -> None:
        if buckets < 2:
            raise UsageError(f"a RotatingMap needs at least 2 buckets, not {buckets}")
        self.buckets: list[dict[K, V]] = [{} for _ in range(buckets)]
        """The cohorts, youngest first. The list object is never replaced: hot paths use it to avoid method calls."""

    def put(self, key: K, value: V) -> None:
        """Set the value of ``key`` and move the entry to the youngest bucket."""
        youngest, *older = self.buckets
        for bucket in older:
            if key in bucket:
                del bucket[key]
                break
        else:
            # Re-insert, so that iteration follows the last put; plain assignment keeps the position of the first put.
            youngest.pop(key, None)
        youngest[key] = value

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: D | None = None) -> V | D | None:
        """Return the value of ``key``, or ``default``. Does not make the entry younger."""
        for bucket in self.buckets:
            if key in bucket:
                return bucket[key]
        return default

    @overload
    def pop(self, key: K) -> V | None: ...
    @overload
    def pop(self, key: K, default: D) -> V | D: ...
    def pop(self, key: K, default: D | None = None) -> V | D | None:
        """Remove ``key`` and return its value, or ``default`` if the map has no such key."""
        for bucket in self.buckets:
            if key in bucket:
                return bucket.pop(key)
        return default

    def pop_many(self, keys: Iterable[K]) -> list[V]:
        """Remove keys and return the values of those that were present, in the order of ``keys``."""
        youngest, *older = self.buckets
        found = []
        for key in keys:
            if key in youngest:
                found.append(youngest.pop(key))
            else:
                for bucket in older:
                    if key in bucket:
                        found.append(bucket.pop(key))
                        break
        return found

    def rotate(self) -> dict[K, V]:
        """Age every entry by one step. Remove and return the entries of the oldest bucket."""
        expired = self.buckets.pop()
        self.buckets.insert(0, {})
        return expired

    def clear(self) -> dict[K, V]:
        """Remove and return all entries, as if all had expired at once."""
        everything: dict[K, V] = {}
        for bucket in reversed(self.buckets):
            everything.update(bucket)
        self.buckets[:] = [{} for _ in self.buckets]
        return everything

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over all entries. The map must not change meanwhile."""
        for bucket in reversed(self.buckets):
            yield from bucket.items()

    def __iter__(self) -> Iterator[K]:
        for bucket in reversed(self.buckets):
            yield from bucket

    def __contains__(self, key: object) -> bool:
        return any(key in bucket for bucket in self.buckets)

    def __len__(self) -> int:
        return sum(map(len, self.buckets))
