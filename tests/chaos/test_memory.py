"""Memory is bounded while a bolt, or an acker, is far slower than the spout: the short version of bench/memory.py.

Each process is watched for a few seconds after everything has filled up. A spout that were not held back would emit
more than a hundred megabytes in that time.
"""

import signal
import urllib.request

import pytest

from bench.memory import NAME, WORKERS, component, follow, is_full, topology, watched
from tupletree.testing import DevCluster, wait_until

WATCHED_S = 4
GROWTH_MB = 20
STEADY_MB = 2
PENDING = 10_000


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(slots=WORKERS, ackers=1) as running:
        yield running


@pytest.fixture
def submit(cluster):
    """Submits the topology with a configuration and returns the ids of workers and ackers; ends it afterwards."""

    def run(sleep_s, conf):
        cluster.client.submit(NAME, topology(sleep_s), {"topology.workers": WORKERS, **conf})
        return watched(cluster)

    yield run
    cluster.client.kill(NAME, wait_secs=0)
    wait_until(lambda: not [p for p in cluster.processes if p.role == "worker"], 30, what="the workers end")


def is_steady(pids):
    """Whether no process grows any more: what is on its way between them fills up after the inboxes."""
    sizes = [[size for _, size in readings] for readings in follow(pids, 1, every_s=0.5).values()]
    return all(max(one) - min(one) < STEADY_MB for one in sizes)


def stays_flat(pids):
    """Watch processes for a while, once they are steady: none grows by more than a little."""
    wait_until(lambda: is_steady(pids), 60, what="no process grows any more")
    for name, readings in follow(pids, WATCHED_S, every_s=0.5).items():
        sizes = [size for _, size in readings]
        assert max(sizes) - sizes[0] < GROWTH_MB, f"{name} grew: {[round(size) for size in sizes]} MB"


def emitted_now(cluster):
    """How many tuples the spout has emitted, asked of its worker itself: what nimbus knows is a second old or more."""
    total = 0.0
    for process in cluster.processes:
        if process.role == "worker":
            with urllib.request.urlopen(f"http://127.0.0.1:{process.http_port}/metrics", timeout=10) as page:
                lines = page.read().decode().splitlines()
            wanted = 'tupletree_worker_emitted_tuples_total{component="numbers"'
            total += sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(wanted))
    assert total > 0
    return total


def worker_of(cluster, task):
    """The port of the worker that runs a task."""
    for worker in cluster.client.describe(NAME).assignment.workers:
        if any(executor.first_task <= task <= executor.last_task for executor in worker.executors):
            return worker.port
    raise AssertionError(f"nobody runs task {task}")


def test_with_a_bolt_that_sleeps_and_many_pending(cluster, submit):
    pids = submit(0.001, {"topology.acker.executors": 1, "topology.max.spout.pending": PENDING})
    wait_until(lambda: is_full(cluster, PENDING), 60, what="as many are pending as may be")
    stays_flat(pids)
    reply = cluster.client.describe(NAME)
    assert component(reply, "numbers").pending <= PENDING
    assert component(reply, "numbers").failed == 0


def test_untracked_tuples_are_bounded_by_back_pressure_alone_also_between_workers(cluster, submit):
    pids = submit(0.001, {"topology.acker.executors": 0, "topology.executor.receive.buffer.size": 2000})
    wait_until(lambda: is_full(cluster, None), 60, what="relay and sleepers are congested")
    numbers, relay, *sleepers = range(1, 3 + WORKERS)
    assert worker_of(cluster, numbers) != worker_of(cluster, relay), "congestion is announced from worker to worker"
    assert {worker_of(cluster, sleeper) for sleeper in sleepers} == {
        worker_of(cluster, numbers),
        worker_of(cluster, relay),
    }
    stays_flat(pids)
    executed = component(cluster.client.describe(NAME), "sleeper").executed
    wait_until(lambda: component(cluster.client.describe(NAME), "sleeper").executed > executed, what="tuples flow")


def test_spouts_wait_for_an_acker_that_does_not_keep_up_whatever_may_be_pending(cluster, submit):
    conf = {"topology.acker.executors": 1, "topology.executor.receive.buffer.size": 2000}
    pids = submit(0, {**conf, "topology.max.spout.pending": None})
    wait_until(lambda: component(cluster.client.describe(NAME), "numbers").acked > 0, 60, what="trees are acked")
    cluster.kill("acker", 0, signal.SIGSTOP)
    try:
        before = []

        def is_held():
            before.append(emitted_now(cluster))
            return before[-20:-1] == [before[-1]] * 19

        wait_until(is_held, 30, what="the spout is held")
        stays_flat({name: pid for name, pid in pids.items() if name.startswith("worker")})
    finally:
        cluster.kill("acker", 0, signal.SIGCONT)
    acked = component(cluster.client.describe(NAME), "numbers").acked
    wait_until(
        lambda: component(cluster.client.describe(NAME), "numbers").acked > acked, 60, what="trees are acked again"
    )
