"""A KeyedWindow for tests of properties, and what it must do: all tuples are kept, and windows found anew each time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from keyed_model import Seen, TaskModel

from tupletree import CountWindow, KeyedWindow, Session, Sliding, Tumbling
from tupletree.keyed import WindowBounds
from tupletree.tuples import Tuple

BEFORE_ALL = -(1 << 62)


def ms(value: int | None) -> Any:
    return None if value is None else dt.timedelta(milliseconds=value)


@dataclass(frozen=True)
class Spec:
    """The windows of a test. ``in_place``: accumulators are changed in place."""

    kind: Literal["tumbling", "sliding", "session", "count"]
    size: int
    every: int
    offset: int = 0
    is_event_time: bool = True
    has_merge: bool = True
    lateness: int = 0
    early_every: int | None = None
    early_count: int | None = None
    max_lag: int = 0
    idle_timeout: int | None = None
    in_place: bool = False

    @property
    def window(self) -> Any:
        match self.kind:
            case "tumbling":
                return Tumbling(ms(self.size), ms(self.offset))
            case "sliding":
                return Sliding(ms(self.size), ms(self.every), ms(self.offset))
            case "session":
                return Session(ms(self.size))
        return CountWindow(self.size, self.every)


class Parts(KeyedWindow):
    """Has the numbers of the tuples of each window, as a list."""

    key, event_time = "key", "at"
    outputs = ["key", "start", "end", "timing", "numbers"]

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.window = spec.window
        if spec.is_event_time:
            self.max_lag, self.idle_timeout, self.late_stream = ms(spec.max_lag), ms(spec.idle_timeout), "late"
        else:
            self.event_time = None
        self.allowed_lateness = ms(spec.lateness)
        self.early_every, self.early_count = ms(spec.early_every), spec.early_count

    def initial(self) -> list[int]:
        return []

    def add(self, value: list[int], tup: Tuple) -> list[int]:
        if not self.spec.in_place:
            return [*value, tup["number"]]
        value.append(tup["number"])
        return value

    def on_window(self, key: Any, window: WindowBounds, value: list[int]) -> Iterator[list[Any]]:
        yield [key, *window, value]


class Merging(Parts):
    def merge(self, first: list[int], second: list[int]) -> list[int]:
        if not self.spec.in_place:
            return first + second
        first += second
        return first


def bolt_of(spec: Spec) -> KeyedWindow:
    return Merging(spec) if spec.has_merge else Parts(spec)


@dataclass
class Kept:
    """A tuple. ``shown``: the ends of windows that were emitted with it, or 0 for a session."""

    key: str
    at: int
    number: int
    shown: set[int] = field(default_factory=set)


class Found(NamedTuple):
    start: int
    end: int
    tuples: list[Kept]


@dataclass
class Windowed(Seen):
    """What a checkpoint has."""

    kept: list[Kept] = field(default_factory=list)
    early_at: dict[str, int] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)
    reached: int = BEFORE_ALL  # in processing time: timers up to there have fired


class WindowModel(TaskModel[Windowed]):
    """One task of a bolt of ``bolt_of``."""

    def __init__(self, senders: int, spec: Spec) -> None:
        super().__init__(Windowed(), senders, spec.max_lag, spec.idle_timeout)
        self.spec = spec
        self.rows: list[list[Any]] = []
        self.late: list[int] = []

    def execute(self, sender: int, key: str, at_ms: int, number: int) -> None:
        now, spec = self.now, self.spec
        if spec.kind == "count":
            at_ms = now.count.get(key, 0)
        elif spec.is_event_time:
            self._came(sender, at_ms)
            self._advance()
        else:
            at_ms = self.clock_ms
        one = Kept(key, at_ms, number)
        now.kept.append(one)
        containing = [found for found in self._windows(key) if one in found.tuples]
        if all(found.end + spec.lateness <= self._floor(key) for found in containing):
            now.kept.remove(one)
            self.late.append(number)
            return
        if spec.kind == "count":
            now.count[key] = at_ms + 1
        self._emit_after(key, containing)
        if spec.kind == "count" and (at_ms + 1) % spec.every == 0:
            self._emit_over(key, at_ms + 1)
            self._forget()
        is_fresh = any(self._fresh(found) for found in self._windows(key) if found.end > self._floor(key))
        if spec.early_every is not None and is_fresh:
            now.early_at.setdefault(key, self.clock_ms + spec.early_every)

    def _emit_after(self, key: str, containing: list[Found]) -> None:
        """Emit what a tuple causes: windows that were over, and those that have enough new tuples."""
        floor, spec = self._floor(key), self.spec
        for found in containing:
            if found.end <= floor < found.end + spec.lateness:
                self._emit(key, found, "late")
        for found in containing:
            if spec.early_count and found.end > floor and len(self._fresh(found)) >= spec.early_count:
                self._emit(key, found, "early")

    def tick(self, now_ms: int) -> None:
        now, spec = self.now, self.spec
        self.clock_ms = now_ms
        self.ticks.append(now_ms)
        if spec.is_event_time and spec.kind != "count":
            self._advance()
        times = set(now.early_at.values())
        if not spec.is_event_time and spec.kind != "count":
            times |= {found.end for key in self._keys() for found in self._windows(key) if found.end > now.reached}
        for time in sorted(time for time in times if time <= now_ms):
            if not spec.is_event_time and spec.kind != "count":
                for key in self._keys():
                    self._emit_over(key, time)
                now.reached = time
                self._forget()
            for key in [key for key, early_at in now.early_at.items() if early_at == time]:
                del now.early_at[key]
                for found in self._windows(key):
                    if found.end > self._floor(key) and self._fresh(found):
                        self._emit(key, found, "early")
        now.reached = now_ms

    def _advance(self) -> None:
        before = BEFORE_ALL if self.now.watermark is None else self.now.watermark
        self._raise_watermark()
        if self.now.watermark is None:
            return
        ends = {found.end for key in self._keys() for found in self._windows(key)}
        for end in sorted(end for end in ends if before < end <= self.now.watermark):
            for key in self._keys():
                self._emit_over(key, end)
        self._forget()

    def _keys(self) -> list[str]:
        return sorted({one.key for one in self.now.kept})

    def _floor(self, key: str) -> int:
        """Return the time, or the number of tuples of a key, up to which windows are over."""
        if self.spec.kind == "count":
            return self.now.count.get(key, 0)
        if self.spec.is_event_time:
            return BEFORE_ALL if self.now.watermark is None else self.now.watermark
        return self.now.reached

    def _windows(self, key: str) -> list[Found]:
        """Return all windows of the tuples of a key, in order."""
        spec = self.spec
        kept = sorted((one for one in self.now.kept if one.key == key), key=lambda one: one.at)
        if spec.kind == "session":
            sessions: list[Found] = []
            for one in kept:
                if sessions and one.at < sessions[-1].end:
                    sessions[-1] = Found(sessions[-1].start, one.at + spec.size, [*sessions[-1].tuples, one])
                else:
                    sessions.append(Found(one.at, one.at + spec.size, [one]))
            return sessions
        every = spec.size if spec.kind == "tumbling" else spec.every
        offset = -spec.size if spec.kind == "count" else spec.offset
        found = []
        for start in sorted({s for one in kept for s in range(one.at - spec.size + 1, one.at + 1)}):
            if (start - offset) % every == 0:
                inside = [one for one in kept if start <= one.at < start + spec.size]
                found.append(Found(max(0, start) if spec.kind == "count" else start, start + spec.size, inside))
        return found

    def _marker(self, found: Found) -> int:
        return 0 if self.spec.kind == "session" else found.end

    def _fresh(self, found: Found) -> list[Kept]:
        return [one for one in found.tuples if self._marker(found) not in one.shown]

    def _emit(self, key: str, found: Found, timing: str) -> None:
        for one in found.tuples:
            one.shown.add(self._marker(found))
        self.rows.append([key, found.start, found.end, timing, sorted(one.number for one in found.tuples)])

    def _emit_over(self, key: str, end: int) -> None:
        for found in self._windows(key):
            if found.end == end:
                self._emit(key, found, "on_time")

    def _forget(self) -> None:
        """Drop the tuples all windows of which are removed, and the early timers of keys without tuples."""
        now, spec = self.now, self.spec
        removed = [
            one
            for key in self._keys()
            for one in now.kept
            if one.key == key
            and all(
                found.end + spec.lateness <= self._floor(key) for found in self._windows(key) if one in found.tuples
            )
        ]
        now.kept = [one for one in now.kept if all(one is not other for other in removed)]
        if spec.kind != "count":
            now.early_at = {key: at for key, at in now.early_at.items() if key in self._keys()}
