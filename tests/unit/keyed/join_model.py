"""Joins for tests of properties, and what they must do, computed by nested loops over all that ever came."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from keyed_model import Model

from tupletree import IntervalJoin, TableJoin
from tupletree.tuples import Tuple

SIDES = ("left", "right")


def ms(number: int) -> dt.timedelta:
    """A time of so many milliseconds."""
    return dt.timedelta(milliseconds=number)


class Numbers(IntervalJoin):
    """Emits the numbers of both tuples of a pair; -1 where there is none."""

    key, event_time, late_stream = "key", "at", "late"
    left, right = SIDES
    outputs = ["left", "right"]
    _max_chunk = 4

    def __init__(self, max_lag_ms: int, idle_timeout_ms: int | None, before_ms: int, after_ms: int, kind: str) -> None:
        self.max_lag = ms(max_lag_ms)
        self.idle_timeout = None if idle_timeout_ms is None else ms(idle_timeout_ms)
        self.before, self.after, self.kind = ms(before_ms), ms(after_ms), kind

    def keep(self, tup: Tuple) -> int:
        return int(tup["number"])

    def join(self, left: int | None, right: int | None) -> Iterator[list[Any]]:
        yield [-1 if left is None else left, -1 if right is None else right]


class Versions(TableJoin):
    """Emits the number of a tuple and of its row; -1 where there is none."""

    key, event_time, late_stream = "key", "at", "late"
    stream, table = SIDES
    versioned = True
    outputs = ["left", "right"]
    _max_chunk = 4

    def __init__(self, max_lag_ms: int, idle_timeout_ms: int | None, kind: str) -> None:
        self.max_lag = ms(max_lag_ms)
        self.idle_timeout = None if idle_timeout_ms is None else ms(idle_timeout_ms)
        self.kind = kind

    def keep(self, tup: Tuple) -> int:
        return int(tup["number"])

    def deleted(self, tup: Tuple) -> bool:
        return bool(tup["deleted"])

    def join(self, left: int, row: int | None) -> Iterator[list[Any]]:
        yield [left, -1 if row is None else row]


@dataclass(frozen=True)
class Came:
    """A tuple that was not late."""

    side: int
    key: str
    at: int
    number: int
    deleted: bool = False


@dataclass
class Held:
    """What a checkpoint has."""

    came: list[Came] = field(default_factory=list)
    done: set[int] = field(default_factory=set)  # numbers of tuples that nothing can be emitted for any more
    joined: set[int] = field(default_factory=set)  # numbers of tuples of any pair


class JoinModel:
    """One task of a join; a subclass says what is emitted. Lateness and watermark are those of a KeyedProcess."""

    def __init__(self, senders: int, max_lag_ms: int, idle_timeout_ms: int | None) -> None:
        self.time = Model(senders, max_lag_ms, idle_timeout_ms, None)
        self.now = Held()
        self.committed = Held()
        self.prepared: Held | None = None
        self.rows: list[tuple[int, int]] = []
        self.late: list[int] = []

    @property
    def watermark(self) -> int | None:
        return self.time.now.watermark

    def execute(self, sender: int, tup: Came) -> None:
        self.time.execute(sender, tup.key, tup.at, [], False)
        self._passed()
        if self.time.late and not self._takes_late(tup):
            self.late.append(tup.number)
        else:
            self._came(tup)
        self.time.late = []
        self._passed()

    def tick(self, now_ms: int) -> None:
        self.time.tick(now_ms)
        self._passed()

    def prepare(self) -> None:
        self.time.prepare()
        self.prepared = copy.deepcopy(self.now)

    def commit(self) -> None:
        assert self.prepared is not None
        self.time.commit()
        self.committed, self.prepared = self.prepared, None

    def go_back(self) -> None:
        self.time.go_back()
        self.now, self.prepared = copy.deepcopy(self.committed), None

    def _is_before(self, time: int) -> bool:
        return self.watermark is not None and time < self.watermark

    def _takes_late(self, tup: Came) -> bool:
        return False

    def _came(self, tup: Came) -> None:
        raise NotImplementedError

    def _passed(self) -> None:
        """Emit what the watermark has made due."""
        raise NotImplementedError


class IntervalModel(JoinModel):
    def __init__(
        self, senders: int, max_lag_ms: int, idle_timeout_ms: int | None, before_ms: int, after_ms: int, kind: str
    ) -> None:
        super().__init__(senders, max_lag_ms, idle_timeout_ms)
        self.before_ms, self.after_ms = before_ms, after_ms
        self.reported = {"inner": (), "left": (0,), "outer": (0, 1)}[kind]

    def _came(self, tup: Came) -> None:
        for other in self.now.came:
            left, right = (tup, other) if tup.side == 0 else (other, tup)
            if other.side != tup.side and other.key == tup.key and self._are_near(left.at, right.at):
                self.rows.append((left.number, right.number))
                self.now.joined |= {left.number, right.number}
        self.now.came.append(tup)

    def _are_near(self, left: int, right: int) -> bool:
        return left - self.before_ms <= right <= left + self.after_ms

    def _passed(self) -> None:
        for one in self.now.came:
            wait_ms = self.before_ms if one.side else self.after_ms
            if one.number not in self.now.done and self._is_before(one.at + wait_ms):
                self.now.done.add(one.number)
                if one.side in self.reported and one.number not in self.now.joined:
                    self.rows.append((one.number, -1) if one.side == 0 else (-1, one.number))

    def kept(self, side: int) -> int:
        """The number of tuples that a partner can come for."""
        return sum(one.side == side and one.number not in self.now.done for one in self.now.came)


class VersionModel(JoinModel):
    def __init__(self, senders: int, max_lag_ms: int, idle_timeout_ms: int | None, kind: str) -> None:
        super().__init__(senders, max_lag_ms, idle_timeout_ms)
        self.is_left = kind == "left"

    def _takes_late(self, tup: Came) -> bool:
        return tup.side == 1

    def _came(self, tup: Came) -> None:
        self.now.came.append(tup)

    def _passed(self) -> None:
        came = self.now.came
        for one in came:
            if one.side == 0 and one.number not in self.now.done and self._is_before(one.at):
                self.now.done.add(one.number)
                row = self._valid(one.key, one.at)
                if self.is_left or (row is not None and not row.deleted):
                    self.rows.append((one.number, -1 if row is None or row.deleted else row.number))
        for key in {one.key for one in came}:  # a deletion is forgotten when it is valid at the watermark
            row = None if self.watermark is None else self._valid(key, self.watermark)
            if row is not None and row.deleted:
                self.now.came = [one for one in self.now.came if (one.key, one.side) != (key, 1) or one.at > row.at]

    def _valid(self, key: str, time: int) -> Came | None:
        found = None
        for one in self.now.came:
            if one.side == 1 and one.key == key and one.at <= time and (found is None or one.at >= found.at):
                found = one
        return found
