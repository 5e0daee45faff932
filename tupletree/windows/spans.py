"""Assignment of tuples to windows, and eviction of tuples that have been in their last window.

Tuples form one sequence, ordered by time, and by arrival if times are equal:

    position        0   1   2   3   4   5   6   7   8   9  10
    last window             [ - - - - - - - - )
    this window                     [ - - - - - - - - )
                            expired |  kept   |  new  |      still to come

Every window is a *span* of the sequence, between two positions. Neither end of a window lies before the same end of the
last window. So all parts of a window are slices of the sequence: its tuples, its new tuples, and the expired tuples of
the last window. No future window can begin before a certain bound: the tuples before this bound have been in their last
window, and are *evicted*.

Only ``advance`` moves time forward. In event time the time is the watermark: no tuple before it is added any more. In
processing time it is the clock, and tuples are added as they arrive. This module treats both alike. Times are whole
microseconds.

================  ========================================  =================================================
slide             a window is due                           the window ends
================  ========================================  =================================================
a time ``s``      when time reaches a multiple of ``s``     before the tuples of that time: ``[end - l, end)``
a count ``n``     when time reaches the n-th tuple          with that tuple: ``(end - l, end]``
================  ========================================  =================================================

The length of a window is a time ``l``, or a number of tuples before its end. Windows without tuples are skipped. With a
count as length and a time as slide, windows without new tuples are skipped too: after a jump of time, the same tuples
are not evaluated over and over.
"""

from __future__ import annotations  # pure

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from typing import Generic, TypeVar

from .lengths import Count, Duration, Length

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span(Generic[T]):
    """One window. ``start_us`` is None if its length is a number of tuples."""

    items: list[T]
    new: list[T]
    expired: list[T]
    start_us: int | None
    end_us: int


@dataclass(frozen=True, slots=True)
class Place:
    """The progress of a sequence, from which another sequence can continue.

    end_us: all windows up to this time have been evaluated, and no tuple before this time is added any more; None
        before the first window.
    passed: the number of tuples evicted since the last window without having been in any window.
    """

    end_us: int | None = None
    passed: int = 0


class Spans(Generic[T]):
    """The sequence of one task, and its windows.

    After every ``add`` or ``advance``, call ``next_due`` until it returns None, then ``evict``.
    """

    def __init__(self, length: Length, slide: Length) -> None:
        self.now_us: int | None = None  # no tuple before this time is added any more
        self._length = length
        self._slide = slide
        self._base = 0  # the position of the first entry of _items and _times
        self._items: list[T] = []
        self._times: list[int] = []
        self._ahead: list[tuple[int, int, T]] = []  # (time, arrival, item) of tuples that time has not reached
        self._arrivals = 0
        self._last_lo = 0  # the span of the last window
        self._last_hi = 0
        self._last_end_us: int | None = None
        self._evicted = 0  # tuples before this position are evicted
        self._next_end_us: int | None = None
        self._next_hi = slide.value if isinstance(slide, Count) else 0

    def __len__(self) -> int:
        """Return the number of tuples that are not evicted."""
        return self._base + len(self._items) - self._evicted + len(self._ahead)

    def restore(self, place: Place, kept: list[tuple[int, T]]) -> None:
        """Continue from a place, with the tuples of the last window that are not evicted: (time, item), in order.

        Call this before anything is added. No kept tuple is after the place.
        """
        self.now_us = place.end_us
        self._times = [at_us for at_us, _ in kept]
        self._items = [item for _, item in kept]
        self._last_hi = len(kept)
        self._next_hi += len(kept) - place.passed
        if place.end_us is not None:
            self._last_end_us = place.end_us
            if isinstance(self._slide, Duration):
                self._next_end_us = self._after(place.end_us, self._slide.us)  # an update can have changed the slide

    @property
    def place(self) -> Place:
        """The place from which another sequence can continue. Valid when no window is due and ``evict`` was called."""
        end_us = self._last_end_us
        if isinstance(self._slide, Duration) and self._next_end_us is not None:
            skipped_us = self._next_end_us - self._slide.us  # the end of the last window, evaluated or skipped
            end_us = skipped_us if end_us is None else max(end_us, skipped_us)
        return Place(end_us, max(0, self._evicted - self._last_hi))

    @property
    def kept(self) -> list[T]:
        """The tuples that were in a window and are not evicted, in order."""
        return self._items[self._evicted - self._base : max(self._last_hi, self._evicted) - self._base]

    @property
    def unseen(self) -> list[T]:
        """The tuples that were in no window yet and are not evicted."""
        start = max(self._evicted, self._last_hi) - self._base
        return self._items[start:] + [item for _, _, item in self._ahead]

    def add(self, item: T, at_us: int) -> None:
        """Add a tuple of a time that is not before ``now_us``."""
        if self.now_us is not None and at_us <= self.now_us:
            self._items.append(item)
            self._times.append(at_us)
        else:
            self._arrivals += 1  # unique, so that a comparison never reaches the items, which need not be comparable
            entry = (at_us, self._arrivals, item)
            if self._ahead and at_us < self._ahead[-1][0]:
                insort(self._ahead, entry)
            else:
                self._ahead.append(entry)

    def advance(self, now_us: int) -> None:
        """Move time forward to ``now_us``; an earlier time has no effect."""
        if self.now_us is not None and now_us <= self.now_us:
            return
        self.now_us = now_us
        reached = bisect_right(self._ahead, now_us, key=_time)
        if reached:
            self._items += [item for _, _, item in self._ahead[:reached]]
            self._times += [at_us for at_us, _, _ in self._ahead[:reached]]
            del self._ahead[:reached]

    def next_due(self) -> Span[T] | None:
        """Return the next window that is due, or None."""
        if isinstance(self._slide, Duration):
            return self._next_by_time(self._slide.us)
        return self._next_by_count(self._slide.value)

    def evict(self) -> list[T]:
        """Return the tuples newly evicted since the last call, in order: none of them is in a future window."""
        first, bound = self._evicted, min(self._bound(), self._base + len(self._items))
        if bound <= first:
            return []
        evicted = self._items[first - self._base : bound - self._base]
        self._evicted = bound
        self._drop()
        return evicted

    def _drop(self) -> None:
        """Remove evicted tuples, except those that can be expired tuples of the next window."""
        kept = min(self._evicted, self._last_lo if self._last_lo < self._last_hi else self._evicted)
        if kept > self._base:
            del self._items[: kept - self._base]
            del self._times[: kept - self._base]
            self._base = kept

    def _next_by_time(self, slide_us: int) -> Span[T] | None:
        if self._next_end_us is None and self._times:
            self._next_end_us = self._after(self._times[0], slide_us)
        if self.now_us is None or self._next_end_us is None:
            return None
        while self._next_end_us <= self.now_us:
            end_us = self._next_end_us
            hi = self._base + bisect_left(self._times, end_us)
            self._next_end_us = end_us + slide_us
            if isinstance(self._length, Count):
                lo = max(hi - self._length.value, 0)
                is_due = hi > self._last_hi
            else:
                lo = self._base + bisect_left(self._times, end_us - self._length.us)
                is_due = lo < hi
            if is_due:
                return self._span(lo, hi, end_us)
            coming_us = self._times[hi - self._base] if hi - self._base < len(self._times) else self.now_us
            self._next_end_us = max(self._next_end_us, self._after(coming_us, slide_us))
        return None

    @staticmethod
    def _after(time_us: int, slide_us: int) -> int:
        """Return the end of the first window that can hold a tuple of that time."""
        return (time_us // slide_us + 1) * slide_us

    def _next_by_count(self, slide: int) -> Span[T] | None:
        hi = self._next_hi
        if hi > self._base + len(self._items):
            return None
        end_us = self._times[hi - 1 - self._base]
        if isinstance(self._length, Count):
            lo = max(hi - self._length.value, 0)
        else:
            lo = min(self._base + bisect_right(self._times, end_us - self._length.us), hi)
        self._next_hi = hi + slide
        return self._span(lo, hi, end_us)

    def _span(self, lo: int, hi: int, end_us: int) -> Span[T]:
        expired = self._slice(self._last_lo, min(lo, self._last_hi))
        new = self._slice(max(lo, self._last_hi), hi)
        self._last_lo, self._last_hi, self._last_end_us = lo, hi, end_us
        start_us = end_us - self._length.us if isinstance(self._length, Duration) else None
        return Span(self._slice(lo, hi), new, expired, start_us, end_us)

    def _slice(self, lo: int, hi: int) -> list[T]:
        return self._items[lo - self._base : hi - self._base] if lo < hi else []

    def _bound(self) -> int:
        """Return the position before which no future window begins."""
        match self._slide, self._length:
            case Duration(), Count(value=length):
                if self._next_end_us is None:
                    return 0
                return self._base + bisect_left(self._times, self._next_end_us) - length
            case Duration(), Duration() as length:
                if self._next_end_us is None:
                    return 0
                return self._base + bisect_left(self._times, self._next_end_us - length.us)
            case Count(), Count(value=length):
                return self._next_hi - length
            case Count(), Duration() as length:
                # The last tuple of the next window has not arrived: its time is now_us or later.
                return 0 if self.now_us is None else self._base + bisect_right(self._times, self.now_us - length.us)
        raise AssertionError((self._slide, self._length))


def _time(entry: tuple[int, int, object]) -> int:
    return entry[0]
