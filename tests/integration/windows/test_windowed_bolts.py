"""What windowed bolts do beside windows: late tuples, tuples without a time, anchors, acks, and mistakes."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from local_components import Do, Keep, Log

from tupletree import Bolt, Topology, TopologyBuilder, TopologyContext, Window, WindowedBolt
from tupletree.component import BoltCollector
from tupletree.errors import EmitError, TaskFailedError, TopologyError, UsageError
from tupletree.testing import FeederSpout, LocalCluster, complete_topology
from tupletree.windows import Count, Duration


class Sums(WindowedBolt):
    outputs = ["sum"]

    def execute_window(self, window: Window) -> None:
        self.collector.emit([sum(tup["n"] for tup in window)])


def summing(feeder: FeederSpout, bolt: Bolt, sink: Bolt, late: Bolt | None = None) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", feeder)
    builder.set_bolt("sums", bolt).shuffle_grouping("numbers")
    builder.set_bolt("sink", sink).shuffle_grouping("sums")
    if late is not None:
        builder.set_bolt("late", late).shuffle_grouping("sums", "late")
    return builder.create_topology()


def in_event_time() -> Sums:
    return Sums().with_tumbling_window(Duration(10)).with_timestamp_field("at")


def feed(cluster: LocalCluster, feeder: FeederSpout, *rows: Any) -> None:
    """Feed rows, whose first value is their message id too, and let them be processed."""
    for row in rows:
        feeder.feed(row, row[0])
    cluster.wait_quiet()


def tick(cluster: LocalCluster) -> None:
    cluster.advance(1)
    cluster.wait_quiet()


def test_late_tuples_go_to_their_stream_as_dicts_anchored_and_acked(cluster: LocalCluster) -> None:
    log, late, feeder = Log(), Log(), FeederSpout(["n", "at"])
    fails_seven = Do(lambda tup, collector: _keep_or_fail(tup, collector, late))
    bolt = in_event_time().with_late_tuple_stream("late")
    conf = {"topology.testing.always.try.serialize": True}
    cluster.submit("t", summing(feeder, bolt, Keep(log), fails_seven), conf)
    feed(cluster, feeder, [1, 5], [2, 23])
    tick(cluster)
    feed(cluster, feeder, [4, 22.9], [7, 3], [8, 23])
    assert list(late) == [{"n": 4, "at": 22.9}]
    assert (sorted(feeder.acked), feeder.failed) == ([1, 4], [7])
    feed(cluster, feeder, [16, 30])
    tick(cluster)
    assert [values for _, values in log] == [[1], [10]]


def _keep_or_fail(tup: Any, collector: BoltCollector, log: Log) -> None:
    if tup["late_tuple"]["n"] == 7:
        collector.fail(tup)
    else:
        log.append(tup["late_tuple"])
        collector.ack(tup)


def test_without_a_stream_late_tuples_are_acked_and_logged_once_in_a_while(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    feeder = FeederSpout(["n", "at"])
    cluster.submit("t", summing(feeder, in_event_time(), Keep(Log())))
    feed(cluster, feeder, [2, 23])
    tick(cluster)
    feed(cluster, feeder, [4, 1], [5, 2])
    assert sorted(feeder.acked) == [4, 5]
    tick(cluster)
    tick(cluster)
    late = [record.getMessage() for record in caplog.records if "tuples.late" in record.getMessage()]
    assert late == ["tuples.late component=sums task=3 tuples=2"]


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("noon", "timestamp field 'at' of a tuple of 'numbers', stream 'default' is 'noon', which is not a number"),
        (dt.datetime(2020, 1, 1), "is a datetime without a time zone"),
        (float("nan"), "is nan, which is not a time"),
    ],
)
def test_a_tuple_without_a_time_is_failed_and_reported_and_the_others_are_processed(
    cluster: LocalCluster, at: Any, words: str
) -> None:
    log, feeder = Log(), FeederSpout(["n", "at"])
    cluster.submit("t", summing(feeder, in_event_time(), Keep(log)))
    feed(cluster, feeder, [1, 5], [2, at], [4, dt.datetime(1970, 1, 1, 0, 0, 6, tzinfo=dt.UTC)], [8, 10])
    tick(cluster)
    assert [values for _, values in log] == [[5]]
    assert (sorted(feeder.acked), feeder.failed) == ([1, 4], [2])
    [(component, error)] = cluster.errors("t")
    assert component == "sums" and isinstance(error, TopologyError) and words in str(error)
    assert (error.component, error.field) == ("sums", "at")


def test_a_timestamp_extractor_that_raises_fails_the_tuple(cluster: LocalCluster) -> None:
    log, feeder = Log(), FeederSpout(["n", "at"])
    bolt = Sums().with_tumbling_window(Duration(10)).with_timestamp_extractor(lambda tup: float(tup["at"]))
    cluster.submit("t", summing(feeder, bolt, Keep(log)))
    feed(cluster, feeder, [1, "5"], [2, "noon"], [4, "10"])
    tick(cluster)
    assert [values for _, values in log] == [[1]]
    assert feeder.failed == [2]
    assert (
        "the timestamp of a tuple of 'numbers', stream 'default' is an exception of the extractor, ValueError"
        in str(cluster.errors("t")[0][1])
    )


def test_what_fails_downstream_fails_every_tuple_of_its_window_and_no_other(cluster: LocalCluster) -> None:
    feeder = FeederSpout(["n"])
    fails_nine = Do(lambda tup, collector: (collector.fail if tup["sum"] == 9 else collector.ack)(tup))
    cluster.submit("t", summing(feeder, Sums().with_tumbling_window(Count(2)), fails_nine))
    feed(cluster, feeder, [1], [2], [4], [5], [6], [7], [8])
    assert (sorted(feeder.acked), sorted(feeder.failed)) == ([1, 2, 6, 7], [4, 5])


def test_of_sliding_windows_a_tuple_fails_with_any_of_its_windows(cluster: LocalCluster) -> None:
    feeder = FeederSpout(["n"])
    fails_six = Do(lambda tup, collector: (collector.fail if tup["sum"] == 6 else collector.ack)(tup))
    cluster.submit("t", summing(feeder, Sums().with_window(Count(2)), fails_six))
    feed(cluster, feeder, [1], [2], [4], [5], [6], [7])
    assert (sorted(feeder.acked), sorted(feeder.failed)) == ([1, 5, 6], [2, 4])


def test_a_tuple_is_acked_only_after_all_that_its_windows_emitted_was_processed(cluster: LocalCluster) -> None:
    feeder, held = FeederSpout(["n"]), Log()
    holds = Do(lambda tup, collector: held.append((tup, collector)))
    cluster.submit("t", summing(feeder, Sums().with_window(Count(2)), holds), {"topology.message.timeout.secs": 5})
    feed(cluster, feeder, [1], [2], [4])
    assert (feeder.acked, len(held)) == ([], 3)
    cluster.advance(11)
    cluster.wait_quiet()
    assert (feeder.acked, sorted(feeder.failed)) == ([], [1, 2, 4])


class Parts(WindowedBolt):
    """Emits each number anchored to its own tuple, and their sum to none."""

    outputs = ["sum"]

    def execute_window(self, window: Window) -> None:
        for tup in window:
            self.collector.emit([tup["n"]], anchors=[tup])
        self.collector.emit([0], anchors=[])


def test_an_emit_may_be_anchored_to_a_part_of_the_window(cluster: LocalCluster) -> None:
    feeder = FeederSpout(["n"])
    fails_some = Do(lambda tup, collector: (collector.fail if tup["sum"] in (0, 2) else collector.ack)(tup))
    cluster.submit("t", summing(feeder, Parts().with_tumbling_window(Count(3)), fails_some))
    feed(cluster, feeder, [1], [2], [3])
    assert (sorted(feeder.acked), feeder.failed) == ([1, 3], [2])


class AsInStorm(Sums):
    """Sets its collector to the one that it is handed, as other bolts do."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.collector = collector


def test_a_bolt_with_a_prepare_of_its_own_still_anchors_to_the_window(cluster: LocalCluster) -> None:
    feeder = FeederSpout(["n"])
    fails = Do(lambda tup, collector: collector.fail(tup))
    cluster.submit("t", summing(feeder, AsInStorm().with_tumbling_window(Count(2)), fails))
    feed(cluster, feeder, [1], [2], [3])
    assert (feeder.acked, sorted(feeder.failed)) == ([], [1, 2])


class Wrong(WindowedBolt):
    outputs = ["sum"]

    def __init__(self, call: str) -> None:
        self.call = call

    def execute_window(self, window: Window) -> None:
        getattr(self.collector, self.call)(window.tuples[0])


@pytest.mark.parametrize("call", ["ack", "fail"])
def test_a_windowed_bolt_that_settles_its_tuples_itself_is_told_not_to(cluster: LocalCluster, call: str) -> None:
    feeder = FeederSpout(["n"])
    cluster.submit("t", summing(feeder, Wrong(call).with_tumbling_window(Count(1)), Keep(Log())))
    feeder.feed([1], 1)
    with pytest.raises(TaskFailedError, match=f"a windowed bolt must not call {call}") as caught:
        cluster.wait_until(lambda: feeder.acked)
    assert isinstance(caught.value.__cause__, UsageError) and not isinstance(caught.value.__cause__, EmitError)


def test_windows_longer_than_the_message_timeout_end_the_topology_when_it_starts(cluster: LocalCluster) -> None:
    bolt = Sums().with_tumbling_window(Duration(20))
    topology = summing(FeederSpout(["n"]), bolt, Keep(Log()))
    cluster.submit("t", topology, {"topology.message.timeout.secs": 40})
    with pytest.raises(TaskFailedError, match=r"bolt 'sums': holds tuples for 40 seconds \(length and slide\), and"):
        cluster.wait_until(lambda: False)


@pytest.mark.parametrize(("conf", "msg_id"), [({"topology.acker.executors": 0}, 1), ({}, None)])
def test_untracked_tuples_are_in_windows_too(cluster: LocalCluster, conf: dict[str, Any], msg_id: Any) -> None:
    log, feeder = Log(), FeederSpout(["n"])
    cluster.submit("t", summing(feeder, Sums().with_window(Count(2)), Keep(log)), conf)
    for number in range(4):
        feeder.feed([number], msg_id)
    cluster.wait_quiet()
    assert [values for _, values in log] == [[0], [1], [3], [5]]


def test_windows_of_windows_are_all_completed() -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", FeederSpout(["n", "at"]))
    builder.set_bolt("sums", Ends().with_tumbling_window(Duration(2)).with_timestamp_field("at")).global_grouping(
        "numbers"
    )
    builder.set_bolt("all", Ends().with_tumbling_window(Duration(4)).with_timestamp_field("at")).global_grouping("sums")
    emitted = complete_topology(builder.create_topology(), {"numbers": [[1, at] for at in range(13)]})
    assert emitted["sums"] == [[2, 2.0], [2, 4.0], [2, 6.0], [2, 8.0], [2, 10.0], [2, 12.0]]
    assert emitted["all"] == [[2, 4.0], [4, 8.0], [4, 12.0]]


class Ends(WindowedBolt):
    outputs = ["n", "at"]

    def execute_window(self, window: Window) -> None:
        self.collector.emit([sum(tup["n"] for tup in window), window.end])


def test_windows_of_many_tasks_are_their_own() -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", FeederSpout(["key", "n"]))
    builder.set_bolt("sums", Keys().with_tumbling_window(Count(5)), 3).fields_grouping("numbers", ["key"])
    rows = [[f"key {number % 7}", number] for number in range(700)]
    emitted = complete_topology(builder.create_topology(), {"numbers": rows})
    keys_of = {}
    for task, key, _ in emitted["sums"]:
        keys_of.setdefault(key, set()).add(task)
    assert {len(tasks) for tasks in keys_of.values()} == {1}
    assert len({number for _, _, number in emitted["sums"]}) == len(emitted["sums"]) >= 700 - 3 * 4


class Keys(WindowedBolt):
    outputs = ["task", "key", "n"]

    def execute_window(self, window: Window) -> None:
        assert len(window) == 5
        self.collector.emit_many([self.context.task_id, tup["key"], tup["n"]] for tup in window)
