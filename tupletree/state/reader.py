"""Readers of committed values: for questions from outside, beside the task that writes the state.

A reader never becomes the owner of its namespace, and never changes or locks it. Keys and values are encoded, as a
Backend (buffered.py) has them.
"""

from __future__ import annotations  # pure

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import ClassVar, Final

from tupletree.state.sizes import Counted, Known, StateSize, Tally, estimated

Entries = list[tuple[bytes, bytes]]
"""Encoded keys and values, ascending by encoded key."""

MAX_COUNTED: Final = 10_000
"""The entries that are read one by one to measure a state."""
MAX_COUNTED_BYTES: Final = 16_000_000
_PAGE: Final = 1_000
_PAGE_BYTES: Final = 1_000_000


class StateReader(ABC):
    """The committed values of one namespace. A namespace that no task has opened yet is empty. Not thread-safe.

    Each call reads the values of one checkpoint; a later call may find a later one. Every call can raise
    UnavailableError if the store cannot be reached.
    """

    is_kept: ClassVar[bool] = False
    """True if opening takes long: a reader is then kept for the next question, which any thread may read."""

    @property
    @abstractmethod
    def committed(self) -> int | None:
        """The last committed checkpoint in the store now; None if there is none."""

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """Return the committed value of an encoded key, or None."""

    @abstractmethod
    def scan(self, after: bytes, limit: int, max_bytes: int) -> Entries:
        """Return the next entries whose encoded key is greater than ``after``; b"" is less than every key.

        At most ``limit`` entries, and no more after they have ``max_bytes`` bytes; at least one if any is left.
        """

    def size(self) -> StateSize:
        """Return the number of keys and bytes: counted, or estimated where a count would read much."""
        counted = self.count()
        return estimated(counted, Known() if counted.is_all else self.known())

    def count(self) -> Counted:
        """Count entries, up to a limit of the reader's choice."""
        tally, after = Tally(), b""
        while tally.keys < MAX_COUNTED and tally.bytes < MAX_COUNTED_BYTES:
            page = self.scan(after, _PAGE, _PAGE_BYTES)
            if not page:
                return tally.counted(is_all=True)
            tally.add(page)
            after = page[-1][0]
        return tally.counted(is_all=not self.scan(after, 1, 1))

    def known(self) -> Known:
        """Return what the store knows of all entries without reading them. Asked for if not all were counted."""
        return Known()

    def close(self) -> None:  # noqa: B027 - most readers hold none
        """Release the resources of the reader."""


class MappingReader(StateReader):
    """A reader of committed values that are all in memory."""

    def __init__(self, committed: int | None, entries: Mapping[bytes, bytes]) -> None:
        self._committed = committed
        self._entries = entries

    @property
    def committed(self) -> int | None:
        return self._committed

    def get(self, key: bytes) -> bytes | None:
        return self._entries.get(key)

    def scan(self, after: bytes, limit: int, max_bytes: int) -> Entries:
        keys = heapq.nsmallest(limit, (key for key in list(self._entries) if key > after))
        return bounded(((key, self._entries[key]) for key in keys if key in self._entries), limit, max_bytes)

    def count(self) -> Counted:
        tally = Tally()
        tally.add(islice(self._entries.items(), MAX_COUNTED))
        return tally.counted(is_all=tally.keys == len(self._entries))

    def known(self) -> Known:
        return Known(keys=len(self._entries))


def counted(entries: Iterable[tuple[bytes, bytes]]) -> Counted:
    """Count entries one by one, up to the limits."""
    tally, left = Tally(), iter(entries)
    while tally.keys < MAX_COUNTED and tally.bytes < MAX_COUNTED_BYTES:
        page: Entries = []
        size = 0
        for key, value in islice(left, _PAGE):
            page.append((key, value))
            size += len(key) + len(value)
            if size >= _PAGE_BYTES:
                break
        if not page:
            return tally.counted(is_all=True)
        tally.add(page)
    return tally.counted(is_all=next(left, None) is None)


def bounded(entries: Iterable[tuple[bytes, bytes]], limit: int, max_bytes: int) -> Entries:
    """Return the first entries: at most ``limit``, and none after they have ``max_bytes`` bytes."""
    found: Entries = []
    size = 0
    for key, value in entries:
        if found and (len(found) >= limit or size >= max_bytes):
            break
        found.append((key, value))
        size += len(key) + len(value)
    return found
