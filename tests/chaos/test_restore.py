"""All is lost but the backup of docs/operations.md, ZooKeeper and bundles: the topology comes back."""

from __future__ import annotations

import shutil
from pathlib import Path

from numbers_topology import History, numbers_topology

from tupletree.testing import DevCluster, wait_until

CONF = {"topology.workers": 2, "topology.max.spout.pending": 200, "topology.message.timeout.secs": 10}
DAEMONS = ("nimbus", "supervisor", "acker")
LASTING = ("nimbus", "supervisor")  # those with something in local.dir


def test_a_topology_comes_back_from_zookeepers_data_and_the_bundles(tmp_path):
    numbers, backup = tmp_path / "numbers", tmp_path / "backup"
    numbers.mkdir()
    with DevCluster(slots=2) as cluster:
        zookeeper, blobs = Path(cluster.directory, "zookeeper"), Path(cluster.directory, "nimbus-0/data/nimbus/blobs")
        history = History(numbers)
        cluster.client.submit("numbers", numbers_topology(numbers), CONF)
        wait_until(lambda: len(history.acked()) >= 100, 60, what="it flows")
        shutil.copytree(zookeeper / "version-2", backup / "version-2")
        shutil.copytree(blobs, backup / "blobs")

        for role in DAEMONS:
            cluster.kill(role)
        for _ in [process for process in cluster.processes if process.role == "worker"]:
            cluster.kill("worker", 0)
        cluster.kill("zookeeper")
        assert cluster.processes == []
        shutil.rmtree(zookeeper / "version-2")
        for role in LASTING:
            shutil.rmtree(Path(cluster.directory, f"{role}-0", "data"))
        before = len(history.acked())

        shutil.copytree(backup / "version-2", zookeeper / "version-2")
        shutil.copytree(backup / "blobs", blobs)
        cluster.restart("zookeeper")
        for role in DAEMONS:
            cluster.restart(role)
        wait_until(lambda: len(history.acked()) >= before + 100, 90, what="it flows again")
        history.stop()
        wait_until(history.is_complete, 60, what="everything is acked")
        history.check()
