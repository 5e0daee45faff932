"""A shuffle that prefers the tasks in its own worker, on a cluster with two workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import near_topology
import pytest

from tupletree.testing import DevCluster, wait_until

PATIENCE_S = 60
CONF = {
    "topology.workers": 2,
    "topology.max.spout.pending": 200,
    "topology.localityaware.higher.wait.secs": 4.0,  # no stall of the machine counts as much
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2) as running:
        yield running


def test_near_tasks_get_the_tuples_until_these_wait_long(cluster: DevCluster, tmp_path: Path) -> None:
    def noted(where: str) -> int:
        return len((tmp_path / where).read_text()) if (tmp_path / where).exists() else 0

    (tmp_path / "wanted").write_text("500")
    topology = near_topology.topology(str(tmp_path))
    cluster.client.submit("near", topology, CONF, [Path(near_topology.__file__)])
    wait_until(lambda: noted("near") + noted("far") == 500, PATIENCE_S, what="all numbers are noted")
    assert (noted("near"), noted("far")) == (500, 0)

    (tmp_path / "slow").touch()
    (tmp_path / "wanted").write_text("1000000")
    wait_until(lambda: noted("far") >= 100, PATIENCE_S, what="the other worker gets what the near task cannot take")
    cluster.client.kill("near", 0)
