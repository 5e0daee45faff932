"""The follower of any log: it reads range after range of its share."""

from __future__ import annotations

import contextlib
import math
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tupletree.connectors.log_source import Assigned, DeletedError, LogEvent, LogFollower, LogSource, Records
from tupletree.connectors.messages import LogRecord
from tupletree.errors import FailedException, ReportedFailedException

PAUSE_S: Final = 0.01
"""The pause between two looks at a log that has nothing new. Slow looks take at most a tenth of the time."""
LOOK_EVERY_S: Final = 1.0
"""How often the list of partitions is read again."""


def owner_of(partition: str, tasks: int) -> int:
    """Return the index of the task that reads a partition. Depends on nothing else, so new partitions move no other."""
    return zlib.crc32(partition.encode()) % tasks


class RangeFollower(LogFollower):
    """Reads a share of the partitions in turns. A partition without a position begins where ``LogSource.begin`` says.

    ``poll`` raises FailedException for a partition that cannot be read now, and goes on with the next one when it is
    called again; after DeletedError also with the messages of the partition that are left. The partition is tried again
    after ``LOOK_EVERY_S``; while others have something to read, one error is repeated in that time, however many
    partitions fail. For the ``absence`` of a log that never had a partition it raises once, or each time if the log is
    complete: it has no end yet.
    """

    def __init__(self, source: LogSource, positions: Mapping[str, int], task_index: int, tasks: int) -> None:
        self._source = source
        self._positions = dict(positions)  # where the next range of a partition begins
        self._task_index = task_index
        self._tasks = tasks
        self._mine: list[str] = []  # the partitions of the share that are there
        self._known: set[str] = set()  # those that were ever there
        self._share: list[str] = []  # all that are there, also if they cannot be read now
        self._has_looked = False
        self._absence = ""  # of the log, at the last look
        self._is_absence_told = False
        self._look_at_s = 0.0
        self._read_at_s = 0.0
        self._turn = 0
        self._aside: dict[str, tuple[float, FailedException]] = {}  # cannot be read: when to try again, and why
        self._repeat_at_s = 0.0
        self._open: tuple[str, int, Iterator[Sequence[LogRecord]]] | None = None  # partition, end, its rest

    def poll(self, limit: int, wait_s: float) -> Sequence[LogEvent]:
        deadline_s = time.monotonic() + wait_s
        while True:
            now_s = time.monotonic()
            events: Sequence[LogEvent] = ()
            if now_s >= self._read_at_s:
                events = self._look()
                self._tell_absence()
                events = events or self._read(limit)
                if not events:
                    ended_s = time.monotonic()
                    self._read_at_s = ended_s + max(PAUSE_S, 10 * (ended_s - now_s))
            if events or now_s >= deadline_s:
                return events
            time.sleep(max(0.0, min(self._read_at_s, deadline_s) - time.monotonic()))

    def lag(self) -> int | None:
        total = 0
        for name in self._mine:
            with contextlib.suppress(FailedException):  # it cannot be read now
                total += max(0, self._source.bounds(name).end - self._positions[name])
        return total

    def ends(self) -> Mapping[str, float] | None:
        return {name: self._end_of(name) for name in self._share} if self._has_looked else None

    def _end_of(self, name: str) -> float:
        """Return the end of a partition, or its position if the next message is not complete."""
        try:
            end = self._source.bounds(name).end
            at = self._positions[name]
            if self._source.limited(name, at, end, self._source.units_per_message) > at:
                return end
        except (FailedException, KeyError):  # it cannot be read now, or its beginning is not known
            return math.inf
        return at

    def close(self) -> None:
        self._open = None

    def _look(self) -> list[LogEvent]:
        """Add new partitions to the share, and leave out those that are gone until they are back.

        Raises FailedException, if nothing is added, for a new partition that cannot be read now: it is left out too.
        """
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return []
        self._look_at_s = now_s + LOOK_EVERY_S
        events: list[LogEvent] = []
        mine = []
        share = []
        fault = None
        names = self._source.partitions()
        self._absence = "" if names or self._positions else self._source.absence()
        for index, name in enumerate(names):
            owner = index % self._tasks if self._source.is_numbered else owner_of(name, self._tasks)
            if not name or owner != self._task_index:
                continue
            share.append(name)
            if name not in self._known:
                if name not in self._positions:
                    try:
                        self._positions[name] = self._source.begin(name, self._source.bounds(name))
                    except FailedException as error:
                        fault = error
                        continue  # until the next look
                self._known.add(name)
                events.append(Assigned(name, self._positions[name]))
            mine.append(name)
        self._mine, self._share, self._has_looked = mine, share, True
        if fault is not None and not events:
            raise fault
        return events

    def _tell_absence(self) -> None:
        if self._absence and (self._source.are_complete or not self._is_absence_told):
            self._is_absence_told = True
            raise ReportedFailedException(self._absence)

    def _read(self, limit: int) -> list[LogEvent]:
        """Return the next messages of the range being read, or of the next partition that has some."""
        for _ in range(len(self._mine) + 1):
            if self._open is None and not self._begin(limit):
                continue
            assert self._open is not None
            name, end, rest = self._open
            try:
                records = next(rest, None)
            except DeletedError as error:
                self._positions[name] = error.first
                self._open = name, error.first, iter(())  # so that the next poll tells of the position
                raise
            except FailedException as error:
                self._open = None
                self._set_aside(name, error)
                continue
            self._aside.pop(name, None)
            if records is None:
                self._open = None
                self._positions[name] = end
                return [Records(name, (), end)]
            if records:
                self._positions[name] = records[-1].next
                return [Records(name, records, records[-1].next)]
        for name in self._mine:
            if name in self._aside:
                raise self._aside[name][1].with_traceback(None)
        return []

    def _begin(self, limit: int) -> bool:
        """Begin a range of the partition whose turn it is; return false if it has nothing new, or is set aside."""
        if not self._mine:
            return False
        name = self._mine[self._turn % len(self._mine)]
        self._turn += 1
        if name in self._aside and time.monotonic() < self._aside[name][0]:
            return False
        try:
            start, bounds = self._positions[name], self._source.bounds(name)
            end = self._source.limited(name, start, bounds.end, limit * self._source.units_per_message)
        except FailedException as error:
            self._set_aside(name, error)
            return False
        if end <= start:
            self._aside.pop(name, None)
            return False
        self._open = name, end, iter(self._source.read(name, start, end))
        return True

    def _set_aside(self, name: str, error: FailedException) -> None:
        """Have a partition tried again later. Raises the error if it is another than before, or the time has come."""
        now_s, before = time.monotonic(), self._aside.get(name)
        self._aside[name] = now_s + LOOK_EVERY_S, error
        if before is None or str(before[1]) != str(error) or now_s >= self._repeat_at_s:
            self._repeat_at_s = now_s + LOOK_EVERY_S
            raise error
