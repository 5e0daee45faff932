"""A rebalance on a real cluster brings together what has talked most, as the workers have reported it."""

from __future__ import annotations

import time

import pytest

from tupletree import BasicBolt, Spout, TopologyBuilder
from tupletree.parallelism import task_ranges
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly

NAMES = ("a", "b", "c", "d")


class Source(Spout):
    """A hundred tuples a second, ten at a time."""

    outputs = ["n"]

    def open(self, conf, context, collector):
        self.collector, self.due_s = collector, 0.0

    def next_tuple(self):
        if time.monotonic() >= self.due_s:
            self.due_s = time.monotonic() + 0.1
            for n in range(10):
                self.collector.emit([n])


class OneInTen(BasicBolt):
    outputs = ["n"]

    def execute(self, tup, collector):
        if tup["n"] == 0:
            yield [0]


class TenForOne(BasicBolt):
    outputs = ["n"]

    def execute(self, tup, collector):
        for n in range(10):
            yield [n]


class Busy(BasicBolt):
    """Most of the topology's processor time, so that any worker may have the others."""

    def execute(self, tup, collector):
        sum(range(20_000))


def words(cluster: DevCluster) -> list[str]:
    """The components of each worker, as a word."""
    ranges = task_ranges(dict.fromkeys(NAMES, 1))
    workers = cluster.client.describe("chain").assignment.workers
    return sorted(
        "".join(name for name in NAMES for one in worker.executors if one.first_task in ranges[name])
        for worker in workers
    )


def executed(cluster: DevCluster) -> int:
    [found] = [one for one in cluster.client.describe("chain").components if one.component_id == "d"]
    return found.total.executed


def test_a_rebalance_brings_together_the_components_that_talk_most() -> None:
    builder = TopologyBuilder()
    builder.set_spout("a", Source())
    for name, source, bolt in (("b", "a", OneInTen()), ("c", "b", TenForOne()), ("d", "c", Busy())):
        builder.set_bolt(name, bolt).shuffle_grouping(source)
    with DevCluster(slots=2) as cluster:
        cluster.client.submit("chain", builder.create_topology(), {"topology.workers": 2})
        wait_until(lambda: executed(cluster) > 200, 60, what="the last bolt has executed some tuples")
        assert words(cluster) == ["ac", "bd"]
        cluster.client.rebalance("chain", wait_secs=0)
        wait_until(lambda: words(cluster) == ["ab", "cd"], 60, what="the pairs share a worker")
        before = executed(cluster)
        wait_until(lambda: executed(cluster) > before, 60, what="it goes on")
