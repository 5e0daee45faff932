"""KeyedProcess in topologies in this process: what outlives a rollback and a topology, and the clock."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from local_components import DoBasic, Log
from stateful_scene import ALIGNED, FAST, sqlite

from tupletree import FailedException, KeyedProcess, KeyedWindow, Session, Sliding, TopologyBuilder, Tumbling
from tupletree.testing import FeederSpout, LocalCluster


class Alarm(KeyedProcess):
    """Counts the tuples of a key, and emits the count ten after the time of the first, and half a second later."""

    key, event_time = "key", "at"
    max_lag = timedelta(0)
    outputs = ("key", "time", "count")
    default_factory = int

    def on_tuple(self, tup, state, timers):
        if not state.value:
            timers.set(tup["at"] + 10)
            timers.set_processing(timers.now + 500)
        state.value += 1

    def on_timer(self, key, time, state, timers):
        yield [key, "clock" if timers.is_processing else time, state.value]


def alarms(feeder, sink):
    builder = TopologyBuilder()
    builder.set_spout("events", feeder)
    builder.set_bolt("alarm", Alarm()).fields_grouping("events", ["key"])
    builder.set_bolt("sink", DoBasic(sink)).shuffle_grouping("alarm")
    return builder.create_topology()


def feed(feeder, *events):
    for key, at in events:
        feeder.feed([key, at], (key, at))


@pytest.mark.parametrize("conf", [FAST, ALIGNED], ids=["default", "aligned"])
def test_timers_of_a_killed_topology_fire_when_it_is_submitted_again(conf, tmp_path):
    conf, rows = {**conf, **sqlite(tmp_path)}, Log()
    before, after = FeederSpout(["key", "at"]), FeederSpout(["key", "at"])

    def sink(tup, collector):
        rows.append(list(tup.values))

    with LocalCluster() as cluster:
        cluster.submit("alarms", alarms(before, sink), conf)
        feed(before, ("a", 0), ("a", 5), ("b", 9))
        cluster.wait_until(lambda: len(before.acked) == 3)
        cluster.kill("alarms")
        assert not [row for row in rows if row[1] != "clock"]
        cluster.submit("alarms", alarms(after, sink), conf)
        feed(after, ("c", 19))
        cluster.wait_until(lambda: len([row for row in rows if row[0] == "c"]) == 1)
        cluster.wait_until(lambda: ["a", "clock", 2] in rows and ["b", "clock", 1] in rows)
    assert [row for row in rows if row[1] != "clock"] == [["a", 10, 2], ["b", 19, 1]]


def test_aligned_a_timer_whose_row_fails_fires_again_with_the_value_that_it_had(tmp_path):
    conf, rows, feeder = {**ALIGNED, **sqlite(tmp_path)}, Log(), FeederSpout(["key", "at"])

    def refuse_once(tup, collector):
        rows.append(list(tup.values))
        if len(rows) == 1:
            raise FailedException("not yet")

    with LocalCluster() as cluster:
        cluster.submit("alarms", alarms(feeder, refuse_once), conf)
        feed(feeder, ("a", 0), ("a", 5))
        cluster.wait_until(lambda: len(feeder.acked) == 2)
        feed(feeder, ("a", 12))
        cluster.wait_until(lambda: feeder.failed == [("a", 12)])
        feed(feeder, ("a", 12))
        cluster.wait_until(lambda: rows.count(["a", 10, 2]) == 2 and len(feeder.acked) == 3)
        assert cluster.state("alarms", "alarm")["a"] == 3


class Sums(KeyedWindow):
    key, event_time, max_lag = "key", "at", timedelta(0)
    outputs = ("key", "start", "times")

    def __init__(self, window):
        self.window = window

    def on_window(self, key, window, value):
        yield [key, window.start, [at for _, at in value]]


@pytest.mark.parametrize(
    ("window", "again"),
    [
        (Tumbling(timedelta(milliseconds=10)), [["a", 0, [0, 5]], ["b", 0, [7]]]),
        (
            Sliding(timedelta(milliseconds=10), timedelta(milliseconds=6)),
            [["a", 0, [0, 5]], ["b", 0, [7]], ["b", 6, [7]]],
        ),
        (Session(timedelta(milliseconds=6)), [["a", 0, [0, 5]], ["b", 7, [7]]]),
    ],
)
def test_aligned_a_window_whose_row_fails_comes_again_with_each_of_its_tuples_once(window, again, tmp_path):
    conf, rows, feeder = {**ALIGNED, **sqlite(tmp_path)}, Log(), FeederSpout(["key", "at"])

    def refuse_once(tup, collector):
        rows.append(list(tup.values))
        if tup["key"] == "b" and [row[0] for row in rows].count("b") == 1:
            raise FailedException("not yet")

    builder = TopologyBuilder()
    builder.set_spout("events", feeder)
    builder.set_bolt("sums", Sums(window)).fields_grouping("events", ["key"])
    builder.set_bolt("sink", DoBasic(refuse_once)).shuffle_grouping("sums")
    with LocalCluster() as cluster:
        cluster.submit("sums", builder.create_topology(), conf)
        feed(feeder, ("a", 0), ("a", 5))
        cluster.wait_until(lambda: len(feeder.acked) == 2)
        feed(feeder, ("b", 7), ("c", 16))
        cluster.wait_until(lambda: len(feeder.failed) == 2)
        feed(feeder, *feeder.failed)
        cluster.wait_until(lambda: len(feeder.acked) == 4)
        assert [row for row in cluster.state("sums", "sums") if type(row) is str] == ["c"]
    assert sorted(rows[-len(again) :]) == again


def test_without_alignment_a_tuple_that_failed_and_comes_back_before_the_watermark_is_late_and_reported():
    class Refusing(Alarm):
        def on_tuple(self, tup, state, timers):
            if state.key == "bad" and timers.watermark == 5:
                raise FailedException("not yet")
            super().on_tuple(tup, state, timers)

    feeder = FeederSpout(["key", "at"])
    builder = TopologyBuilder()
    builder.set_spout("events", feeder)
    builder.set_bolt("alarm", Refusing()).fields_grouping("events", ["key"])
    with LocalCluster() as cluster:
        cluster.submit("alarms", builder.create_topology(), FAST)
        feed(feeder, ("bad", 5))
        cluster.wait_until(lambda: feeder.failed == [("bad", 5)])
        feed(feeder, ("good", 9), ("bad", 5))
        cluster.wait_until(lambda: len(feeder.acked) == 2)
        states, [(component, error)] = cluster.state("alarms", "alarm"), cluster.errors("alarms")
    assert states["good"] == 1 and "bad" not in states
    assert component == "alarm" and str(error).startswith(
        "1 tuple is late so far and was dropped, the newest with the event time 5 (1970-01-01T00:00:00.005+00:00)"
    )


def test_the_metrics_of_a_keyed_process_are_shown():
    feeder = FeederSpout(["key", "at"])
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit("alarms", alarms(feeder, lambda tup, collector: None))
        feed(feeder, ("a", 20_000), ("a", 19_000))
        cluster.wait_quiet()
        shown = cluster.metrics("alarms")
    found = dict(re.findall(r"^tupletree_keyed_(\w+)\{.*\} (.+)$", shown, re.MULTILINE))
    assert found == {"timers": "2.0", "late_tuples_total": "1.0", "watermark_timestamp_seconds": "20.0"}
