"""DevCluster with every daemon: real processes, killed and restarted, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tupletree import BasicBolt, Spout, Topology, TopologyBuilder
from tupletree._devcluster.guard import processes_of
from tupletree.errors import ConfigError, NotFoundError, UsageError
from tupletree.testing import DevCluster, ProcessInfo, wait_until

TOPOLOGY = "numbers"
WORKERS = 2
STATE_S = 60


class Numbers(Spout):
    """Counts forever, slowly enough to leave the machine to others."""

    outputs = ["number"]

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector
        self.next = 0
        self.pending = 0
        self.due_s = 0.0

    def next_tuple(self) -> None:
        if time.monotonic() >= self.due_s:
            self.due_s = time.monotonic() + 0.05
            while self.pending < 10:
                self.next += 1
                self.pending += 1
                self.collector.emit([self.next], msg_id=self.next)

    def ack(self, msg_id: Any) -> None:
        self.pending -= 1

    def fail(self, msg_id: Any) -> None:
        self.pending -= 1


class Swallow(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


def numbers() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(), parallelism=2)
    builder.set_bolt("swallow", Swallow(), parallelism=2).shuffle_grouping("numbers")
    return builder.create_topology()


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """Two supervisors of two slots, two nimbuses, and a topology of two workers that runs all the time."""
    with DevCluster(supervisors=2, slots=2, ackers=1, nimbuses=2) as cluster:
        cluster.client.submit(TOPOLOGY, numbers(), {"topology.workers": WORKERS, "topology.max.spout.pending": 10})
        wait_running(cluster)
        yield cluster
        directory = cluster.directory
    assert processes_of(directory) == []
    assert not os.path.exists(directory)


def workers_of(cluster: DevCluster) -> list[ProcessInfo]:
    return [process for process in cluster.processes if process.role == "worker"]


def wait_running(cluster: DevCluster) -> None:
    def running() -> bool:
        topology = next(one for one in cluster.client.list() if one.record.name == TOPOLOGY)
        return topology.workers_ready == WORKERS and len(workers_of(cluster)) == WORKERS

    wait_until(running, STATE_S, what="both workers are ready")


def acked(cluster: DevCluster) -> int:
    reply = cluster.client.describe(TOPOLOGY)
    return sum(component.total.acked for component in reply.components if component.component_id == "numbers")


def wait_progress(cluster: DevCluster) -> None:
    """Until tuples are acked beyond those that were so far."""
    before = acked(cluster)
    wait_until(lambda: acked(cluster) != before and acked(cluster) > 0, STATE_S, what="tuples are acked")


@pytest.mark.nightly
def test_every_process_is_listed_with_its_ports(cluster: DevCluster) -> None:
    wait_until(lambda: all(worker.http_port for worker in workers_of(cluster)), STATE_S)
    processes = cluster.processes
    assert [process.role for process in processes] == [
        "zookeeper",
        *["nimbus"] * 2,
        *["supervisor"] * 2,
        "acker",
        *["worker"] * WORKERS,
    ]
    assert len({process.pid for process in processes}) == len(processes)
    for process in processes[1:]:
        url = f"http://127.0.0.1:{process.http_port}/healthz"
        with urllib.request.urlopen(url, timeout=5) as reply:
            assert reply.status == 200
    assert {worker.grpc_port for worker in processes[-WORKERS:]} <= set(_slots(cluster))


def _slots(cluster: DevCluster) -> list[int]:
    return [port for one in cluster.client.cluster().supervisors for port in one.presence.slots]


def test_a_killed_worker_is_started_again_by_its_supervisor(cluster: DevCluster) -> None:
    before = {worker.grpc_port: worker.pid for worker in workers_of(cluster)}
    pid = cluster.kill("worker", 1)
    cluster.restart("worker", 1)
    wait_running(cluster)
    after = {worker.grpc_port: worker.pid for worker in workers_of(cluster)}
    assert after.keys() == before.keys()
    assert pid in before.values()
    assert [port for port in after if after[port] != before[port]] == [port for port in before if before[port] == pid]
    wait_progress(cluster)


def test_a_running_worker_can_be_restarted(cluster: DevCluster) -> None:
    before = workers_of(cluster)[0]
    cluster.restart("worker")
    wait_running(cluster)
    after = workers_of(cluster)[0]
    assert after.grpc_port == before.grpc_port
    assert after.pid != before.pid


def test_workers_outlive_their_supervisor_and_are_adopted(cluster: DevCluster) -> None:
    before = workers_of(cluster)
    ports = [(one.grpc_port, one.http_port) for one in cluster.processes if one.role == "supervisor"]
    for index in range(2):
        cluster.kill("supervisor", index)
    assert [worker.pid for worker in workers_of(cluster)] == [worker.pid for worker in before]
    for index in range(2):
        cluster.restart("supervisor", index)
    assert [(one.grpc_port, one.http_port) for one in cluster.processes if one.role == "supervisor"] == ports
    wait_running(cluster)
    assert [worker.pid for worker in workers_of(cluster)] == [worker.pid for worker in before]


@pytest.mark.nightly
def test_the_other_nimbus_leads_when_the_leader_is_killed(cluster: DevCluster) -> None:
    nimbuses = [one for one in cluster.processes if one.role == "nimbus"]
    leader = [f"127.0.0.1:{one.grpc_port}" for one in nimbuses].index(cluster.client.leader())
    cluster.kill("nimbus", leader)
    leading = [one.presence.pid for one in cluster.client.cluster().nimbuses if one.leader]
    assert leading == [nimbuses[1 - leader].pid]
    assert cluster.client.leader() == f"127.0.0.1:{nimbuses[1 - leader].grpc_port}"
    wait_progress(cluster)
    cluster.restart("nimbus", leader)
    wait_until(lambda: len(cluster.client.cluster().nimbuses) == 2, STATE_S)


@pytest.mark.nightly
def test_zookeeper_and_acker_come_back_where_they_were(cluster: DevCluster) -> None:
    before = {one.name: (one.pid, one.grpc_port) for one in cluster.processes}
    cluster.kill("zookeeper")
    cluster.kill("acker")
    cluster.restart("zookeeper")
    cluster.restart("acker")
    after = {one.name: (one.pid, one.grpc_port) for one in cluster.processes}
    for name in ("zookeeper", "acker-0"):
        assert after[name][1] == before[name][1]
        assert after[name][0] != before[name][0]
    wait_progress(cluster)


def test_a_stopped_process_still_counts_as_running(cluster: DevCluster) -> None:
    pid = cluster.kill("acker", signal=signal.SIGSTOP)
    assert pid in [one.pid for one in cluster.processes]
    cluster.kill("acker", signal=signal.SIGCONT)


def test_who_does_not_exist_is_one_sentence(cluster: DevCluster) -> None:
    with pytest.raises(NotFoundError, match=r"^there is no supervisor 7: this cluster has 2$"):
        cluster.kill("supervisor", 7)
    with pytest.raises(NotFoundError, match=r"^there is no worker 9: 2 run$"):
        cluster.kill("worker", 9)
    with pytest.raises(UsageError, match=r"^there is no role 'ui'; expected one of zookeeper, nimbus, "):
        cluster.restart("ui")


def test_a_wrong_key_is_an_error_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match=r"'topology\.worker'.*'topology\.workers'"):
        DevCluster(conf={"topology.worker": 2})


OWNER = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_devcluster import TOPOLOGY, numbers, workers_of
from tupletree.testing import DevCluster, wait_until
cluster = DevCluster()
cluster.start()
cluster.client.submit(TOPOLOGY, numbers())
wait_until(lambda: workers_of(cluster), 60)
print(cluster.directory, flush=True)
sys.stdin.read()
"""


@pytest.mark.nightly
def test_killing_the_owner_leaves_nothing_behind() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        directory = owner.stdout.readline().decode().strip()
        assert len(processes_of(directory)) == 5
    finally:
        owner.kill()
        owner.communicate()
    wait_until(lambda: not os.path.exists(directory), 30)
    assert processes_of(directory) == []
