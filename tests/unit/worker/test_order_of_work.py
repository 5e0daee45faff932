"""In which order a run loop lets its executors work, and how much a spout adds each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hand_driven import HandDriven, inits, xors
from local_components import Do, DoBasic, Log, Shared

from tupletree import Spout, TopologyBuilder, Tuple
from tupletree.component import BasicCollector
from tupletree.testing import LocalCluster
from tupletree.tuples import Origin
from tupletree.worker.control_messages import TreeVerdict, VerdictKind
from tupletree.worker.core.ack_updates import AckUpdates
from tupletree.worker.core.batches import Batch, Rows
from tupletree.worker.execution.loop_settings import LoopSettings
from tupletree.worker.execution.order_of_work import MAX_TURNS_HELD
from tupletree.worker.execution.run_loop import RunLoop

ROWS = 1000
BATCHES = 1000  # that wait for a bolt: more than it can do in the turns of a test


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


class Hook(Shared):
    """Something that a bolt calls, and a test sets."""

    call: Callable[[], None]


def settings(posted: list[AckUpdates]) -> LoopSettings:
    """Of a loop whose turns are made by the test."""
    return LoopSettings(
        clock=lambda: 0.0,
        batch_size=ROWS,
        flush_interval_s=0.005,
        post=posted.append,
        on_failure=lambda failure: None,
        on_split=lambda blocking, moved: None,
        on_divide=lambda executor: executor,
    )


def test_what_was_acked_in_the_step_in_which_executors_were_parted_is_told_at_once() -> None:
    hook, posted = Hook(), list[AckUpdates]()
    builder = TopologyBuilder()
    builder.set_spout("spout", Sevens(Log()))
    builder.set_bolt("bolt", DoBasic(lambda tup, collector: hook.call())).shuffle_grouping("spout")
    driven = HandDriven(builder.create_topology())
    [task] = driven.tasks["bolt"]
    spout, bolt = driven.executor("spout"), driven.executor("bolt")
    bolt.inbox.put(Batch(Origin("spout", 1, "default", ["n"]), task, Rows.of([([0], 5, 9)])), 1)
    loop = RunLoop("loop", [spout, bolt], settings(posted))
    hook.call = lambda: loop._remove([spout])  # as the watchdog does, meanwhile
    loop._turn()
    assert [xors(updates) for updates in posted] == [{5: 9}]


def test_a_spout_waits_for_bolts_that_it_feeds_but_not_for_ever_and_for_no_others() -> None:
    feeds, feeds_not = Log(), Log()
    builder = TopologyBuilder()
    builder.set_spout("feeds", Sevens(feeds))
    builder.set_spout("feeds-not", Sevens(feeds_not))
    builder.set_bolt("between", DoBasic(outputs=["n"])).shuffle_grouping("feeds")
    builder.set_bolt("busy", DoBasic()).shuffle_grouping("between")
    builder.set_bolt("other", DoBasic()).shuffle_grouping("feeds-not")
    driven = HandDriven(builder.create_topology(), {"topology.executor.receive.buffer.size": 2 * BATCHES * ROWS})
    [task] = driven.tasks["busy"]
    origin, rows = Origin("elsewhere", 99, "default", ["n"]), Rows.of([([0], 0, 0)] * ROWS)
    for _ in range(BATCHES):
        driven.executor("busy").inbox.put(Batch(origin, task, rows), ROWS)
    loop = RunLoop("loop", driven.executors, settings([]))
    was_asked = []
    for _ in range(2 * MAX_TURNS_HELD + 2):
        del feeds[:], feeds_not[:]
        loop._turn()
        was_asked.append((bool(feeds), bool(feeds_not)))
    assert driven.executor("busy").has_work
    held = [(False, True)] * MAX_TURNS_HELD
    assert was_asked == [(True, True), *held, (True, True), *held]


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


class Given(Spout):
    """Emits what is in ``rows``; ``log`` says for each time that it is asked whether there was something."""

    outputs = ["n"]

    def __init__(self, rows: Log, log: Log, is_tracked: bool = False) -> None:
        self.rows = rows
        self.log = log
        self.is_tracked = is_tracked

    def open(self, conf: Mapping[str, Any], context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        self.log.append("emitted" if self.rows else "nothing")
        if self.rows:
            row = [self.rows.pop()]
            self.collector.emit(row, row[0] if self.is_tracked else None)


def at_rest(rows: Log, log: Log) -> tuple[HandDriven, RunLoop]:
    """A spout that has emitted for a while and rests for an hour, and the loop that drives it and a bolt."""
    builder = TopologyBuilder()
    builder.set_spout("spout", Given(rows, log))
    builder.set_bolt("bolt", DoBasic()).shuffle_grouping("spout")
    driven = HandDriven(builder.create_topology(), {"topology.sleep.spout.wait.strategy.time.ms": 3_600_000})
    loop = RunLoop("loop", driven.executors, settings([]))
    while driven.executor("spout").rest.until_s < 0:
        rows.append(0)
        turn(loop)
    del log[:]
    return driven, loop


def turn(loop: RunLoop) -> None:
    """A turn that does not wait at its end."""
    if loop._wakeup.locked():
        loop._wakeup.release()
    loop._turn()


def test_a_spout_that_rests_is_not_asked_until_it_hears_something_or_is_roused() -> None:
    rows, log = Log(), Log()
    driven, loop = at_rest(rows, log)
    rows.append(1)
    for _ in range(5):
        turn(loop)
    assert log == []
    loop.rouse()
    turn(loop)
    assert log == ["emitted", "nothing"]
    rows.append(2)
    turn(loop)
    assert log[2:] == []
    [task] = driven.tasks["spout"]
    driven.tell("spout", TreeVerdict(task, VerdictKind.ACKED, [1]))
    turn(loop)
    assert log[2:] == ["emitted", "nothing"]


def test_what_was_emitted_is_handed_over_in_the_turn_after_which_nothing_is_left_to_do() -> None:
    rows, log = Log(), Log()
    driven, loop = at_rest(rows, log)
    turn(loop)  # for the bolt, for which the spout waits
    del driven.delivered[:]
    rows.extend([1, 2, 3])
    loop.rouse()
    turn(loop)
    assert log == ["emitted", "emitted", "emitted", "nothing"]
    assert sum(len(rows) for _, _, rows in driven.delivered) == 3


def test_a_flush_sends_one_update_for_a_tree_that_was_processed_here() -> None:
    builder = TopologyBuilder()
    rows = Log()
    builder.set_spout("spout", Given(rows, Log(), is_tracked=True))
    builder.set_bolt("even", DoBasic(emit_even, outputs=["n"])).shuffle_grouping("spout")
    builder.set_bolt("sink", DoBasic()).shuffle_grouping("even")
    posted = list[AckUpdates]()
    loop = RunLoop("loop", HandDriven(builder.create_topology()).executors, settings(posted))
    rows.extend([1, 2, 3, 4])
    while not posted:
        turn(loop)
    [updates] = posted
    assert [value for _, value, _ in inits(updates)] == [0] * 4  # each tree is complete
    assert xors(updates) == {}


def test_no_executor_is_flushed_while_another_one_is_in_a_step() -> None:
    """The watchdog may move executors to another loop during a step, and two loops must not flush the same one."""
    builder = TopologyBuilder()
    rows, flushed = Log(), list[tuple[str, object]]()
    builder.set_spout("spout", Given(rows, Log()))
    builder.set_bolt("even", DoBasic(emit_even, outputs=["n"])).shuffle_grouping("spout")
    builder.set_bolt("sink", DoBasic()).shuffle_grouping("even")
    executors = HandDriven(builder.create_topology()).executors
    loop = RunLoop("loop", executors, settings([]))
    for executor in executors:

        def flush(flush: Callable[[], None] = executor.flush, name: str = executor.component_id) -> None:
            flushed.append((name, loop.present[1]))
            flush()

        executor.flush = flush  # type: ignore[method-assign]
    rows.extend([1, 2, 3, 5])
    for _ in range(5):
        turn(loop)
    assert {name for name, _ in flushed} == {"spout", "even", "sink"}
    assert {stepping for _, stepping in flushed} == {None}


def emit_even(tup: Tuple, collector: BasicCollector) -> None:
    if tup["n"] % 2 == 0:
        collector.emit([tup["n"]])


def test_executors_stand_behind_those_that_feed_them() -> None:
    builder = TopologyBuilder()
    builder.set_bolt("a-last", Do()).shuffle_grouping("b-middle").shuffle_grouping("z-spout")
    builder.set_bolt("b-middle", DoBasic(outputs=["n"])).shuffle_grouping("z-spout")
    builder.set_spout("z-spout", Sevens(Log()))
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        executors = cluster._find("t").engine.executors
        assert [executor.component_id for executor in executors] == ["z-spout", "b-middle", "a-last"]
