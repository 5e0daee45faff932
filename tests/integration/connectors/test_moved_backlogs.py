"""A backlog that moves to a task of the source that is further ahead: nothing of it is late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

import pytest

from tupletree import Tumbling
from tupletree.connectors.log_source import Assigned, Bounds, LogEvent, LogFollower, LogSource, Records, Revoked
from tupletree.connectors.log_spout import LogSpout
from tupletree.connectors.messages import LogRecord
from tupletree.streams import StreamBuilder
from tupletree.testing import LocalCluster

COUNT = 20
SECOND_MS = 1_000
LIVE_MS = 1_000_000
"""The event time of the other task's partition, which is read to its end."""

FOUND: dict[int, int] = {}
LOST_AT: list[int] = []
"""The position of the backlog when the second task has lost it."""


class Follower(LogFollower):
    """Reads a message at a time. The second task loses the backlog half-way, and the first gets it a moment later."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._at: dict[str, int] = {}
        self._polls = 0

    def poll(self, limit: int, wait_s: float) -> Sequence[LogEvent]:
        self._polls += 1
        if self._polls == 1:
            return [self._assigned("live" if self._index == 0 else "backlog", 0)]
        self.idle(wait_s)
        if self._index == 0 and LOST_AT and "backlog" not in self._at and self._polls % 10 == 0:
            return [self._assigned("backlog", LOST_AT[0])]
        if self._index == 1 and self._at.get("backlog") == COUNT // 2 and self._polls > 2 * COUNT:
            LOST_AT.append(self._at.pop("backlog"))
            return [Revoked("backlog")]
        return [self._next(name) for name, at in self._at.items() if at < self._limit(name)]

    def _limit(self, name: str) -> int:
        return 1 if name == "live" else COUNT // 2 if self._index == 1 else COUNT

    def _assigned(self, name: str, at: int) -> Assigned:
        self._at[name] = at
        return Assigned(name, at)

    def _next(self, name: str) -> Records:
        at = self._at[name]
        self._at[name] = at + 1
        time_ms = LIVE_MS if name == "live" else at * SECOND_MS
        return Records(name, [LogRecord(str(time_ms).encode(), at, at + 1)], at + 1)

    def ends(self) -> Mapping[str, float] | None:
        return {name: 1 if name == "live" else COUNT for name in self._at}

    def close(self) -> None:
        pass


class Group(LogSource):
    keeps_positions = True

    def open(self) -> None:
        pass

    def partitions(self) -> Sequence[str]:
        return ["live", "backlog"]

    def bounds(self, partition: str) -> Bounds:
        return Bounds(0, 1 if partition == "live" else COUNT)

    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        raise NotImplementedError

    def follow(self, positions: Mapping[str, int] | None, task_index: int, tasks: int) -> LogFollower:
        return Follower(task_index)

    def close(self) -> None:
        pass


def add(one: tuple[int, int]) -> None:
    FOUND[one[0]] = one[1]


@pytest.mark.nightly
def test_nothing_is_late_of_a_backlog_that_another_task_takes_over() -> None:
    builder = StreamBuilder(parallelism=2)
    times = builder.source(LogSpout(Group()), name="times", parallelism=2).map(int)
    timed = times.event_time(lambda at_ms: at_ms, max_lag=timedelta(0))
    counts = timed.key_by(lambda at_ms: 0).window(Tumbling(timedelta(seconds=1))).count(name="windows")
    counts.items().map(lambda one: (one[1].start, one[1].value)).peek(add)
    with LocalCluster() as cluster:
        cluster.submit("t", builder.topology())
        cluster.wait_until(lambda: len(FOUND) >= COUNT, timeout=60)
        assert not cluster.errors("t")
    assert {at * SECOND_MS: 1 for at in range(COUNT)} == FOUND
