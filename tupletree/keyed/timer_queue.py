"""Timers of one kind of time: pairs of a key and a time, taken in the order of time.

The set of times per key is the truth; the heap only finds the next timer. A deleted timer leaves a dead entry in the
heap, so that moving a timer with every tuple (a session's end) costs no search. When dead entries outnumber live ones,
the heap is made anew from the sets.
"""

from __future__ import annotations  # pure

import heapq
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Final

MIN_DEAD: Final = 64
"""The heap is not made anew for fewer dead entries than this."""


class TimerQueue:
    """Timers of one kind of time. Times are whole milliseconds.

    Guarantees: a pair that is set twice is taken once; ``pop`` takes the earliest time first. Timers of equal times
    are taken in the order in which they were set, in one life of the task; after a restart in any order.

    Attributes:
        due_at: no live timer is earlier than this; infinity if there are no timers.
        dirty: keys whose times have changed since the caller last cleared the set.
    """

    __slots__ = ("_count", "_heap", "_number", "_times", "dirty", "due_at")

    def __init__(self) -> None:
        self.due_at: float = math.inf
        self.dirty: set[Hashable] = set()
        self._heap: list[tuple[int, int, Hashable]] = []  # time, number, key; can hold dead entries
        self._times: dict[Hashable, set[int]] = {}
        self._count = 0
        self._number = 0  # orders equal times, so that keys are never compared

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: Hashable) -> bool:
        return key in self._times

    def times(self, key: Hashable) -> list[int]:
        """Return the times that are set for a key, ascending."""
        return sorted(self._times.get(key, ()))

    def set(self, key: Hashable, time_ms: int) -> None:
        """Set a timer. Does nothing if it is set already."""
        times = self._times.get(key)
        if times is None:
            self._times[key] = {time_ms}
        elif time_ms in times:
            return
        else:
            times.add(time_ms)
        self._count += 1
        self.dirty.add(key)
        self._push(key, time_ms)

    def delete(self, key: Hashable, time_ms: int) -> None:
        """Delete a timer. Does nothing if it is not set."""
        if self._remove(key, time_ms) and len(self._heap) > 2 * self._count + MIN_DEAD:
            self._rebuild()

    def pop(self, now_ms: int) -> tuple[Hashable, int] | None:
        """Remove and return the earliest timer that is due at ``now_ms``; None if no timer is due."""
        heap = self._heap
        found = None
        while heap and found is None and heap[0][0] <= now_ms:
            time_ms, _, key = heapq.heappop(heap)
            if self._remove(key, time_ms):
                found = key, time_ms
        self.due_at = heap[0][0] if heap else math.inf
        return found

    def restore(self, times: Mapping[Hashable, Iterable[int]]) -> None:
        """Replace all timers by those of a checkpoint."""
        self._times = {key: found for key, stored in times.items() if (found := set(stored))}
        self._count = sum(map(len, self._times.values()))
        self.dirty = set()
        self._heap = []
        self._rebuild()

    def _remove(self, key: Hashable, time_ms: int) -> bool:
        times = self._times.get(key)
        if times is None or time_ms not in times:
            return False
        times.remove(time_ms)
        if not times:
            del self._times[key]
        self._count -= 1
        self.dirty.add(key)
        return True

    def _push(self, key: Hashable, time_ms: int) -> None:
        self._number += 1
        heapq.heappush(self._heap, (time_ms, self._number, key))
        self.due_at = min(self.due_at, time_ms)

    def _rebuild(self) -> None:
        """Make the heap anew from the live timers, and keep the order of equal times."""
        numbers = {(key, time_ms): number for time_ms, number, key in sorted(self._heap, reverse=True)}
        self._heap = []
        for key, times in self._times.items():
            for time_ms in times:
                number = numbers.get((key, time_ms))
                if number is None:
                    self._number += 1
                    number = self._number
                self._heap.append((time_ms, number, key))
        heapq.heapify(self._heap)
        self.due_at = self._heap[0][0] if self._heap else math.inf
