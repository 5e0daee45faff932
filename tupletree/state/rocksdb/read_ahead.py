"""Reads of a large object by few requests: its end at once, and more and more of what is read in sequence."""

from __future__ import annotations  # pure

from collections.abc import Callable
from typing import Final

END_BYTES: Final = 128 << 10
"""The end of an object, which has the index of a segment, or all of a small one."""

MAX_AHEAD_BYTES: Final = 1 << 20

Fetch = Callable[[int, int], bytes]
"""Returns the bytes from an offset up to another."""


class ReadAhead:
    """The bytes of an object of ``size`` bytes. ``end``: its last bytes."""

    def __init__(self, fetch: Fetch, size: int, end: bytes) -> None:
        self._fetch = fetch
        self._size = size
        self._end = (size - len(end), end)
        self._window = (0, b"")

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the object; fewer at its end.

        A read that begins in or right behind what was fetched last fetches twice as much as that.
        """
        begin, end = max(offset, 0), min(offset + length, self._size)
        for start, data in (self._end, self._window):
            if start <= begin and end <= start + len(data):
                return data[begin - start : end - start]
        start, data = self._window
        is_next = data != b"" and start <= begin <= start + len(data)
        ahead = min(2 * len(data), MAX_AHEAD_BYTES) if is_next else 0
        fetched = self._fetch(begin, min(max(end, begin + ahead), self._size))
        self._window = (begin, fetched)
        return fetched[: end - begin]
