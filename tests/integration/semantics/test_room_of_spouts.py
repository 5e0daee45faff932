"""Spouts that emit as many tuples in one call as there is room for."""

from __future__ import annotations

from typing import Any

import pytest
from local_components import Log

from tupletree import Bolt, ReliableSpout, Spout, TopologyBuilder
from tupletree.testing import LocalCluster

COUNT = 500
PENDING = 7


class Greedy(Spout):
    """Emits while there is room, and keeps how many it has emitted per call."""

    outputs = ("number",)

    def __init__(self, calls: Log) -> None:
        self.calls = calls
        self.number = 0
        self.is_emitting = False

    def next_tuple(self) -> None:
        before = self.number
        while self.number < COUNT:
            self.is_emitting = True
            self.collector.emit([self.number], self.number)
            self.is_emitting = False
            self.number += 1
            if not self.collector.has_room():
                break
        if self.number > before:
            self.calls.append((self.number - before, self.collector.pending))

    def ack(self, msg_id: Any) -> None:
        if self.collector.has_room() and not self.is_emitting:
            raise AssertionError("there is room outside of next_tuple")

    def fail(self, msg_id: Any) -> None:
        raise AssertionError(msg_id)


class Numbers(ReliableSpout):
    """Reads numbers, each from the table of the class."""

    outputs = ("number",)
    max_ahead = 5

    def read(self) -> Any:
        for number in range(COUNT):
            yield [number]


class Collect(Bolt):
    def __init__(self, numbers: Log) -> None:
        self.numbers = numbers

    def execute(self, tup: Any) -> None:
        self.numbers.append(tup["number"])
        self.collector.ack(tup)


def run(spout: Spout, conf: dict[str, Any]) -> list[Any]:
    """Return the numbers that arrive."""
    numbers = Log()
    builder = TopologyBuilder()
    builder.set_spout("numbers", spout)
    builder.set_bolt("collect", Collect(numbers)).shuffle_grouping("numbers")
    with LocalCluster() as cluster:
        cluster.submit("room", builder.create_topology(), conf)
        cluster.wait_until(lambda: len(numbers) >= COUNT, 30)
    return list(numbers)


@pytest.mark.parametrize("ackers", [1, 0])
def test_a_call_emits_what_max_spout_pending_leaves_room_for(ackers: int) -> None:
    calls = Log()
    conf = {"topology.max.spout.pending": PENDING, "topology.acker.executors": ackers}
    assert run(Greedy(calls), conf) == list(range(COUNT))
    assert sum(emitted for emitted, _ in calls) == COUNT
    assert max(emitted for emitted, _ in calls) > 1
    if ackers:
        assert max(pending for _, pending in calls) == PENDING


def test_without_a_limit_a_step_is_over_at_some_time() -> None:
    calls = Log()
    assert run(Greedy(calls), {}) == list(range(COUNT))
    assert sum(emitted for emitted, _ in calls) == COUNT


def test_a_spout_that_declares_to_block_emits_once_per_call() -> None:
    calls = Log()
    spout = Greedy(calls)
    spout.blocking = True
    assert run(spout, {}) == list(range(COUNT))
    assert {emitted for emitted, _ in calls} == {1}


def test_a_reliable_spout_reads_no_further_than_it_may() -> None:
    assert run(Numbers(), {}) == list(range(COUNT))
