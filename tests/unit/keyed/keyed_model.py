"""A KeyedProcess for tests of properties, and what it must do, computed without any cleverness."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, TypeVar

from tupletree import KeyedProcess
from tupletree.keyed import KeyState, Timers
from tupletree.tuples import Tuple

Ops = list[tuple[str, int]]
"""Calls on timers, each with how far its time is from that of the tuple or of the clock."""

Row = tuple[str, str, int, int]
"""What fired, or "tuple"; the key, the time, and the value then."""


class Scripted(KeyedProcess):
    """Counts the calls of each key in its value, does what a tuple says, and sets some timers from timers."""

    key, event_time, late_stream = "key", "at", "late"
    outputs = ["what", "key", "time", "value"]
    default_factory = int

    def __init__(self, max_lag_ms: int, idle_timeout_ms: int | None, ttl_ms: int | None) -> None:
        self.max_lag = dt.timedelta(milliseconds=max_lag_ms)
        self.idle_timeout = None if idle_timeout_ms is None else dt.timedelta(milliseconds=idle_timeout_ms)
        self.ttl = None if ttl_ms is None else dt.timedelta(milliseconds=ttl_ms)

    def on_tuple(self, tup: Tuple, state: KeyState[int], timers: Timers) -> Iterator[list[Any]]:
        if tup["clears"]:
            state.clear()
        else:
            state.value += 1
        for call, distance in tup["ops"]:
            getattr(timers, call)(distance + (timers.now if "processing" in call else tup["at"]))
        yield ["tuple", state.key, tup["at"], state.value]

    def on_timer(self, key: Any, time: int, state: KeyState[int], timers: Timers) -> Iterator[list[Any]]:
        state.value += 1
        if time % 3 == 0:
            (timers.set_processing if timers.is_processing else timers.set)(time + 4)
        yield ["processing" if timers.is_processing else "event", key, time, state.value]


@dataclass
class Seen:
    """What a checkpoint has of event times."""

    watermark: int | None = None
    newest: dict[int, int] = field(default_factory=dict)


S = TypeVar("S", bound=Seen)


class TaskModel(Generic[S]):
    """The checkpoints, the clock and the watermark of one task: everything is searched anew at each step."""

    def __init__(self, empty: S, senders: int, max_lag_ms: int, idle_timeout_ms: int | None) -> None:
        self.senders = range(1, senders + 1)
        self.max_lag_ms, self.idle_timeout_ms = max_lag_ms, idle_timeout_ms
        self.now = empty
        self.committed = copy.deepcopy(empty)
        self.prepared: S | None = None
        self.clock_ms = 0
        self._began()

    def _began(self) -> None:
        self.ticks = [self.clock_ms]
        self.heard = dict.fromkeys(self.senders, 0)  # number of ticks when a sender brought its last tuple

    def prepare(self) -> None:
        self.prepared = copy.deepcopy(self.now)

    def commit(self) -> None:
        assert self.prepared is not None
        self.committed, self.prepared = self.prepared, None

    def go_back(self) -> None:
        self.now, self.prepared = copy.deepcopy(self.committed), None
        self._began()

    def _came(self, sender: int, at_ms: int) -> None:
        newest = self.now.newest
        newest[sender] = max(at_ms, newest.get(sender, at_ms))
        self.heard[sender] = len(self.ticks)

    def _raise_watermark(self) -> None:
        now, watermark = self.now, self._bound()
        if watermark is not None and (now.watermark is None or watermark > now.watermark):
            now.watermark = watermark

    def _bound(self) -> int | None:
        newest = self.now.newest
        active = [sender for sender in self.senders if not self._is_idle(sender)]
        if not active:
            return max(newest.values()) - self.max_lag_ms if newest else None
        if any(sender not in newest for sender in active):
            return None
        return min(newest[sender] for sender in active) - self.max_lag_ms

    def _is_idle(self, sender: int) -> bool:
        """True if enough ticks have passed since the sender's last tuple; the first of them does not count."""
        if self.idle_timeout_ms is None:
            return False
        silent = self.ticks[self.heard[sender] :]
        most_ms = max(1, self.idle_timeout_ms // 2)
        silence_ms = sum(min(after - before, most_ms) for before, after in pairwise(silent))
        return silence_ms >= self.idle_timeout_ms


@dataclass
class Stored(Seen):
    """What a checkpoint has."""

    values: dict[str, tuple[int, int]] = field(default_factory=dict)  # with the time of the assignment
    events: set[tuple[int, str]] = field(default_factory=set)
    processing: set[tuple[int, str]] = field(default_factory=set)


class Model(TaskModel[Stored]):
    """One task of a Scripted."""

    def __init__(self, senders: int, max_lag_ms: int, idle_timeout_ms: int | None, ttl_ms: int | None) -> None:
        super().__init__(Stored(), senders, max_lag_ms, idle_timeout_ms)
        self.ttl_ms = ttl_ms
        self.rows: list[Row] = []
        self.late: list[tuple[str, int]] = []

    def execute(self, sender: int, key: str, at_ms: int, ops: Ops, clears: bool) -> None:
        now = self.now
        self._came(sender, at_ms)
        self._fire_events()
        if now.watermark is not None and at_ms < now.watermark:
            self.late.append((key, at_ms))
        else:
            if clears:
                now.values.pop(key, None)
            else:
                self._count(key)
            for call, distance in ops:
                is_processing = "processing" in call
                timer = (distance + (self.clock_ms if is_processing else at_ms), key)
                timers = now.processing if is_processing else now.events
                (timers.add if call.startswith("set") else timers.discard)(timer)
            self.rows.append(("tuple", key, at_ms, now.values.get(key, (0, 0))[0]))
        self._fire_events()

    def tick(self, now_ms: int) -> None:
        now = self.now
        self.clock_ms = now_ms
        self.ticks.append(now_ms)
        self._fire_events()
        while due := [timer for timer in now.processing if timer[0] <= now_ms]:
            self._fire("processing", now.processing, min(due))
        for key, (_, written_ms) in list(now.values.items()):
            if self.ttl_ms is not None and written_ms + self.ttl_ms <= now_ms:
                del now.values[key]

    def _count(self, key: str) -> int:
        value = self.now.values.get(key, (0, 0))[0] + 1
        self.now.values[key] = value, self.clock_ms
        return value

    def _fire(self, what: str, timers: set[tuple[int, str]], timer: tuple[int, str]) -> None:
        timers.remove(timer)
        time, key = timer
        value = self._count(key)
        if time % 3 == 0:
            timers.add((time + 4, key))
        self.rows.append((what, key, time, value))

    def _fire_events(self) -> None:
        now = self.now
        self._raise_watermark()
        while now.watermark is not None and (due := [one for one in now.events if one[0] <= now.watermark]):
            self._fire("event", now.events, min(due))
