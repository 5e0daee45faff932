"""kill -9 of every kind of process, one after the other, under a running topology: nothing is lost.

The message timeout is 30 seconds throughout, and what a crash took is replayed long before: the deadline below is
shorter than any timeout could be. How long it really took is measured by ``python -m bench.recovery``.
"""

import time

import pytest
from numbers_topology import History, numbers_topology

from tupletree.testing import DevCluster, wait_until

TIMEOUT_S = 30
BEFORE_ANY_TIMEOUT_S = TIMEOUT_S - 5


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=2, slots=2, ackers=2, nimbuses=2) as running:
        yield running


@pytest.fixture
def run(cluster, tmp_path):
    """A topology of two workers and two shards that runs and has acked something."""
    name = tmp_path.name.replace("_", "-")[:60]
    conf = {
        "topology.workers": 2,
        "topology.acker.executors": 2,
        "topology.message.timeout.secs": TIMEOUT_S,
        "topology.max.spout.pending": 200,
    }
    cluster.client.submit(name, numbers_topology(tmp_path), conf)
    history = History(tmp_path)
    wait_for_acks(history, 100)
    yield history
    cluster.client.kill(name, wait_secs=0)
    wait_until(lambda: not [p for p in cluster.processes if p.role == "worker"], 30, what="the workers end")


def wait_for_acks(history, more):
    """Wait until so many more numbers are acked."""
    wanted = len(history.acked()) + more
    wait_until(lambda: len(history.acked()) >= wanted, 30, what=f"{more} more acks")


def finish(history):
    """Let the topology come to its end, and judge."""
    history.stop()
    wait_until(history.is_complete, 30, what="everything is acked")
    history.check()


def settled_before_any_timeout(history, crash_s):
    """Everything that was pending when something crashed is acked or replayed, though no timeout can have passed."""
    pending = history.lost_at(crash_s)

    def settled():
        after = {number for number, at in history.events("ack") + history.events("emit") if at > crash_s}
        return pending <= after

    wait_until(settled, crash_s + BEFORE_ANY_TIMEOUT_S - time.time(), what="what was pending is settled")


def worker_with(cluster, component):
    """The index, among the cluster's workers, of one that runs a task of the component."""
    name = cluster.client.list()[0].record.name
    topology = cluster.client.describe(name)
    tasks = dict(topology.summary.record.tasks)
    first = 1 + sum(count for other, count in tasks.items() if other < component)
    wanted = range(first, first + tasks[component])
    workers = [process for process in cluster.processes if process.role == "worker"]
    for worker in topology.assignment.workers:
        if any(executor.first_task in wanted for executor in worker.executors):
            return next(index for index, process in enumerate(workers) if process.grpc_port == worker.port)
    raise AssertionError(f"nobody runs {component}")


def test_a_killed_worker_without_the_spout_loses_nothing(cluster, run):
    without = 1 - worker_with(cluster, "numbers")
    crash_s = time.time()
    cluster.kill("worker", without)
    settled_before_any_timeout(run, crash_s)
    wait_for_acks(run, 100)
    finish(run)


def test_a_killed_worker_with_the_spout_loses_nothing(cluster, run):
    crash_s = time.time()
    cluster.kill("worker", worker_with(cluster, "numbers"))
    settled_before_any_timeout(run, crash_s)
    wait_for_acks(run, 100)
    finish(run)


def test_a_killed_acker_loses_nothing_and_its_shards_move(cluster, run):
    crash_s = time.time()
    cluster.kill("acker", 0)
    settled_before_any_timeout(run, crash_s)
    wait_for_acks(run, 100)
    finish(run)
    cluster.restart("acker", 0)


def test_both_ackers_killed_and_restarted_lose_nothing(cluster, run):
    for index in (0, 1):
        cluster.kill("acker", index)
    for index in (0, 1):
        cluster.restart("acker", index)
    wait_for_acks(run, 100)
    finish(run)


def test_an_acker_that_drains_fails_nothing(cluster, run):
    cluster.restart("acker", 0)
    wait_for_acks(run, 200)
    assert run.events("fail") == []
    finish(run)


def test_a_killed_supervisor_leaves_its_workers_running_and_adopts_them(cluster, run):
    before = {process.pid for process in cluster.processes if process.role == "worker"}
    cluster.kill("supervisor", 0)
    wait_for_acks(run, 100)
    cluster.restart("supervisor", 0)
    wait_for_acks(run, 100)
    assert {process.pid for process in cluster.processes if process.role == "worker"} == before
    assert run.events("fail") == []
    finish(run)


def test_a_killed_leader_is_followed_by_its_standby_while_tuples_flow(cluster, run):
    leader = cluster.client.leader()
    nimbuses = [process for process in cluster.processes if process.role == "nimbus"]
    index = next(i for i, process in enumerate(nimbuses) if leader.endswith(f":{process.grpc_port}"))
    cluster.kill("nimbus", index)
    wait_for_acks(run, 100)
    wait_until(lambda: cluster.client.leader() != leader, 60, what="the standby leads")
    assert [summary.record.name for summary in cluster.client.list()]
    assert run.events("fail") == []
    cluster.restart("nimbus", index)
    finish(run)


def test_zookeeper_may_go_and_come_back_while_tuples_flow(cluster, run):
    cluster.kill("zookeeper")
    wait_for_acks(run, 200)
    cluster.restart("zookeeper")
    wait_for_acks(run, 200)
    assert run.events("fail") == []
    finish(run)
