"""Components in other languages on a cluster: their programs travel with the topology and end with its workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from multilang_programs import NUMBERS_PY, SPLIT_PY, STORM_PY

from tupletree import TopologyBuilder
from tupletree.multilang import ShellBolt, ShellSpout
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long


@pytest.fixture
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=1, ackers=1) as running:
        yield running


def children(cluster: DevCluster) -> set[int]:
    workers = [one.pid for one in cluster.processes if one.role == "worker"]
    found: set[int] = set()
    for pid in workers:
        try:
            found |= {one.pid for one in psutil.Process(pid).children(recursive=True)}
        except psutil.NoSuchProcess:
            continue
    return found


def test_programs_travel_with_the_topology_and_end_with_its_worker(cluster: DevCluster, tmp_path: Path) -> None:
    resources = tmp_path / "resources"
    resources.mkdir()
    (resources / "storm.py").write_text(STORM_PY)
    (resources / "emit_lines.py").write_text(NUMBERS_PY.replace('"tuple": [count]', '"tuple": ["line %d" % count]'))
    (resources / "split.py").write_text(SPLIT_PY)
    (resources / "stuck.py").write_text(STORM_PY + "import time; time.sleep(3600)")
    builder = TopologyBuilder()
    streams = {"default": ["line"], "never": ["line"]}
    builder.set_spout("lines", ShellSpout([sys.executable, "emit_lines.py", "1000000"], streams))
    builder.set_bolt("stuck", ShellBolt([sys.executable, "stuck.py"], [])).shuffle_grouping("lines", "never")
    bolt = ShellBolt([sys.executable, "split.py"], {"default": ["word"], "lengths": ["n"]}, direct={"direct": ["line"]})
    builder.set_bolt("split", bolt, 2).shuffle_grouping("lines")
    conf = {"topology.max.spout.pending": 50, "topology.subprocess.timeout.secs": 600}
    cluster.client.submit("words", builder.create_topology(), conf, [resources])

    def acked() -> int:
        found = cluster.client.describe("words").components
        return sum(int(one.total.acked) for one in found if one.component_id == "lines")

    wait_until(lambda: acked() > 100, 60, what="lines are acked")
    before = children(cluster)
    assert len(before) == 4
    cluster.kill("worker", 0)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in before), 30, what="the processes end with the worker")
    again = wait_until(lambda: len(now := children(cluster) - before) == 4 and now, 60, what="others are started")
    so_far = acked()
    wait_until(lambda: acked() > so_far + 100, 60, what="lines are acked again")
    cluster.client.kill("words", wait_secs=0)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in again), 30, what="they end with the topology")
