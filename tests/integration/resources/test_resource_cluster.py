"""The resource scheduler on a real cluster: machines with different resources, and a worker beyond its memory."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.control.conftest import Console
from tupletree import BasicBolt, Spout, Topology, TopologyBuilder
from tupletree._process_table import HAS_PROC
from tupletree.testing import DevCluster, wait_until

PATIENCE_S = 60
GPU_MACHINE = {
    "supervisor.resources": {"gpu": 2},
    "supervisor.memory.capacity.mb": 1500,
    "supervisor.cpu.capacity": 300,
}
PLAIN_MACHINE = {"supervisor.memory.capacity.mb": 1200, "supervisor.cpu.capacity": 200}


class Ticks(Spout):
    """Fifty tuples a second."""

    outputs = ["n"]

    def open(self, conf, context, collector):
        self.collector, self.due_s = collector, 0.0

    def next_tuple(self):
        if time.monotonic() >= self.due_s:
            self.due_s = time.monotonic() + 0.02
            self.collector.emit([1])


class Train(BasicBolt):
    def execute(self, tup, collector):
        pass


class Hog(BasicBolt):
    """Holds ten megabytes more with each tuple, up to 1.5 gigabytes."""

    def prepare(self, conf, context):
        self.held: list[bytearray] = []

    def execute(self, tup, collector):
        if len(self.held) < 150:
            self.held.append(bytearray(b"x" * 10_000_000))


def topology(bolt: BasicBolt, executors: int, memory_mb: float, gpu: float = 0.0) -> Topology:
    builder = TopologyBuilder()
    ticks = builder.set_spout("ticks", Ticks()).set_cpu_load(5).set_memory_load(100)
    added = builder.set_bolt("work", bolt, executors).shuffle_grouping(ticks)
    added.set_cpu_load(20).set_memory_load(memory_mb)
    if gpu:
        added.add_resource("gpu", gpu)
    return builder.create_topology()


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    conf = {"nimbus.scheduler": "resource", "nimbus.resource.quotas": {"nobody": {"cpu": 100}}}
    with DevCluster(supervisors=2, slots=3, conf=conf, supervisor_confs=[GPU_MACHINE, PLAIN_MACHINE]) as running:
        yield running


def executed(cluster: DevCluster, name: str) -> int:
    return next(one.total.executed for one in cluster.client.describe(name).components if one.component_id == "work")


def rest(cluster: DevCluster, path: str) -> dict[str, Any]:
    address = next(one.presence.http_address for one in cluster.client.cluster().nimbuses if one.leader)
    with urllib.request.urlopen(f"http://{address}/api/v1/{path}", timeout=10) as reply:
        found: dict[str, Any] = json.load(reply)
    return found


@pytest.fixture
def console(cluster: DevCluster, capsys: pytest.CaptureFixture[str]) -> Console:
    return Console(cluster, capsys)


@pytest.mark.long
def test_executors_come_to_the_machine_that_has_what_they_need(cluster: DevCluster, console: Console) -> None:
    client = cluster.client
    with_gpu = next(one.presence.id for one in client.cluster().supervisors if one.presence.resources)
    client.submit("train", topology(Train(), 2, 150, gpu=1))
    wait_until(lambda: executed(cluster, "train") > 20, PATIENCE_S, what="the trainers work")
    (worker,) = client.describe("train").assignment.workers
    assert (worker.supervisor_id, worker.memory_mb) == (with_gpu, 400)

    client.submit("more", topology(Train(), 1, 150, gpu=1))
    sentence = (
        "None of its 2 executors has a place: an executor of 'work' needs 1 gpu, and no supervisor has any of "
        "that free."
    )
    wait_until(lambda: client.describe("more").unscheduled == sentence, PATIENCE_S, what="the shortage is explained")
    assert f"not fully scheduled: {sentence}" in console("describe", "more")
    described = console("describe", "train")
    assert "each executor of 'work' needs 20% of a processor, 150 MB of memory and 1 gpu" in described
    check_figures(cluster, console, with_gpu)

    client.kill("train", wait_secs=0)
    wait_until(lambda: executed(cluster, "more") > 20, PATIENCE_S, what="the freed gpu is used")
    assert {one.supervisor_id for one in client.describe("more").assignment.workers} == {with_gpu}
    client.kill("more", wait_secs=0)


def check_figures(cluster: DevCluster, console: Console, with_gpu: str) -> None:
    """What REST, the client and the command line say of the capacities and their use."""
    summary = rest(cluster, "cluster/summary")
    assert (summary["schedulerDisplayResource"], summary["totalMem"], summary["totalCpu"]) == (True, 2700, 500)
    assert (summary["availMem"], summary["availCpu"], summary["memAssignedPercentUtil"]) == (2300, 455, "14.8")
    assert (summary["totalGenerics"], summary["availGenerics"]) == ("gpu: 2", "")
    machine = rest(cluster, f"supervisor?id={with_gpu}")["supervisors"][0]
    assert (machine["totalMem"], machine["usedMem"], machine["availMem"]) == (1500, 400, 1100)
    assert (machine["usedCpu"], machine["usedGenericResources"]) == (45, "gpu: 2")
    topologies = {one["name"]: one for one in rest(cluster, "topology/summary")["topologies"]}
    assert (topologies["train"]["requestedTotalMem"], topologies["train"]["assignedTotalMem"]) == (400, 400)
    assert (topologies["more"]["requestedMemOnHeap"], topologies["more"]["assignedMemOnHeap"]) == (250, 0)
    assert topologies["more"]["requestedGenericResources"] == "gpu: 1"
    page = rest(cluster, f"topology/{topologies['train']['id']}")
    (bolt,) = page["bolts"]
    assert (bolt["requestedCpu"], bolt["requestedMemOnHeap"], bolt["requestedGenericResourcesComp"]) == (
        20,
        150,
        "gpu: 1",
    )
    assert [one["assignedMemOnHeap"] for one in page["workers"]] == [400]
    owner = rest(cluster, "owner-resources/nobody")
    assert (owner["cpuGuarantee"], owner["cpuGuaranteeRemaining"], owner["memoryGuarantee"]) == ("100", "100", "N/A")
    found = cluster.client.cluster()
    assert found.scheduler == "resource"
    assert [one.memory_mb_used for one in found.supervisors if one.presence.id == with_gpu] == [400]
    shown = console("supervisors")
    assert "45/300%" in shown and "400/1,500" in shown and "gpu: 2" in shown


@pytest.mark.long
@pytest.mark.skipif(not HAS_PROC, reason="memory is watched where there is a /proc")
def test_a_worker_beyond_its_memory_is_ended_while_its_neighbour_goes_on(cluster: DevCluster, console: Console) -> None:
    client = cluster.client
    client.submit("steady", topology(Train(), 1, 150))
    wait_until(lambda: executed(cluster, "steady") > 20, PATIENCE_S, what="the neighbour works")
    (before,) = client.describe("steady").workers
    client.submit("hog", topology(Hog(), 1, 150))

    def ended() -> str:
        return next((one.message for one in client.describe("hog").errors if "MB of memory" in one.message), "")

    wait_until(lambda: bool(ended()), PATIENCE_S, what="the hog is ended")
    message = ended()
    assert "is restarted: it uses" in message
    assert "its limit is 250 MB (what the scheduler gave its executors) with a margin of 128 MB" in message
    assert "'ticks' (1), 'work' (1)" in message
    assert "MB of memory, and its limit is 250 MB" in console("errors", "hog")
    done = executed(cluster, "steady")
    wait_until(lambda: executed(cluster, "steady") > done + 20, PATIENCE_S, what="the neighbour goes on")
    (after,) = client.describe("steady").workers
    assert after.pid == before.pid
    client.kill("hog", wait_secs=0)
    client.kill("steady", wait_secs=0)


@pytest.mark.long
def test_a_rebalance_is_placed_by_resources_and_a_change_that_does_not_fit_waits(
    cluster: DevCluster, console: Console
) -> None:
    client = cluster.client
    client.submit("grows", topology(Train(), 2, 150, gpu=1), {"topology.message.timeout.secs": 5})
    wait_until(lambda: executed(cluster, "grows") > 20, PATIENCE_S, what="it works")
    client.rebalance("grows", workers=2, wait_secs=0)
    wait_until(lambda: client.describe("grows").summary.workers_ready == 2, PATIENCE_S, what="it has two workers")
    workers = client.describe("grows").assignment.workers
    assert len({one.supervisor_id for one in workers}) == 1, "the machine with the gpus"
    assert sorted(one.memory_mb for one in workers) == [150, 250]

    client.update("grows", topology(Train(), 2, 150, gpu=2), wait_secs=0)
    sentence = "Its rebalance or update waits. None of its 3 executors has a place: they need"
    wait_until(lambda: client.describe("grows").unscheduled.startswith(sentence), PATIENCE_S, what="the update waits")
    assert "the supervisors lack 2 gpu" in console("describe", "grows")
    assert client.describe("grows").summary.workers_ready == 2, "what runs stays"
    client.rollback("grows")
    done = executed(cluster, "grows")
    wait_until(lambda: executed(cluster, "grows") > done + 20, PATIENCE_S, what="it goes on")
    assert client.describe("grows").unscheduled == ""
    client.kill("grows", wait_secs=0)
