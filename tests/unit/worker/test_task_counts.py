"""What tasks count by latency, by input stream and by output stream, and what is derived where there is one stream."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hand_driven import HandDriven
from local_components import Do, DoBasic, Log

from tupletree import FailedException, Spout, TopologyBuilder
from tupletree._wire.latency import BUCKETS, FINE_BOUNDS_S, bucket_of
from tupletree.testing import FeederSpout
from tupletree.v1 import nimbus_pb2
from tupletree.worker.control_messages import TreeVerdict, VerdictKind
from tupletree.worker.core.ack_updates import AckUpdates
from tupletree.worker.core.batches import Batch, Rows
from tupletree.worker.core.counts import count_in
from tupletree.worker.execution.task_stats import task_stats


@pytest.mark.parametrize("nudge", [lambda s: math.nextafter(s, 0), lambda s: s, lambda s: math.nextafter(s, math.inf)])
def test_a_latency_is_counted_in_its_bucket(nudge: Callable[[float], float]) -> None:
    for latency_s in map(nudge, (0.0, *FINE_BOUNDS_S, 1e6)):
        counts: list[int] = []
        count_in(counts, latency_s)
        count_in(counts, latency_s)
        bucket = bucket_of(latency_s)
        assert bucket < BUCKETS
        assert counts == [0] * bucket + [2]


class TwoStreams(Spout):
    """Emits, with message ids, 0 to 19 on alternating streams."""

    outputs = {"even": ["n"], "odd": ["n"]}

    def __init__(self) -> None:
        self.at = 0

    def next_tuple(self) -> None:
        if self.at < 20:
            self.collector.emit([self.at], self.at, stream="odd" if self.at % 2 else "even")
            self.at += 1


def stats_of(hand: HandDriven, component: str) -> nimbus_pb2.TaskStats:
    executor = hand.executor(component)
    return task_stats(executor.tasks[0], executor)


def by_input(stats: nimbus_pb2.TaskStats) -> dict[tuple[str, str], tuple[int, int, int]]:
    return {(one.source_component, one.stream): (one.executed, one.acked, one.failed) for one in stats.inputs}


def with_two_inputs(bolt: Any, conf: dict[str, Any] | None = None) -> HandDriven:
    builder = TopologyBuilder()
    builder.set_spout("left", FeederSpout(["n"]))
    builder.set_spout("right", FeederSpout(["n"]))
    builder.set_bolt("bolt", bolt).shuffle_grouping("left").shuffle_grouping("right")
    return HandDriven(builder.create_topology(), conf)


def with_one_input(bolt: Any, conf: dict[str, Any] | None = None) -> HandDriven:
    builder = TopologyBuilder()
    builder.set_spout("left", FeederSpout(["n"]))
    builder.set_bolt("bolt", bolt).shuffle_grouping("left")
    return HandDriven(builder.create_topology(), conf)


def feed(hand: HandDriven, source: str, values: range) -> None:
    origin = hand.executor(source).tasks[0].streams["default"].origin
    rows = Rows.of([([value], 0, 0) for value in values])
    hand.executor("bolt").inbox.put(Batch(origin, hand.tasks["bolt"][0], rows), len(rows))


def drain(hand: HandDriven, component: str = "bolt") -> None:
    while hand.step(component):
        pass


def fails_on_tens(tup: Any, collector: Any) -> None:
    if tup[0] % 10 == 9:
        raise FailedException("a nine")


def fails_tens_by_hand(tup: Any, collector: Any) -> None:
    if tup[0] % 10 == 9:
        collector.fail(tup)
    else:
        collector.ack(tup)


@pytest.mark.parametrize("bolt", [DoBasic(fails_on_tens), Do(fails_tens_by_hand)], ids=["basic", "by hand"])
def test_a_task_with_two_inputs_tells_what_came_of_each(bolt: Any) -> None:
    hand = with_two_inputs(bolt)
    feed(hand, "left", range(30))
    feed(hand, "right", range(9))
    feed(hand, "left", range(30, 50))
    drain(hand)
    stats = stats_of(hand, "bolt")
    assert by_input(stats) == {("left", "default"): (50, 45, 5), ("right", "default"): (9, 9, 0)}
    assert (stats.executed, stats.acked, stats.failed) == (59, 54, 5)
    assert sum(one.process_samples for one in stats.inputs) == stats.process_samples > 0
    assert sum(one.execute_s for one in stats.inputs) == pytest.approx(stats.execute_s)


def test_acks_of_whole_batches_count_by_their_input_too() -> None:
    held = Log()
    hand = with_two_inputs(Do(lambda tup, collector: held.append(tup)))
    feed(hand, "left", range(7))
    feed(hand, "right", range(5))
    drain(hand)
    hand.executor("bolt").tasks[0].bolt.collector.ack_many(held)
    assert by_input(stats_of(hand, "bolt")) == {("left", "default"): (7, 7, 0), ("right", "default"): (5, 5, 0)}


def test_ticks_are_an_input_of_their_own_and_are_not_measured() -> None:
    hands = Log()

    def wait(tup: Any, collector: Any) -> None:
        hands[0].now_s += 0.4 if tup.is_tick else 0.0

    hand = with_one_input(DoBasic(wait), {"topology.tick.tuple.freq.secs": 1})
    hands.append(hand)
    hand.now_s = 1.0
    feed(hand, "left", range(40))
    drain(hand)
    stats = stats_of(hand, "bolt")
    assert by_input(stats)["left", "default"] == (40, 40, 0)
    assert by_input(stats)["__system", "__tick"][0] >= 1
    assert (stats.process_samples, stats.process_s_sum) == (2, 0.0)


@pytest.mark.parametrize("bolt", [DoBasic(fails_on_tens), Do(fails_tens_by_hand)], ids=["basic", "by hand"])
def test_a_task_with_one_input_keeps_no_counts_by_stream_and_tells_its_totals_as_that_input(bolt: Any) -> None:
    hand = with_one_input(bolt)
    feed(hand, "left", range(50))
    drain(hand)
    assert hand.executor("bolt").tasks[0].inputs is None
    assert by_input(stats_of(hand, "bolt")) == {("left", "default"): (50, 45, 5)}


@pytest.mark.parametrize("is_basic", [True, False])
def test_one_tuple_in_twenty_is_measured_by_itself_and_counted_in_its_bucket(is_basic: bool) -> None:
    hands = Log()

    def execute(tup: Any, collector: Any) -> None:
        hands[0].now_s += 0.004
        if not is_basic:
            collector.ack(tup)

    hands.append(with_one_input(DoBasic(execute) if is_basic else Do(execute)))
    feed(hands[0], "left", range(100))
    drain(hands[0])
    stats = stats_of(hands[0], "bolt")
    assert stats.process_samples == 5
    assert stats.process_s_sum == pytest.approx(0.02)
    assert {bucket: count for bucket, count in enumerate(stats.process_buckets) if count} == {bucket_of(0.004): 5}


def test_of_tuples_that_fail_none_is_measured_but_the_next_that_does_not() -> None:
    hands = Log()

    def execute(tup: Any, collector: Any) -> None:
        hands[0].now_s += 0.5
        if tup[0] < 3:
            raise FailedException("early")

    hand = with_one_input(DoBasic(execute))
    hands.append(hand)
    feed(hand, "left", range(10))
    drain(hand)
    stats = stats_of(hand, "bolt")
    assert (stats.process_samples, stats.process_s_sum) == (1, 0.5)


@pytest.mark.parametrize("bolt", [DoBasic(lambda tup, collector: None), Do(lambda tup, collector: collector.ack(tup))])
def test_nothing_is_measured_with_a_sample_rate_of_zero_and_no_counts_by_bucket_are_told(bolt: Any) -> None:
    hand = with_one_input(bolt, {"topology.stats.sample.rate": 0})
    feed(hand, "left", range(100))
    drain(hand)
    stats = stats_of(hand, "bolt")
    assert (stats.acked, stats.process_samples, list(stats.process_buckets)) == (100, 0, [])


def spout_hand(spout: Spout, is_tracked: bool = True) -> HandDriven:
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    sink = builder.set_bolt("sink", DoBasic(lambda tup, collector: None))
    for stream in ["even", "odd"] if isinstance(spout, TwoStreams) else ["default"]:
        sink.shuffle_grouping("spout", stream)
    return HandDriven(builder.create_topology(), is_tracked=is_tracked)


def begun(updates: AckUpdates) -> list[int]:
    return list(updates.inits.columns()[0])


def ends(stats: nimbus_pb2.TaskStats) -> dict[str, tuple[int, int, int]]:
    return {one.stream: (one.acked, one.failed, one.complete_samples) for one in stats.streams}


def test_a_spout_with_two_streams_tells_what_came_of_the_trees_of_each() -> None:
    hand = spout_hand(TwoStreams())
    drain(hand, "spout")
    roots = begun(hand.take_updates())
    task = hand.tasks["spout"][0]
    hand.now_s = 0.3
    even, odd = roots[0::2], roots[1::2]
    for control in (
        TreeVerdict(task, VerdictKind.ACKED, even[:8]),
        TreeVerdict(task, VerdictKind.FAILED, even[8:9]),
        TreeVerdict(task, VerdictKind.EXPIRED, odd[:2]),
    ):
        hand.tell("spout", control)
        hand.tell("spout", control)  # what is not pending any more is not counted again
    drain(hand, "spout")
    stats = stats_of(hand, "spout")
    assert ends(stats) == {"even": (8, 1, 1), "odd": (0, 2, 0)}
    assert (stats.failed, stats.unheard) == (3, 3)  # it does not override fail
    assert stats.streams[0].complete_s_sum == pytest.approx(0.3)
    hand.now_s = 1000.0
    drain(hand, "spout")  # the others time out
    assert ends(stats_of(hand, "spout")) == {"even": (8, 2, 1), "odd": (0, 10, 0)}


def test_a_spout_with_one_stream_tells_its_totals_as_that_stream() -> None:
    spout = FeederSpout(["n"])
    for value in range(30):
        spout.feed([value], value)
    hand = spout_hand(spout)
    drain(hand, "spout")
    roots = begun(hand.take_updates())
    hand.now_s = 0.02
    hand.tell("spout", TreeVerdict(hand.tasks["spout"][0], VerdictKind.ACKED, roots[:25]))
    hand.tell("spout", TreeVerdict(hand.tasks["spout"][0], VerdictKind.FAILED, roots[25:]))
    drain(hand, "spout")
    stats = stats_of(hand, "spout")
    assert ends(stats) == {"default": (25, 5, 2)}
    assert stats.unheard == 0
    assert {bucket: count for bucket, count in enumerate(stats.complete_buckets) if count} == {bucket_of(0.02): 2}
    assert list(stats.process_buckets) == []


def test_untracked_emits_count_as_acked_on_their_stream() -> None:
    hand = spout_hand(TwoStreams(), is_tracked=False)
    drain(hand, "spout")
    assert ends(stats_of(hand, "spout")) == {"even": (10, 0, 0), "odd": (10, 0, 0)}
