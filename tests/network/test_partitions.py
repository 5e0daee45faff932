"""Machines that cannot reach each other, in each of the ways that matter, under two running topologies.

A cut drops packets without a word, so that only timeouts tell. It stands until the cluster has shown that it noticed,
and, where tuples can flow in spite of it, until they do. Nothing may be lost, the sums must be exact, and both
topologies must flow again; how long that took is recorded (recoveries.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from recoveries import Recovery, record
from running import Pair, two_topologies
from spread_cluster import SpreadCluster

from tupletree.testing import wait_until

NOTICED_S = 60
NORMAL_S = 60

Noticed = Callable[[SpreadCluster, Pair], bool]


@pytest.fixture
def pair(cluster: SpreadCluster, tmp_path: Path) -> Iterator[Pair]:
    with two_topologies(cluster, tmp_path) as running:
        yield running


def logged(word: str, machine: str) -> Noticed:
    """Every topology's worker on a machine has logged an event since the cut."""

    def noticed(cluster: SpreadCluster, pair: Pair) -> bool:
        return all(word in Path(worker.log_path).read_text() for worker in cluster.workers(machine))

    return noticed


def moved_to(machine: str) -> Noticed:
    """Both topologies are assigned to this supervisor's machine alone."""

    def noticed(cluster: SpreadCluster, pair: Pair) -> bool:
        return all(set().union(*cluster.homes(one.name).values()) == {machine} for one in pair.both)

    return noticed


def gone_from(machine: str, to: str) -> Noticed:
    """Both topologies have moved, and their workers here have ended."""
    moved = moved_to(to)
    return lambda cluster, pair: moved(cluster, pair) and not cluster.workers(machine)


@dataclass(frozen=True)
class Cut:
    """``sender`` and ``receiver`` are machines; "leader" is the one whose nimbus leads."""

    what: str
    pairs: tuple[tuple[str, str], ...]
    noticed: Noticed
    one_way: bool = False
    flows: bool = False  # whether tuples flow again before it is healed


WORKERS = (("supervisor-0", "supervisor-1"),)
CUTS = (
    Cut("worker to worker, both ways", WORKERS, logged("peer.lost", "supervisor-0")),
    Cut("worker to worker, one way", WORKERS, logged("peer.lost", "supervisor-0"), one_way=True),
    Cut("worker to acker, both ways", (("supervisor-0", "acker-0"),), logged("acker.lost", "supervisor-0")),
    Cut("worker to acker, one way", (("supervisor-0", "acker-0"),), logged("acker.lost", "supervisor-0"), one_way=True),
    Cut("acker to worker, one way", (("acker-0", "supervisor-0"),), logged("acker.lost", "supervisor-0"), one_way=True),
    Cut(
        "supervisor and its workers to nimbus, both ways",
        (("supervisor-0", "nimbus-0"), ("supervisor-0", "nimbus-1")),
        gone_from("supervisor-0", to="supervisor-1"),
        flows=True,
    ),
)


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.what)
def test_nothing_is_lost_while_packets_are_dropped(cluster: SpreadCluster, pair: Pair, cut: Cut) -> None:
    cut_s = time.time()
    for sender, receiver in cut.pairs:
        cluster.network.cut(sender, receiver, one_way=cut.one_way)
    try:
        wait_until(lambda: cut.noticed(cluster, pair), NOTICED_S, what="the cut is noticed", pause_s=0.1)
        noticed_s = time.time()
        if cut.flows:
            pair.wait_flows(NORMAL_S)
    finally:
        healed_s = time.time()
        for sender, receiver in cut.pairs:
            cluster.network.heal(sender, receiver)
    pair.wait_flows(NORMAL_S)
    wait_until(cluster.is_whole, NORMAL_S, what="everybody is there again")
    record(Recovery.of(cut.what, pair, cut_s, noticed_s, healed_s, time.time()))
    pair.finish()


@pytest.mark.parametrize("one_way", [False, True], ids=["both ways", "one way"])
def test_a_leader_without_zookeeper_is_followed_by_its_standby(
    cluster: SpreadCluster, pair: Pair, one_way: bool
) -> None:
    leader = cluster.leader()
    cut_s = time.time()
    cluster.network.cut("zookeeper", leader, one_way=one_way)
    try:
        wait_until(lambda: cluster.leader() not in ("", leader), NOTICED_S, what="the standby leads", pause_s=0.1)
        noticed_s = time.time()
        pair.wait_flows(NORMAL_S)
        wait_until(cluster.is_whole, NORMAL_S, what="the new leader sees everybody")
    finally:
        healed_s = time.time()
        cluster.network.heal(leader, "zookeeper")
    pair.wait_flows(NORMAL_S)
    what = "ZooKeeper to the leading nimbus, one way" if one_way else "leading nimbus to ZooKeeper, both ways"
    record(Recovery.of(what, pair, cut_s, noticed_s, healed_s, time.time()))
    assert pair.counted.history.events("fail") == []
    pair.finish()


def test_a_supervisors_machine_may_go_and_come_back(cluster: SpreadCluster, pair: Pair) -> None:
    cut_s = time.time()
    before = {worker.pid for worker in cluster.workers("supervisor-0")}
    cluster.network.unplug("supervisor-0")
    try:
        gone = moved_to("supervisor-1")
        wait_until(lambda: gone(cluster, pair), NOTICED_S, what="the workers move", pause_s=0.1)
        noticed_s = time.time()
        pair.wait_flows(NORMAL_S)
        assert {worker.pid for worker in cluster.workers("supervisor-0")} == before
    finally:
        healed_s = time.time()
        cluster.network.plug_in("supervisor-0")
    wait_until(lambda: not cluster.workers("supervisor-0"), NORMAL_S, what="the old workers end")
    wait_until(cluster.is_whole, NORMAL_S, what="the supervisor is there again")
    pair.wait_flows(NORMAL_S)
    record(Recovery.of("a supervisor's machine unplugged", pair, cut_s, noticed_s, healed_s, time.time()))
    pair.finish()
