"""A backlog that is read for longer than an idle timeout: the task that reads it brings elements, and is not idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

import pytest

from tupletree import Tumbling
from tupletree.connectors.log_source import Assigned, Bounds, LogEvent, LogFollower, LogSource, Records
from tupletree.connectors.log_spout import LogSpout
from tupletree.connectors.messages import LogRecord
from tupletree.streams import StreamBuilder
from tupletree.testing import LocalCluster

COUNT = 30
SECOND_MS = 1_000
LIVE_MS = 1_000_000
"""The event time of the other task's partition, which is read to its end."""

FOUND: dict[str, dict[int, int]] = {}


class Follower(LogFollower):
    """Of task 0: reads one partition after the other, twenty messages per second. Of the others: one message."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._todo = [(name, at) for name in ("a", "b") for at in range(COUNT)] if index == 0 else [("c", 0)]
        self._is_told = False

    def poll(self, limit: int, wait_s: float) -> Sequence[LogEvent]:
        if not self._is_told:
            self._is_told = True
            return [Assigned(name, 0) for name in self._names]
        self.idle(wait_s)
        if not self._todo:
            return []
        name, at = self._todo.pop(0)
        time_ms = LIVE_MS if name == "c" else at * SECOND_MS
        return [Records(name, [LogRecord(str(time_ms).encode(), at, at + 1)], at + 1)]

    def ends(self) -> Mapping[str, float] | None:
        return {name: COUNT if self._index == 0 else 1 for name in self._names} if self._is_told else None

    @property
    def _names(self) -> Sequence[str]:
        return ("a", "b") if self._index == 0 else ("c",)

    def close(self) -> None:
        pass


class Backlog(LogSource):
    def open(self) -> None:
        pass

    def partitions(self) -> Sequence[str]:
        return ["a", "b", "c"]

    def bounds(self, partition: str) -> Bounds:
        return Bounds(0, 1 if partition == "c" else COUNT)

    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        raise NotImplementedError

    def follow(self, positions: Mapping[str, int] | None, task_index: int, tasks: int) -> LogFollower:
        return Follower(task_index)

    def close(self) -> None:
        pass


class Finds:
    def __init__(self, name: str) -> None:
        self.name = name
        FOUND[name] = {}

    def __call__(self, one: tuple[int, int]) -> None:
        FOUND[self.name][one[0]] = one[1]


@pytest.mark.nightly
@pytest.mark.parametrize("parallelism", [2, 4], ids=["in the source", "behind it"])
def test_a_task_that_reads_one_partition_while_another_is_further_behind_is_not_idle(parallelism: int) -> None:
    """With more executors behind the source, flat_map runs in a component that passes the progress on."""
    name = f"backlog {parallelism}"
    builder = StreamBuilder(parallelism=parallelism)
    times = builder.source(LogSpout(Backlog()), name="times", parallelism=2).map(int)
    timed = times.event_time(lambda at_ms: at_ms, max_lag=timedelta(0), idle_timeout=timedelta(seconds=0.5))
    if parallelism > 2:
        timed = timed.flat_map(lambda at_ms: [at_ms])
    counts = timed.key_by(lambda at_ms: 0).window(Tumbling(timedelta(seconds=1))).count(name="windows")
    counts.items().map(lambda one: (one[1].start, one[1].value)).peek(Finds(name))
    with LocalCluster() as cluster:
        cluster.submit("t", builder.topology())
        cluster.wait_until(lambda: len(FOUND[name]) >= COUNT, timeout=60)
        assert not cluster.errors("t")
    assert FOUND[name] == {at * SECOND_MS: 2 for at in range(COUNT)}
