"""What a worker reports of calls that do not end, and of executors that were found blocking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hand_driven import HandDriven
from local_components import Do, DoBasic, Latch, Log

from tupletree import Spout, TopologyBuilder
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.worker.control_messages import TreeVerdict, VerdictKind
from tupletree.worker.engine import Engine
from tupletree.worker.execution.call_durations import CallDurations

ENOUGH_S = 60


class Waits(Spout):
    """Waits in ``next_tuple`` for what the test sets."""

    outputs = ["n"]

    def __init__(self, latch: Latch, entered: Latch, blocking: bool) -> None:
        self.latch = latch
        self.entered = entered
        self.blocking = blocking

    def next_tuple(self) -> None:
        self.entered.set()
        self.latch.wait()


def running(cluster: LocalCluster, spout: Spout) -> Engine:
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())
    return cluster._find("t").engine


def tasks_of(engine: Engine, component: str) -> Sequence[int]:
    return [task.task_id for one in engine.executors if one.component_id == component for task in one.tasks]


def test_a_call_of_a_spout_is_reported_for_as_long_as_it_lasts(cluster: LocalCluster, latch: Latch) -> None:
    entered, calls = Latch(), CallDurations()
    engine = running(cluster, Waits(latch, entered, blocking=False))
    [spout] = tasks_of(engine, "spout")
    assert entered.wait(ENOUGH_S)
    calls.observe(engine.present_steps(), 100.0)
    assert calls.observe(engine.present_steps(), 112.0) == {spout: 12.0}


def test_a_spout_that_declares_that_it_blocks_may_wait_forever(cluster: LocalCluster, latch: Latch) -> None:
    entered, calls = Latch(), CallDurations()
    engine = running(cluster, Waits(latch, entered, blocking=True))
    assert entered.wait(ENOUGH_S)
    calls.observe(engine.present_steps(), 100.0)
    assert tasks_of(engine, "spout")[0] not in calls.observe(engine.present_steps(), 112.0)


class Heard(Spout):
    """Emits a number with each call, and calls a function with each verdict."""

    outputs = ["n"]

    def __init__(self, heard: Log) -> None:
        self.heard = heard

    def next_tuple(self) -> None:
        self.collector.emit([1], 1)

    def ack(self, msg_id: Any) -> None:
        self.note()

    def fail(self, msg_id: Any) -> None:
        self.note()

    def note(self) -> None:
        for call in list(self.heard):
            call()


def test_many_verdicts_in_one_step_are_many_calls() -> None:
    heard, seen = Log(), []
    builder = TopologyBuilder()
    builder.set_spout("spout", Heard(heard))
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    hand = HandDriven(builder.create_topology())
    for _ in range(6):
        hand.step("spout")
    executor = hand.executor("spout")
    [task] = executor.tasks
    roots = list(task.pending)  # type: ignore[attr-defined]
    heard.append(lambda: seen.append(executor.progress))
    hand.tell("spout", TreeVerdict(task.task_id, VerdictKind.ACKED, roots[:3]))
    hand.tell("spout", TreeVerdict(task.task_id, VerdictKind.FAILED, roots[3:6]))
    hand.step("spout")
    assert len(seen) == len(set(seen)) == 6


def test_an_executor_that_was_found_blocking_is_reported_until_it_is_back(cluster: LocalCluster, latch: Latch) -> None:
    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", DoBasic(lambda tup, collector: latch.wait())).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())
    engine = cluster._find("t").engine

    def found() -> set[str]:
        return {one.component_id for one in engine.statistics() if one.found_blocking}

    feeder.feed([1], 1)
    cluster.wait_until(lambda: found() == {"bolt"}, ENOUGH_S)
    latch.set()
    cluster.wait_until(lambda: not found(), ENOUGH_S)
