"""kill -9 under a topology whose numbers go through combiners: what a combiner held, or waited for, is not lost."""

import time

import pytest
from numbers_topology import DoubleMany, History, numbers_topology
from test_kills import finish, settled_before_any_timeout, wait_for_acks, worker_with

from tupletree.testing import DevCluster, wait_until


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=1, slots=2, ackers=2) as running:
        yield running


@pytest.fixture
def run(cluster, tmp_path):
    """A topology of two workers, a combiner in each, and two shards, that runs and has acked something."""
    conf = {
        "topology.workers": 2,
        "topology.acker.executors": 2,
        "topology.message.timeout.secs": 30,
        "topology.max.spout.pending": 200,
    }
    cluster.client.submit("combined", numbers_topology(tmp_path, double=DoubleMany()), conf)
    history = History(tmp_path)
    wait_for_acks(history, 100)
    yield history
    cluster.client.kill("combined", wait_secs=0)
    wait_until(lambda: not [p for p in cluster.processes if p.role == "worker"], 30, what="the workers end")


def test_a_killed_worker_loses_nothing_of_its_combiner_nor_of_the_other_one(cluster, run):
    crash_s = time.time()
    cluster.kill("worker", 1 - worker_with(cluster, "numbers"))
    settled_before_any_timeout(run, crash_s)
    wait_for_acks(run, 100)
    finish(run)


def test_killed_ackers_lose_nothing_and_combiners_do_not_wait_for_a_timeout(cluster, run):
    crash_s = time.time()
    cluster.kill("acker", 0)
    settled_before_any_timeout(run, crash_s)
    cluster.restart("acker", 0)
    wait_for_acks(run, 100)
    finish(run)


def test_an_acker_that_drains_fails_nothing(cluster, run):
    cluster.restart("acker", 0)
    wait_for_acks(run, 200)
    assert run.events("fail") == []
    finish(run)


def test_a_topology_that_is_deactivated_has_nothing_held(cluster, run):
    cluster.client.deactivate("combined")
    wait_until(run.is_complete, 20, what="everything emitted is acked")
    cluster.client.activate("combined")
    wait_for_acks(run, 100)
    finish(run)
