"""A slow task of a shuffle gets what it can execute, and the stream goes on at the rate of all tasks together."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from local_components import Log, Shared

from tupletree import BasicBolt, Spout, TopologyBuilder
from tupletree.testing import LocalCluster, wait_until

TASKS = 4


class Permits(Shared):
    """What a task needs for each tuple: as many as the test gives."""

    def __init__(self) -> None:
        super().__init__()
        self.semaphore = threading.Semaphore(0)

    def give(self, count: int) -> None:
        self.semaphore.release(count)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """A cluster in real time: in simulated time no load is measured."""
    with LocalCluster() as running:
        yield running


@pytest.fixture
def permits(cluster: LocalCluster) -> Iterator[Permits]:
    made = Permits()
    yield made
    made.give(1_000_000)  # so that no thread stays behind


class Numbers(Spout):
    """Emits numbers without end."""

    outputs = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def next_tuple(self) -> None:
        self.collector.emit([self.number], self.number)
        self.number += 1


class Executes(BasicBolt):
    """Notes which task executes; the first task only with a permit."""

    blocking = True

    def __init__(self, log: Log, permits: Permits) -> None:
        self.log = log
        self.permits = permits

    def execute(self, tup: Any, collector: Any) -> None:
        index = self.context.task_index
        if index == 0:
            self.permits.semaphore.acquire()
        self.log.append(index)


def started(cluster: LocalCluster, log: Log, permits: Permits, pending: int, **conf: Any) -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("executes", Executes(log, permits), TASKS).shuffle_grouping("numbers")
    cluster.submit("t", builder.create_topology(), {"topology.max.spout.pending": pending, **conf})


# As loaded tasks are known after 0.1 to 0.2 s, much more must be pending than the slow task gets in this time.
@pytest.mark.long
@pytest.mark.parametrize(("pending", "buffer"), [(100_000, 1_000_000), (20_000, 100)], ids=["loaded", "congested"])
def test_one_slow_task_does_not_hold_up_the_others_and_is_not_left_out(
    cluster: LocalCluster, permits: Permits, pending: int, buffer: int
) -> None:
    log = Log()
    started(cluster, log, permits, pending, **{"topology.executor.receive.buffer.size": buffer})
    wait_until(lambda: len(log) > 5 * pending, 60, what="the other tasks go on")
    others = Counter(log)
    assert others[0] == 0, "with turns, they would have executed three times what may be pending at most"
    assert min(others[index] for index in range(1, TASKS)) > len(log) / 10
    permits.give(pending)
    wait_until(lambda: log.count(0) == pending, 60, what="the slow task gets what it can execute")
    permits.give(1_000_000)
    since = len(log)

    def has_recovered() -> bool:
        nonlocal since
        seen, since = Counter(log[since:]), len(log)
        return seen[0] > 0.8 * sum(seen.values()) / TASKS > 100

    wait_until(has_recovered, 60, what="it takes its turns when it is as fast as the others")


def test_a_shuffle_that_takes_turns_waits_for_the_slowest_task(cluster: LocalCluster, permits: Permits) -> None:
    log, pending = Log(), 100
    started(cluster, log, permits, pending, **{"topology.disable.loadaware.messaging": True})
    wait_until(lambda: len(log) >= (pending - 1) * (TASKS - 1), 60, what="all that is pending is with the slow task")
    permits.give(1)
    wait_until(lambda: log.count(0) == 1, 60, what="it executes one")
    assert len(log) <= (pending + 2) * (TASKS - 1) + 1
