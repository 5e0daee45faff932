"""Timelines: values of one key in the order of their event times, stored in chunks of bounded size.

A checkpoint writes each changed entry of a state as a whole. So a key with many values has them in several entries:

==============================  ===========================================================  =========================
where                           what                                                         changes when
==============================  ===========================================================  =========================
the record of the timeline      [sealed, start, last]: the index, and the newest values      a value is added
("$name", key, chunk number)    a sealed chunk: values before ``start``                      one of its values changes
==============================  ===========================================================  =========================

``sealed`` has [start, chunk number] of each sealed chunk. A chunk is [times, values, marks]: three lists of one length,
ascending by time. The times of a chunk are from its start to the next chunk's start, both inclusive: equal times can
lie in two chunks. A chunk of more than ``max_chunk`` values is split into halves, and the older half of ``last`` is
sealed. The record is part of the value of the key, so a key with few values has no other entry.
"""

from __future__ import annotations  # pure

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator
from operator import itemgetter
from typing import Any, Final

from tupletree.state.contract import KeyValueState

MAX_CHUNK: Final = 128

Chunk = list[list[Any]]
_START: Final = itemgetter(0)


def new_record() -> list[Any]:
    """Return the record of an empty timeline."""
    return [[], 0, [[], [], []]]


class Timeline:
    """Values of one key, each with a time and a mark. Changes the record in place; the caller saves the record.

    ``name``: begins the keys of sealed chunks in the state. Every method can raise UnavailableError, if a sealed chunk
    must be read and the store cannot be reached; nothing has changed then but what a method has done before it.
    """

    __slots__ = ("_key", "_max_chunk", "_name", "_record", "_state")

    def __init__(
        self,
        record: list[Any],
        state: KeyValueState[Any, Any],
        name: str,
        key: Hashable,
        max_chunk: int = MAX_CHUNK,
    ) -> None:
        self._record = record
        self._state = state
        self._name = name
        self._key = key
        self._max_chunk = max_chunk

    def __bool__(self) -> bool:
        """True if there are values."""
        sealed, _, last = self._record
        return bool(sealed or last[0])

    def add(self, time: int, value: Any, mark: bool = False) -> None:
        """Add a value, after those of the same time."""
        sealed, start, chunk = self._record
        at = len(sealed)
        if sealed and time < start:
            at = max(0, bisect_right(sealed, time, key=_START) - 1)
            sealed[at][0] = min(sealed[at][0], time)
            chunk = self._load(at)
        times, values, marks = chunk
        position = bisect_right(times, time)
        times.insert(position, time)
        values.insert(position, value)
        marks.insert(position, mark)
        if len(times) > self._max_chunk:
            self._split(at, chunk)
        else:
            self._save(at, chunk)

    def replace(self, time: int, value: Any) -> None:
        """Replace the last value of a time, or add one."""
        places = list(self._runs(time, time))  # equal times can lie in several chunks
        if not places:
            self.add(time, value)
            return
        at, chunk, _, end = places[-1]
        chunk[1][end - 1] = value
        self._save(at, chunk)

    def between(self, first: int, last: int) -> list[Any]:
        """Return the values of the times from ``first`` to ``last``, both inclusive."""
        found: list[Any] = []
        for _, chunk, begin, end in self._runs(first, last):
            found += chunk[1][begin:end]
        return found

    def mark(self, first: int, last: int) -> None:
        """Mark the values of the times from ``first`` to ``last``, both inclusive."""
        for at, chunk, begin, end in self._runs(first, last):
            marks = chunk[2]
            if not all(marks[begin:end]):
                marks[begin:end] = [True] * (end - begin)
                self._save(at, chunk)

    def newest_until(self, time: int) -> tuple[int, Any] | None:
        """Return the newest of the values that are not after ``time``, with its own time; None if there is none."""
        sealed = self._record[0]
        at = len(sealed)
        while at >= 0:
            times, values, _ = self._chunk(at)
            if position := bisect_right(times, time):
                return times[position - 1], values[position - 1]
            at = min(at, bisect_right(sealed, time, key=_START)) - 1
        return None

    def oldest(self, count: int) -> list[tuple[int, Any]]:
        """Return at most ``count`` values, the oldest first, each with its own time."""
        found: list[tuple[int, Any]] = []
        for at in range(len(self._record[0]) + 1):
            if len(found) < count:
                times, values, _ = self._chunk(at)
                found += zip(times[:count], values[:count], strict=True)
        return found[:count]

    def take_before(self, time: int) -> list[tuple[int, Any, bool]]:
        """Remove and return all values before ``time``, each with its own time and its mark, in order."""
        taken: list[tuple[int, Any, bool]] = []
        sealed = self._record[0]
        while sealed and sealed[0][0] < time:
            chunk = self._load(0)
            self._move(chunk, time, taken)
            if chunk[0]:
                self._save(0, chunk)
                return taken
            self._remove_first()
        if not sealed:
            self._move(self._record[2], time, taken)
        return taken

    def drop_before(self, time: int) -> None:
        """Remove values before ``time``: sealed chunks as wholes, once all their values are; these are not read."""
        sealed, start, last = self._record
        while sealed and (sealed[1][0] if len(sealed) > 1 else start) < time:
            self._remove_first()
        if not sealed:
            self._move(last, time, [])

    def due(self, *, unmarked: bool = False) -> int | None:
        """Return a time of the oldest chunk: one that no value of the chunk is after; None if there are no values.

        ``unmarked``: return the time of the first value without a mark, if the oldest chunk has one.
        """
        sealed, start, last = self._record
        if unmarked and self:
            times, _, marks = self._chunk(0)
            if False in marks:
                return int(times[marks.index(False)])
        if sealed:
            return int(sealed[1][0] if len(sealed) > 1 else start)
        return last[0][-1] if last[0] else None

    def _runs(self, first: int, last: int) -> Iterator[tuple[int, Chunk, int, int]]:
        """Yield the places of the values in a range of times: chunks, each with its index, and with two positions."""
        sealed, start, _ = self._record
        for at in range(max(0, bisect_left(sealed, first, key=_START) - 1), len(sealed) + 1):
            if sealed and (sealed[at][0] if at < len(sealed) else start) > last:
                return
            chunk = self._chunk(at)
            begin, end = bisect_left(chunk[0], first), bisect_right(chunk[0], last)
            if begin < end:
                yield at, chunk, begin, end

    def _chunk(self, at: int) -> Chunk:
        return self._load(at) if at < len(self._record[0]) else self._record[2]

    def _load(self, at: int) -> Chunk:
        chunk: Chunk = self._state.get(self._entry(self._record[0][at][1]))
        return chunk

    def _save(self, at: int, chunk: Chunk) -> None:
        if at < len(self._record[0]):
            self._state.put(self._entry(self._record[0][at][1]), chunk)

    def _split(self, at: int, chunk: Chunk) -> None:
        """Split a chunk into halves."""
        sealed = self._record[0]
        half = len(chunk[0]) // 2
        older, newer = [column[:half] for column in chunk], [column[half:] for column in chunk]
        number = 1 + max((number for _, number in sealed), default=-1)
        if at < len(sealed):
            sealed.insert(at + 1, [newer[0][0], number])
            self._save(at, older)
            self._save(at + 1, newer)
        else:
            sealed.append([self._record[1] if sealed else older[0][0], number])
            self._save(at, older)
            self._record[1:] = newer[0][0], newer

    def _remove_first(self) -> None:
        sealed = self._record[0]
        self._state.delete(self._entry(sealed[0][1]))
        del sealed[0]

    def _entry(self, number: int) -> tuple[Any, ...]:
        return self._name, self._key, number

    @staticmethod
    def _move(chunk: Chunk, time: int, taken: list[tuple[int, Any, bool]]) -> None:
        """Move the values before ``time`` to the end of ``taken``."""
        end = bisect_left(chunk[0], time)
        if end:
            taken.extend(zip(*(column[:end] for column in chunk), strict=True))
            for column in chunk:
                del column[:end]
