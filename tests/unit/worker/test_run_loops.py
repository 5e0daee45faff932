"""Run loops: who shares one, who gets one of its own, and that nobody stops a neighbour. Real threads, real time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from local_components import Do, DoBasic, Keep, Latch, Log
from run_loop_scene import ENOUGH_S, components_of, emitted_by, feeder_of_two, has_turned, loops, tasks_of, two_branches

from tupletree import Spout, TopologyBuilder
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.worker.execution import run_loop
from tupletree.worker.execution.run_loop import RunLoop


@pytest.fixture
def hurried_threads() -> Iterator[None]:
    """Lets threads take turns every few microseconds instead of milliseconds: what is rare happens often."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(2e-6)
    yield
    sys.setswitchinterval(before_s)


def test_executors_share_one_loop_and_declared_blocking_ones_have_their_own(cluster: LocalCluster) -> None:
    feeder = feeder_of_two()
    builder = two_branches(feeder, Do(), Do())
    builder.set_bolt("declared", Do(), 2).shuffle_grouping("spout", "left").set_blocking()
    cluster.submit("t", builder.create_topology())
    assert [components_of(loop) for loop in loops(cluster)] == [{"spout", "left", "right"}, {"declared"}, {"declared"}]


def test_a_bolt_that_does_not_return_is_left_alone_and_its_neighbours_go_on(
    cluster: LocalCluster, latch: Latch
) -> None:
    log = Log()
    feeder = feeder_of_two()
    stuck = DoBasic(lambda tup, collector: latch.wait())
    cluster.submit("t", two_branches(feeder, stuck, Keep(log)).create_topology())
    feeder.feed([0], "stuck", "left")
    for number in range(50):
        feeder.feed([number], number, "right")
    cluster.wait_until(lambda: len(feeder.acked) == 50, ENOUGH_S)
    assert sorted(values[0] for _, values in log) == list(range(50))
    [first, second] = loops(cluster)
    assert (components_of(first), components_of(second)) == ({"left"}, {"spout", "right"})
    latch.set()
    cluster.wait_until(lambda: "stuck" in feeder.acked, ENOUGH_S)


NAP_S = 0.08
"""Too short for the watchdog to see one of them, long enough to make up most of the time on a crowded machine too."""


def test_a_bolt_that_sleeps_again_and_again_moves_out(cluster: LocalCluster) -> None:
    feeder = feeder_of_two()
    cluster.submit("t", two_branches(feeder, DoBasic(lambda tup, collector: time.sleep(NAP_S)), Do()).create_topology())
    for number in range(1000):
        feeder.feed([number], number, "left")
    cluster.wait_until(lambda: {"left"} in [components_of(loop) for loop in loops(cluster)], ENOUGH_S)
    feeder.feed([0], "right", "right")
    cluster.wait_until(lambda: "right" in feeder.acked, ENOUGH_S)
    assert len(feeder.acked) < 1000


class WaitsAndFindsNothing(Spout):
    outputs = ["n"]

    def next_tuple(self) -> None:
        time.sleep(NAP_S)  # as queue.get(timeout=…) does


def test_a_spout_that_waits_and_finds_nothing_moves_out_too(cluster: LocalCluster) -> None:
    builder = TopologyBuilder()
    builder.set_spout("waits", WaitsAndFindsNothing())
    builder.set_bolt("sink", Do()).shuffle_grouping("waits")
    cluster.submit("t", builder.create_topology())
    cluster.wait_until(lambda: {"waits"} in [components_of(loop) for loop in loops(cluster)], ENOUGH_S)


class WaitsForever(Spout):
    """Emits one tuple in each call, and blocks in the third."""

    outputs = ["n"]
    blocking = True

    def __init__(self, latch: Latch) -> None:
        self.latch = latch
        self.calls = 0

    def next_tuple(self) -> None:
        self.calls += 1
        if self.calls > 2:
            self.latch.wait()
        else:
            self.collector.emit([self.calls], self.calls)


def test_what_a_blocking_spout_emitted_does_not_wait_for_its_next_tuple(cluster: LocalCluster, latch: Latch) -> None:
    log = Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", WaitsForever(latch))
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology(), {"topology.flush.interval.ms": 600_000})
    cluster.wait_until(lambda: [values for _, values in log] == [[1], [2]], ENOUGH_S)


def test_order_between_two_tasks_survives_the_move_of_either(cluster: LocalCluster, latch: Latch) -> None:
    """The relay is moved away from a stuck bolt, then sleeps and moves again; the sink is moved with others."""
    log = Log()
    feeder = feeder_of_two()

    def relay(tup: Any, collector: Any) -> None:
        collector.emit([tup[0]])
        if tup[0] % 50 == 0:
            time.sleep(0.05)

    builder = two_branches(feeder, DoBasic(lambda tup, collector: latch.wait()), DoBasic(relay, ["n"]))
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("right")
    cluster.submit("t", builder.create_topology())
    for number in range(1500):
        feeder.feed([number], number, "right")
        if number == 200:
            feeder.feed([0], "stuck", "left")
    cluster.wait_until(lambda: len(loops(cluster)) > 1, ENOUGH_S)
    latch.set()
    cluster.wait_until(lambda: len(feeder.acked) == 1501, ENOUGH_S)
    assert [values[0] for _, values in log] == list(range(1500))


def test_a_batch_that_grows_slow_midway_does_not_keep_its_acks_back(cluster: LocalCluster) -> None:
    """The first rows are quick, so that steps grow to whole batches; then every row takes long."""
    done = Log()

    def execute(tup: Any, collector: Any) -> None:
        done.append(tup[0])
        if tup[0] >= 3000:
            time.sleep(0.05)

    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", DoBasic(execute)).shuffle_grouping("spout")
    for number in range(4000):
        feeder.feed([number], number)
    cluster.submit("t", builder.create_topology())
    cluster.wait_until(lambda: len(feeder.acked) >= 3000, ENOUGH_S)
    assert len(done) < 3500, "acked long before the batch of 1000 slow rows would have ended"


class Endless(Spout):
    """Emits numbers without a message id, as many as it is asked for, up to a limit."""

    outputs = ["n"]

    def __init__(self, limit: int, blocking: bool = False) -> None:
        self.limit = limit
        self.blocking = blocking
        self.next = 0

    def next_tuple(self) -> None:
        if self.next < self.limit:
            self.collector.emit([self.next])
            self.next += 1


@pytest.mark.parametrize("blocking", [False, True])
def test_a_slow_bolt_stops_the_spout_and_bounds_what_waits(cluster: LocalCluster, latch: Latch, blocking: bool) -> None:
    """Two stages, both bounded: the sink blocks, so the relay stops, so the spout stops. Then everything arrives."""
    limit, batch, total = 200, 50, 5_000
    log = Log()

    def wait_then_keep(tup: Any, collector: Any) -> None:
        latch.wait()
        log.append(tup[0])

    builder = TopologyBuilder()
    builder.set_spout("spout", Endless(total, blocking))
    relay = DoBasic(lambda tup, collector: collector.emit([tup[0]]), ["n"])
    builder.set_bolt("relay", relay).shuffle_grouping("spout")
    builder.set_bolt("sink", DoBasic(wait_then_keep)).shuffle_grouping("relay").set_blocking()
    conf = {"topology.executor.receive.buffer.size": limit, "topology.transfer.batch.size": batch}
    cluster.submit("t", builder.create_topology(), conf)
    topology = cluster._find("t")
    [relay_task, sink_task] = [task for name in ("relay", "sink") for task in tasks_of(cluster, name)]
    cluster.wait_until(lambda: {relay_task, sink_task} <= set(topology.engine.gate.closed), ENOUGH_S)
    turns = {loop: count for loop, count in topology.turns_now().items() if components_of(loop) != {"sink"}}
    cluster.wait_until(lambda: has_turned(cluster, turns), ENOUGH_S)
    inboxes = [executor.inbox.rows for executor in topology.engine.executors]
    assert max(inboxes) <= limit + 2 * batch
    assert emitted_by(cluster, "spout") <= 2 * (limit + 3 * batch)
    assert not log
    latch.set()
    cluster.wait_until(lambda: len(log) == total, ENOUGH_S)
    assert list(log) == list(range(total))


@pytest.mark.usefixtures("hurried_threads")
def test_the_gate_opening_is_never_slept_through(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers of one tuple between four loops: thousands of times somebody waits for a gate to open. Without the wait's
    upper bound, which is there in case of such a fault, one lost wake-up is the end."""
    monkeypatch.setattr(run_loop, "MAX_WAIT_S", 3600.0)
    log = Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", Endless(1000))
    for name, source, copies in (("a", "spout", 3), ("b", "a", 1)):
        bolt = DoBasic(lambda tup, collector, n=copies: collector.emit_many([tup[0]] for _ in range(n)), ["n"])
        builder.set_bolt(name, bolt).shuffle_grouping(source).set_blocking()
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("b").set_blocking()
    conf = {"topology.executor.receive.buffer.size": 1, "topology.transfer.batch.size": 2}
    cluster.submit("t", builder.create_topology(), conf)
    cluster.wait_until(lambda: len(log) == 3000, ENOUGH_S)
    assert [values[0] for _, values in log] == [number // 3 for number in range(3000)]


def test_a_cycle_with_tiny_buffers_does_not_deadlock(cluster: LocalCluster) -> None:
    """Every tuple goes round three times, doubling once; the parts of the cycle run on threads of their own."""
    log = Log()

    def turn(tup: Any, collector: Any) -> None:
        n, left = tup.values
        if left:
            for _ in range(2 if left == 2 else 1):
                collector.emit([n, left - 1])
        else:
            log.append(n)

    feeder = FeederSpout(["n", "left"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("a", DoBasic(turn, ["n", "left"])).shuffle_grouping("spout").shuffle_grouping("b").set_blocking()
    builder.set_bolt("b", DoBasic(turn, ["n", "left"])).shuffle_grouping("a").set_blocking()
    for number in range(300):
        feeder.feed([number, 3], number)
    conf = {"topology.executor.receive.buffer.size": 2, "topology.transfer.batch.size": 1}
    cluster.submit("t", builder.create_topology(), conf)
    cluster.wait_until(lambda: len(feeder.acked) == 300, ENOUGH_S)
    assert sorted(log) == sorted([*range(300), *range(300)])


def test_a_single_tuple_does_not_wait_for_its_batch_to_fill(cluster: LocalCluster) -> None:
    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology(), {"topology.transfer.batch.size": 1000})
    for number in range(20):
        feeder.feed([number], number)
        cluster.wait_until(lambda n=number: n in feeder.acked, ENOUGH_S)


def test_ticks_in_real_time_reach_an_idle_bolt(cluster: LocalCluster) -> None:
    ticks = Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    bolt = DoBasic(lambda tup, collector: ticks.append(time.monotonic()) if tup.is_tick else None)
    builder.set_bolt("bolt", bolt).shuffle_grouping("spout").set_blocking().add_configuration(
        "topology.tick.tuple.freq.secs", 1
    )
    started_s = time.monotonic()
    cluster.submit("t", builder.create_topology())
    cluster.wait_until(lambda: len(ticks) >= 2, ENOUGH_S)
    assert ticks[1] - started_s >= 2


def test_an_idle_topology_uses_hardly_any_processor_time(cluster: LocalCluster) -> None:
    builder = TopologyBuilder()
    for number in range(4):
        builder.set_spout(f"spout{number}", FeederSpout(["n"]))
        builder.set_bolt(f"bolt{number}", Do(), 4).shuffle_grouping(f"spout{number}").set_blocking(number % 2 == 0)
    before = threading.active_count()
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet(ENOUGH_S)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    [shared, *_] = loops(cluster)
    turns = shared.turns
    cluster.wait_until(lambda: shared.turns > turns + 300, ENOUGH_S)
    print("RATIO", (time.process_time() - cpu_s) / (time.perf_counter() - wall_s), time.perf_counter() - wall_s)
    assert threading.active_count() - before <= 8 + 1 + 1, "executors that block, the shared loop, the watchdog"


def test_the_shared_loop_is_known_as_such_before_it_begins(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watchdog that takes it for another loop asks it to give its executors to itself: it never returns from that."""
    begin = RunLoop.start
    known: list[bool] = []

    def begin_watched(loop: RunLoop) -> None:
        known.append(cluster._find("t").engine._shared is loop)
        begin(loop)

    monkeypatch.setattr(RunLoop, "start", begin_watched)
    builder = two_branches(feeder_of_two(), Do(), Do())
    builder.set_bolt("declared", Do()).shuffle_grouping("spout", "left").set_blocking()
    cluster.submit("t", builder.create_topology())
    assert known == [True, False]
