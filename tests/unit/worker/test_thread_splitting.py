"""Executors that were parted from their neighbours come together again; a call that does not end is told of."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hand_driven import HandDriven
from local_components import Do, DoBasic, Latch, Log

from tupletree import Spout, TopologyBuilder
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.worker.execution import run_loop
from tupletree.worker.execution.spout_executor import LONG_CALL_S
from tupletree.worker.execution.thread_splitting import FIRST_CALM_S, MAX_CALM_S, SplitBackoff

ENOUGH_S = 60


class OpensSlowly(Spout):
    """Waits in ``open`` for what the test sets, then emits without end."""

    outputs = ["n"]

    def __init__(self, latch: Latch) -> None:
        self.latch = latch

    def open(self, conf: Mapping[str, Any], context: Any, collector: Any) -> None:
        self.latch.wait()

    def next_tuple(self) -> None:
        self.collector.emit([1], 1)


def loops_of(cluster: LocalCluster) -> list[list[str]]:
    return [[one.component_id for one in loop.executors] for loop in cluster._find("t").engine.loops]


def test_a_spout_that_opens_slowly_stops_nobody_and_is_not_taken_for_a_blocking_one(
    cluster: LocalCluster, latch: Latch
) -> None:
    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("slow", OpensSlowly(latch))
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", Do()).shuffle_grouping("slow").shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())
    cluster.wait_until(lambda: ["slow"] in loops_of(cluster), ENOUGH_S)
    feeder.feed([1], "beside it")
    cluster.wait_until(lambda: "beside it" in feeder.acked, ENOUGH_S)
    engine = cluster._find("t").engine
    assert not any(executor.is_blocking for executor in engine.executors)
    latch.set()
    cluster.wait_until(lambda: [sorted(one) for one in loops_of(cluster)] == [["bolt", "slow", "spout"]], ENOUGH_S)
    assert loops_of(cluster) == [[executor.component_id for executor in engine.executors]], "in the order of old"
    assert not any(executor.is_blocking for executor in engine.executors)


def test_a_bolt_that_has_blocked_once_comes_back(cluster: LocalCluster, latch: Latch) -> None:
    feeder, done = FeederSpout(["n"]), Log()

    def execute(tup: Any, collector: Any) -> None:
        if tup[0] == 0:
            latch.wait()
        done.append(tup[0])

    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", DoBasic(execute)).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())
    feeder.feed([0], 0)
    cluster.wait_until(lambda: len(loops_of(cluster)) == 2, ENOUGH_S)
    [bolt] = [one for one in cluster._find("t").engine.executors if one.component_id == "bolt"]
    cluster.wait_until(lambda: bolt.is_blocking, ENOUGH_S)
    latch.set()
    for number in range(1, 100):
        feeder.feed([number], number)
    cluster.wait_until(lambda: loops_of(cluster) == [["spout", "bolt"]], ENOUGH_S)
    assert not bolt.is_blocking
    for number in range(100, 200):
        feeder.feed([number], number)
    cluster.wait_until(lambda: len(feeder.acked) == 200, ENOUGH_S)
    assert list(done) == list(range(200)), "moved to and fro, and nothing is lost or overtaken"


def test_an_executor_that_came_back_is_closed_with_its_loop(cluster: LocalCluster, latch: Latch) -> None:
    closed = Log()

    class Closing(OpensSlowly):
        def close(self) -> None:
            closed.append("closed")

    builder = TopologyBuilder()
    builder.set_spout("slow", Closing(latch))
    builder.set_bolt("bolt", Do()).shuffle_grouping("slow")
    cluster.submit("t", builder.create_topology())
    cluster.wait_until(lambda: len(loops_of(cluster)) == 2, ENOUGH_S)
    latch.set()
    cluster.wait_until(lambda: len(loops_of(cluster)) == 1, ENOUGH_S)
    cluster.kill("t")
    assert list(closed) == ["closed"]


@pytest.mark.parametrize("parallelism", ["shared", "alone"])
def test_a_call_that_does_not_end_is_told_of_while_it_lasts(
    cluster: LocalCluster, latch: Latch, monkeypatch: pytest.MonkeyPatch, caplog: Any, parallelism: str
) -> None:
    monkeypatch.setattr(run_loop, "HANGS_S", 0.2)
    feeder = FeederSpout(["n"])

    def spin(tup: Any, collector: Any) -> None:
        while not latch.is_set():
            time.sleep(0)  # wants a processor all the time: this is no waiting

    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", DoBasic(spin)).shuffle_grouping("spout").set_blocking(parallelism == "alone")
    with caplog.at_level(logging.WARNING):
        cluster.submit("t", builder.create_topology())
        feeder.feed([1], 1)
        cluster.wait_until(lambda: "executor.hangs" in caplog.text, ENOUGH_S)
    [bolt] = [one for one in cluster._find("t").engine.executors if one.component_id == "bolt"]
    assert f"component=bolt task={bolt.tasks[0].task_id}" in caplog.text


class Nap(Spout):
    """Emits a number with each call; a call may take long by the clock of the test."""

    outputs = ["n"]

    def __init__(self, calls: Log) -> None:
        self.calls = calls

    def next_tuple(self) -> None:
        for call in list(self.calls):
            call()
        self.collector.emit([1])


class Call(Latch):
    """Something that a component calls, and a test sets."""

    hand: HandDriven

    def __call__(self) -> None:
        if self.is_set():
            self.hand.now_s += LONG_CALL_S


def test_a_spout_that_was_found_blocking_is_polled_until_a_call_takes_long() -> None:
    call, calls = Call(), Log()
    calls.append(call)
    builder = TopologyBuilder()
    builder.set_spout("spout", Nap(calls))
    builder.set_bolt("sink", Do()).shuffle_grouping("spout")
    hand = call.hand = HandDriven(builder.create_topology())
    executor = hand.executor("spout")
    executor.is_blocking = executor.is_found_blocking = True
    for _ in range(12):
        hand.step("spout")
    assert len(hand.delivered[-1][2]) == 1000
    call.set()
    hand.step("spout")
    assert len(hand.delivered[-1][2]) == 1
    call.clear()
    executor.is_found_blocking = False  # it says so itself: each of its tuples may be the last for long
    hand.step("spout")
    assert len(hand.delivered[-1][2]) == 1


def test_each_time_an_executor_blocks_it_must_be_calm_for_longer() -> None:
    calm, now_s, needed = SplitBackoff(), 1000.0, []
    for _ in range(11):
        calm.parted(now_s)
        assert not calm.is_over(now_s)
        first = next(wait for wait in range(0, 10_000) if calm.is_over(now_s + wait / 2))
        needed.append(first / 2)
        now_s += first
    assert needed == [2.5, 5, 10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert needed[0] == FIRST_CALM_S
    calm.blocked(now_s)
    assert not calm.is_over(now_s + MAX_CALM_S - 1)
    now_s += 2 * MAX_CALM_S + 1
    calm.parted(now_s)
    assert calm.is_over(now_s + FIRST_CALM_S), "it has behaved for long"
