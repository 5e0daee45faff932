"""Readers of committed values: for questions from outside, beside the task that writes the state.

A reader never becomes the owner of its namespace, and never changes or locks it. Keys and values are encoded, as a
Backend (buffered.py) has them.
"""

from __future__ import annotations  # pure

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

Entries = list[tuple[bytes, bytes]]
"""Encoded keys and values, ascending by encoded key."""


class StateReader(ABC):
    """The committed values of one namespace. A namespace that no task has opened yet is empty. Not thread-safe.

    Each call reads the values of one checkpoint; a later call may find a later one. Every call can raise
    UnavailableError if the store cannot be reached.
    """

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
