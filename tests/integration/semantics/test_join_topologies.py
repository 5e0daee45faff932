"""Joins in topologies in this process: what outlives a topology, and what a failure repeats."""

from __future__ import annotations

from datetime import timedelta

import pytest
from local_components import DoBasic, Log
from stateful_scene import ALIGNED, FAST, sqlite

from tupletree import FailedException, IntervalJoin, TableJoin, TopologyBuilder
from tupletree.testing import FeederSpout, LocalCluster

ENDS = [f"end {number}" for number in range(16)]
"""Keys of tuples that raise the watermark of both tasks."""


class Ads(IntervalJoin):
    key, event_time = "user", "at"
    max_lag = timedelta(0)
    left, right = "views", "clicks"
    before, after = timedelta(0), timedelta(milliseconds=10)
    kind = "left"
    outputs = ("user", "view", "click")

    def join(self, left, right):
        yield [left["user"], left["at"], right and right["at"]]


class Then(TableJoin):
    key, event_time = "user", "at"
    max_lag = timedelta(0)
    stream, table = "views", "clicks"
    versioned = True
    outputs = ("user", "view", "click")

    def join(self, left, row):
        yield [left["user"], left["at"], row["at"]]


class Scene:
    """Two feeders, a join of both, and a sink."""

    def __init__(self, join, sink):
        self.views, self.clicks = FeederSpout(["user", "at"]), FeederSpout(["user", "at"])
        builder = TopologyBuilder()
        builder.set_spout("views", self.views)
        builder.set_spout("clicks", self.clicks)
        builder.set_bolt("join", join, 2).fields_grouping("views", "user").fields_grouping("clicks", "user")
        builder.set_bolt("sink", DoBasic(sink)).shuffle_grouping("join")
        self.topology = builder.create_topology()

    def feed(self, feeder, *events):
        for user, at in events:
            feeder.feed([user, at], (user, at))

    def acked(self):
        return len(self.views.acked) + len(self.clicks.acked)


@pytest.mark.parametrize("conf", [FAST, ALIGNED], ids=["default", "aligned"])
@pytest.mark.parametrize(
    ("join", "expected"),
    [(Ads, [["ann", 5, 6], ["ann", 5, 7], ["bob", 5, None]]), (Then, [["ann", 5, 4]])],
    ids=["interval", "table"],
)
def test_tuples_of_a_killed_topology_are_joined_when_it_is_submitted_again(conf, join, expected, tmp_path):
    conf, rows = {**conf, **sqlite(tmp_path)}, Log()

    def sink(tup, collector):
        if tup["user"] not in ENDS:
            rows.append(list(tup.values))

    before, after = Scene(join(), sink), Scene(join(), sink)
    with LocalCluster() as cluster:
        cluster.submit("joins", before.topology, conf)
        before.feed(before.views, ("ann", 5), ("bob", 5))
        before.feed(before.clicks, ("ann", 4), ("ann", 6))
        cluster.wait_until(lambda: before.acked() == 4)
        cluster.kill("joins")
        cluster.submit("joins", after.topology, conf)
        after.feed(after.clicks, ("ann", 7), *((user, 50) for user in ENDS))
        after.feed(after.views, *((user, 50) for user in ENDS))
        cluster.wait_until(lambda: after.acked() == 1 + 2 * len(ENDS) and len(rows) >= len(expected))
    assert sorted(rows, key=str) == expected


def test_aligned_a_pair_whose_row_fails_is_joined_again_and_counts_once(tmp_path):
    conf, rows = {**ALIGNED, **sqlite(tmp_path)}, Log()

    def refuse_once(tup, collector):
        rows.append(list(tup.values))
        if len(rows) == 1:
            raise FailedException("not yet")

    scene = Scene(Ads(), refuse_once)
    with LocalCluster() as cluster:
        cluster.submit("joins", scene.topology, conf)
        scene.feed(scene.views, ("ann", 5))
        cluster.wait_until(lambda: scene.acked() == 1)
        scene.feed(scene.clicks, ("ann", 6))
        cluster.wait_until(lambda: scene.clicks.failed == [("ann", 6)])
        scene.feed(scene.clicks, ("ann", 6))
        cluster.wait_until(lambda: scene.acked() == 2)
        states = cluster.state("joins", "join")
    assert rows == [["ann", 5, 6]] * 2
    [_, right, _] = states["ann"]
    assert right[2][0] == [6]
