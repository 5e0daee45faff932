"""Workers of a real cluster in control groups: the kernel ends one beyond its memory, and its neighbour goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.control.conftest import Console
from tests.integration.resources.test_resource_cluster import Ticks, Train
from tests.integration.supervisor.memory_groups import memory_group
from tupletree import BasicBolt, Topology, TopologyBuilder
from tupletree.testing import DevCluster, wait_until

PATIENCE_S = 60


class FillFile(BasicBolt):
    """Writes up to a gigabyte to a file in memory, which is nobody's resident memory."""

    def prepare(self, conf, context):
        self.file = os.memfd_create("filled")

    def execute(self, tup, collector):
        if os.fstat(self.file).st_size < 1_000_000_000:
            os.write(self.file, b"x" * 50_000_000)


def topology(bolt: BasicBolt) -> Topology:
    builder = TopologyBuilder()
    ticks = builder.set_spout("ticks", Ticks()).set_cpu_load(5).set_memory_load(100)
    builder.set_bolt("work", bolt).shuffle_grouping(ticks).set_cpu_load(20).set_memory_load(150)
    return builder.create_topology()


@pytest.fixture(scope="module")
def group() -> Iterator[Path]:
    with memory_group() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(group: Path) -> Iterator[DevCluster]:
    conf = {
        "nimbus.scheduler": "resource",
        "supervisor.cgroup.use": "required",
        "supervisor.cgroup.root": f"/{group.name}",
        "supervisor.memory.capacity.mb": 1200,
    }
    with DevCluster(supervisors=1, slots=2, conf=conf) as running:
        yield running


def executed(cluster: DevCluster, name: str) -> int:
    return next(one.total.executed for one in cluster.client.describe(name).components if one.component_id == "work")


def own_group(group: Path, pid: int) -> Path:
    return group / Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition("/")[2]


def test_the_kernel_ends_a_worker_that_the_watch_does_not_see_while_its_neighbour_goes_on(
    cluster: DevCluster, group: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client, console = cluster.client, Console(cluster, capsys)
    client.submit("steady", topology(Train()))
    wait_until(lambda: executed(cluster, "steady") > 20, PATIENCE_S, what="the neighbour works")
    (before,) = client.describe("steady").workers
    files = own_group(group, before.pid)
    assert (files / "memory.max").read_text().strip() == str((250 + 128) * 1024 * 1024)
    assert (files / "cpu.weight").read_text().strip() == "25"

    client.submit("filler", topology(FillFile()))

    def ended() -> str:
        return next((one.message for one in client.describe("filler").errors if "MB of memory" in one.message), "")

    message = wait_until(ended, PATIENCE_S, what="the filler is ended")
    assert "the kernel ended it with its children, as they needed more than 378 MB of memory" in message
    assert "its limit is 250 MB (what the scheduler gave its executors) with a margin of 128 MB" in message
    assert "'ticks' (1), 'work' (1)" in message
    assert "the kernel ended it with its children" in console("errors", "filler")
    done = executed(cluster, "steady")
    wait_until(lambda: executed(cluster, "steady") > done + 20, PATIENCE_S, what="the neighbour goes on")
    (after,) = client.describe("steady").workers
    assert after.pid == before.pid
    assert [one.presence.cgroups for one in client.cluster().supervisors] == [True]
    assert "cgroups" in console("supervisors") and "yes" in console("supervisors")

    client.kill("filler", wait_secs=0)
    client.kill("steady", wait_secs=0)
    wait_until(lambda: not any(one.is_dir() for one in group.iterdir()), PATIENCE_S, what="the groups are removed")
