"""Calls that a component asks for from threads of its own."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hand_driven import HandDriven
from local_components import Do, Log

from tupletree import Spout, Topology, TopologyBuilder, Tuple
from tupletree.errors import TaskFailedError
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.tuples import Origin
from tupletree.worker.core.batches import MULTI, Batch, Rows, encode
from tupletree.worker.execution.inbox import RemoteBatch

SOURCE = Origin("spout", 2, "default", ["n"])


def topology_of(bolt: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", bolt).shuffle_grouping("spout")
    return builder.create_topology()


def test_calls_take_their_turn_among_the_batches_that_wait() -> None:
    log = Log()
    hand = HandDriven(topology_of(Do(lambda tup, collector: log.append(tup[0]))))
    executor = hand.executor("bolt")
    executor.inbox.put(Batch(SOURCE, 1, Rows.of([([1], 0, 0)])), 1)
    executor.tasks[0].context.call_soon(lambda: log.append("called"))
    executor.inbox.put(Batch(SOURCE, 1, Rows.of([([2], 0, 0)])), 1)
    while hand.step("bolt"):
        pass
    assert list(log) == [1, "called", 2]
    assert executor.inbox.rows == 0


def test_a_first_call_overtakes_the_batches_that_wait() -> None:
    log = Log()
    hand = HandDriven(topology_of(Do(lambda tup, collector: log.append(tup[0]))))
    executor = hand.executor("bolt")
    executor.inbox.put(Batch(SOURCE, 1, Rows.of([([1], 0, 0)])), 1)
    executor.tasks[0].context.call_first(lambda: log.append("called"))
    while hand.step("bolt"):
        pass
    assert list(log) == ["called", 1]


def test_a_full_bolt_is_given_calls_and_no_tuples() -> None:
    log = Log()
    bolt = Do(lambda tup, collector: log.append(tup[0]))
    bolt.can_be_full = True
    hand = HandDriven(topology_of(bolt))
    executor = hand.executor("bolt")
    context = executor.tasks[0].context
    context.is_full = lambda: "called" not in log
    executor.inbox.put(Batch(SOURCE, 1, Rows.of([([1], 0, 0)])), 1)
    for _ in range(3):
        hand.step("bolt")
    assert list(log) == []
    assert not executor.has_work
    context.call_first(lambda: log.append("called"))
    assert executor.has_work
    while hand.step("bolt"):
        pass
    assert list(log) == ["called", 1]


def test_what_waits_for_a_full_bolt_does_not_time_out() -> None:
    bolt = Do()
    bolt.can_be_full = True
    hand = HandDriven(topology_of(bolt), {"topology.message.timeout.secs": 4})
    executor = hand.executor("bolt")
    task = executor.tasks[0]
    full = True
    task.context.is_full = lambda: full
    executor.inbox.put(Batch(SOURCE, 1, Rows.of([([1], 11, 5), ([2], MULTI, ((12, 6), (13, 7)))])), 2)
    remote = encode(SOURCE, 1, Rows.of([([3], 14, 8)]))
    executor.inbox.put(RemoteBatch(remote, SOURCE), 1)
    found = []
    for now_s in (1.0, 1.9, 2.1):  # a quarter of the timeout is a second
        hand.now_s = now_s
        hand.step("bolt")
        found.append(set(task.updates.resets))
        task.updates.resets.clear()
    assert found == [{11, 12, 13, 14}, set(), {11, 12, 13, 14}]
    full = False
    hand.step("bolt")
    assert task.updates.resets == set()


def test_what_a_call_raises_is_the_failure_of_its_task() -> None:
    hand = HandDriven(topology_of(Do()))

    def broken() -> None:
        raise ValueError("broken")

    hand.executor("bolt").tasks[0].context.call_soon(broken)
    with pytest.raises(TaskFailedError, match="task 1 of component 'bolt' failed: ValueError: broken"):
        hand.step("bolt")


def test_a_spout_is_called_though_it_is_not_active() -> None:
    log = Log()
    hand = HandDriven(topology_of(Do()))
    hand.executor("spout").tasks[0].context.call_soon(lambda: log.append("called"))
    hand.step("spout")
    assert list(log) == ["called"]


class AckedLater(Do):
    """Acks each tuple on the task's thread when another thread is done with it."""

    def execute(self, tup: Tuple) -> None:
        threading.Thread(target=lambda: self.context.call_soon(lambda: self.collector.ack(tup))).start()


class Numbers(Spout):
    outputs = ["n"]

    def __init__(self, acked: Log) -> None:
        self.acked = acked
        self.next = 0

    def next_tuple(self) -> None:
        if self.next < 100:
            self.next += 1
            self.collector.emit([self.next], self.next)

    def ack(self, msg_id: Any) -> None:
        self.acked.append(msg_id)


def test_a_bolt_that_works_on_other_threads_acks_when_they_are_done() -> None:
    acked = Log()
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(acked))
    builder.set_bolt("later", AckedLater()).shuffle_grouping("numbers")
    with LocalCluster() as cluster:
        cluster.submit("later", builder.create_topology())
        cluster.wait_until(lambda: len(acked) == 100)
    assert sorted(acked) == list(range(1, 101))
