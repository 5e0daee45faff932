"""In which order a run loop lets its executors work, and how much a spout adds each time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hand_driven import HandDriven
from local_components import Do, DoBasic, Latch, Log, Shared

from tupletree import BasicBolt, Spout, TopologyBuilder
from tupletree.component import BasicCollector
from tupletree.testing import LocalCluster
from tupletree.tuples import Origin, Tuple
from tupletree.worker.batches import Batch, Rows
from tupletree.worker.runloop import PATIENCE_S, LoopSettings, RunLoop

ENOUGH_S = 60
BATCHES, ROWS = 100, 1000  # that wait for the bolt in the beginning


class Watch(Shared):
    """A clock that is only moved by hand."""

    now_s = 0.0


class Sevens(Spout):
    """Emits 7 without end, so many with each call; ``log`` gets their number each time."""

    outputs = ["n"]

    def __init__(self, log: Log, at_once: int = 1) -> None:
        self.log = log
        self.at_once = at_once

    def open(self, conf: Mapping[str, Any], context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        self.log.append(self.at_once)
        self.collector.emit_many([[7]] * self.at_once)


class Sink(BasicBolt):
    """Notes how many tuples the spout had emitted when the last of those that waited came, and sets ``is_done`` then.

    Each tuple takes ``each_s`` by the watch.
    """

    def __init__(self, emitted: Log, noted: Log, is_done: Latch, watch: Watch, each_s: float) -> None:
        self.emitted = emitted
        self.noted = noted
        self.is_done = is_done
        self.watch = watch
        self.each_s = each_s
        self.left = BATCHES * ROWS

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.watch.now_s += self.each_s
        self.left -= tup["n"] == 0
        if self.left == 0 and not self.is_done.is_set():
            self.noted.append(sum(self.emitted))
            self.is_done.set()


def emitted_meanwhile(each_s: float) -> int:
    """How many tuples a spout emits while the bolt beside it works off what waits for it, each in so many seconds."""
    emitted, noted, is_done, watch = Log(), Log(), Latch(), Watch()
    builder = TopologyBuilder()
    builder.set_spout("spout", Sevens(emitted))
    builder.set_bolt("sink", Sink(emitted, noted, is_done, watch, each_s)).shuffle_grouping("spout")
    driven = HandDriven(builder.create_topology(), {"topology.executor.receive.buffer.size": 2 * BATCHES * ROWS})
    [task] = driven.tasks["sink"]
    origin = Origin("elsewhere", 99, "default", ["n"])
    for _ in range(BATCHES):
        driven.executor("sink").inbox.put(Batch(origin, task, Rows.of([([0], 0, 0)] * ROWS)), ROWS)
    failures: list[Exception] = []
    settings = LoopSettings(
        clock=lambda: watch.now_s,
        batch_size=ROWS,
        flush_interval_s=0.005,
        post=lambda updates: None,
        on_failure=failures.append,
        on_split=lambda blocking, moved: None,
    )
    loop = RunLoop("loop", [driven.executor("spout"), driven.executor("sink")], settings)
    loop.start()
    try:
        assert is_done.wait(ENOUGH_S)
    finally:
        loop.stop()
        loop.join(ENOUGH_S)
    assert not failures
    [count] = noted
    return int(count)


def test_a_spout_waits_until_the_bolts_beside_it_have_nothing_left_to_do() -> None:
    assert emitted_meanwhile(each_s=0.0) == 1  # in the first turn, in which nothing is known yet


def test_a_spout_is_not_kept_waiting_for_ever_by_bolts_that_always_have_work() -> None:
    assert emitted_meanwhile(each_s=PATIENCE_S / ROWS) > 1


@pytest.mark.parametrize("at_once", [1, 16])
def test_a_step_of_a_spout_is_measured_by_what_it_emits(at_once: int) -> None:
    emitted = Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", Sevens(emitted, at_once))
    builder.set_bolt("sink", DoBasic()).shuffle_grouping("spout")
    driven = HandDriven(builder.create_topology())
    for _ in range(20):  # a step of so little time is followed by a larger one, up to a batch
        del emitted[:]
        driven.step("spout")
    assert ROWS <= sum(emitted) < ROWS + at_once


def test_executors_stand_behind_those_that_feed_them() -> None:
    builder = TopologyBuilder()
    builder.set_bolt("a-last", Do()).shuffle_grouping("b-middle").shuffle_grouping("z-spout")
    builder.set_bolt("b-middle", DoBasic(outputs=["n"])).shuffle_grouping("z-spout")
    builder.set_spout("z-spout", Sevens(Log()))
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        executors = cluster._find("t").engine.executors
        assert [executor.component_id for executor in executors] == ["z-spout", "b-middle", "a-last"]
