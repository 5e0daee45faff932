"""Message timeouts and ticks, in simulated time."""

from __future__ import annotations

from typing import Any

import pytest
from local_components import Do, DoBasic, Log
from scene import Scene

from tupletree import TopologyBuilder
from tupletree.errors import UsageError
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.worker.control_messages import ShardsLost, WorkerLost


@pytest.mark.parametrize("emitted_s", [0, 1, 15, 29])
def test_timeout_not_before_30_s_and_at_the_latest_at_60_s(scene: Scene, emitted_s: int) -> None:
    scene.start()
    scene.cluster.advance(emitted_s)
    scene.feed([1], "a")
    scene.cluster.advance(29.9)
    assert scene.outcome == ([], [])
    scene.cluster.advance(30.2)
    assert scene.outcome == ([], ["a"])


def test_the_timeout_is_the_configured_one(scene: Scene) -> None:
    scene.start({"topology.message.timeout.secs": 3}).feed([1], "a")
    scene.cluster.advance(2.9)
    assert scene.outcome == ([], [])
    scene.cluster.advance(3.2)
    assert scene.outcome == ([], ["a"])


def test_a_verdict_after_the_timeout_is_ignored(scene: Scene) -> None:
    scene.start().feed([1], "a")
    scene.cluster.advance(60)
    assert scene.outcome == ([], ["a"])
    scene.order(lambda held, collector: collector.ack(held[0]))
    assert scene.outcome == ([], ["a"])
    scene.order(lambda held, collector: collector.fail(held[0]))
    scene.cluster.advance(200)
    assert scene.outcome == ([], ["a"])


def test_timeout_reset_keeps_a_tree_alive(scene: Scene) -> None:
    """Two trees, of which one is reset every 20 s."""
    scene.start().feed([1], "long work")
    scene.feed([2], "forgotten")
    for _ in range(12):
        scene.cluster.advance(20)
        scene.order(lambda held, collector: collector.reset_timeout(held[0]))
    assert scene.outcome == ([], ["forgotten"])
    scene.order(lambda held, collector: collector.ack(held[0]))
    assert scene.outcome == (["long work"], ["forgotten"])


def test_reset_of_a_joined_tuple_keeps_all_its_trees_alive(cluster: LocalCluster) -> None:
    from scene import anchoring, order_below

    scene, _ = anchoring(cluster)
    scene.feed([1], "a")
    scene.feed([2], "b")

    def join(held: Log, collector: Any) -> None:
        collector.emit([3], anchors=list(held))
        for tup in held:
            collector.ack(tup)

    scene.order(join)
    for _ in range(6):
        cluster.advance(20)
        order_below(scene, lambda held, collector: collector.reset_timeout(held[0]))
    assert scene.outcome == ([], [])
    order_below(scene, lambda held, collector: collector.ack(held[0]))
    assert sorted(scene.outcome[0]) == ["a", "b"]


def test_without_message_timeouts_nothing_fails_by_time(scene: Scene) -> None:
    scene.start({"topology.enable.message.timeouts": False}).feed([1], "a")
    scene.cluster.advance(1000)
    assert scene.outcome == ([], [])
    scene.order(lambda held, collector: collector.ack(held[0]))
    assert scene.outcome == (["a"], []), "and the tree is still known"


def test_acks_that_come_just_before_the_timeout_count(scene: Scene) -> None:
    scene.start().feed([1], "a")
    scene.cluster.advance(29.5)
    scene.order(lambda held, collector: collector.ack(held[0]))
    scene.cluster.advance(60)
    assert scene.outcome == (["a"], [])


def ticking(cluster: LocalCluster, conf: dict[str, Any], **periods: float) -> Log:
    """A topology with a bolt for each period that logs (bolt, is_tick, values)."""
    log = Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    for name, period_s in periods.items():
        note = DoBasic(lambda tup, collector, name=name: log.append((name, tup.is_tick, tup.values)))
        bolt = builder.set_bolt(name, note).shuffle_grouping("spout")
        if period_s:
            bolt.add_configuration("topology.tick.tuple.freq.secs", period_s)
    cluster.submit("t", builder.create_topology(), conf)
    cluster.wait_quiet()
    return log


def test_tick_tuples_come_with_each_components_own_period(cluster: LocalCluster) -> None:
    log = ticking(cluster, {}, fast=2, slow=10, never=0)
    for _ in range(20):
        cluster.advance(1)
        cluster.wait_quiet()
    assert [entry for entry in log if entry[0] == "fast"] == [("fast", True, [2])] * 10
    assert [entry for entry in log if entry[0] == "slow"] == [("slow", True, [10])] * 2
    assert not [entry for entry in log if entry[0] == "never"]


def test_tick_tuples_of_the_topology_reach_every_bolt_that_has_no_period_of_its_own(cluster: LocalCluster) -> None:
    log = ticking(cluster, {"topology.tick.tuple.freq.secs": 5}, own=1, inherited=0)
    cluster.advance(10)
    cluster.wait_quiet()
    assert len([entry for entry in log if entry[0] == "inherited"]) == 2
    assert len([entry for entry in log if entry[0] == "own"]) == 10


def test_every_task_of_a_bolt_gets_its_tick_and_emits_on_it(cluster: LocalCluster) -> None:
    log = Log()

    def flush(tup: Any, collector: Any) -> None:
        if tup.is_tick:
            collector.emit([collector._task.task_id])

    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    ticks = builder.set_bolt("ticks", DoBasic(flush, ["task"]), 2).shuffle_grouping("spout")
    ticks.set_num_tasks(4).add_configuration("topology.tick.tuple.freq.secs", 1)
    sink = DoBasic(lambda tup, collector: log.append((tup[0], tup.is_tick, tup.source_component)))
    builder.set_bolt("sink", sink).shuffle_grouping("ticks")
    cluster.submit("t", builder.create_topology())
    cluster.advance(1)
    cluster.wait_quiet()
    assert len({entry[0] for entry in log}) == len(log) == 4
    assert {entry[1:] for entry in log} == {(False, "ticks")}


def test_a_tuple_is_a_tick_only_if_the_system_sent_it(cluster: LocalCluster) -> None:
    log = Log()
    feeder = FeederSpout(["interval_s"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    bolt = DoBasic(lambda tup, collector: log.append((tup.is_tick, tup.source_component, tup.source_stream)))
    builder.set_bolt("bolt", bolt).shuffle_grouping("spout").add_configuration("topology.tick.tuple.freq.secs", 1)
    cluster.submit("t", builder.create_topology())
    feeder.feed([1.0])
    cluster.wait_quiet()
    cluster.advance(1)
    cluster.wait_quiet()
    assert list(log) == [(False, "spout", "default"), (True, "__system", "__tick")]


def many_pending(cluster: LocalCluster, shards: int, count: int) -> FeederSpout:
    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder, 2)
    builder.set_bolt("forgets", Do(lambda tup, collector: None)).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology(), {"topology.acker.executors": shards})
    for number in range(count):
        feeder.feed([number], number)
    cluster.wait_quiet()
    return feeder


def test_when_a_worker_dies_what_it_may_have_held_is_failed_after_the_grace(cluster: LocalCluster) -> None:
    """The task died before its ack: its trees fail before the timeout."""
    feeder = many_pending(cluster, 2, 30)
    cluster._find("t").engine.notify_spouts(WorkerLost(1.0))
    cluster.wait_quiet()
    feeder.feed([99], "later")
    cluster.wait_quiet()
    assert feeder.failed == []
    cluster.advance(1)
    cluster.wait_quiet()
    assert sorted(feeder.failed) == list(range(30))
    cluster.advance(60)
    cluster.wait_quiet()
    assert sorted(feeder.failed, key=str) == [*sorted(range(30), key=str), "later"]


def test_when_an_acker_dies_its_trees_are_failed_at_once_and_the_others_are_spared(cluster: LocalCluster) -> None:
    """The trees of other ackers are not affected."""
    feeder = many_pending(cluster, 4, 200)
    cluster._find("t").engine.notify_spouts(ShardsLost(frozenset([2]), 4))
    cluster.wait_quiet()
    assert 20 < len(feeder.failed) < 90, "about a quarter"
    cluster._find("t").engine.notify_spouts(ShardsLost(frozenset([0, 1, 3]), 4))
    cluster.wait_quiet()
    assert sorted(feeder.failed) == list(range(200))


def test_simulated_time_moves_only_when_it_is_told_to() -> None:
    with LocalCluster() as real, pytest.raises(UsageError, match="simulated_time=True"):
        real.advance(1)


def test_steps_of_simulated_time_do_not_depend_on_how_they_are_cut(cluster: LocalCluster) -> None:
    log = ticking(cluster, {}, bolt=7)
    for seconds in (0.25, 6.75, 7, 13.5, 0.5):
        cluster.advance(seconds)
        cluster.wait_quiet()
    assert len(log) == 4
