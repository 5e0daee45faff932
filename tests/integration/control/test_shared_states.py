"""States in a shared directory go to other tasks, to other code and to other machines, exactly once."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import updated_lines
from test_rebalanced_tasks import stored
from test_updated_topology import Scene

from tests.integration.control.conftest import Console
from tupletree._checkpoints.places import namespace_of
from tupletree.state.names import readable_name
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=2, slots=2, ackers=1) as running:
        yield running


@pytest.mark.nightly
def test_states_in_a_shared_directory_go_on_with_other_tasks_and_other_code(
    cluster: DevCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    console = Console(cluster, capsys)
    scene = Scene(cluster, console, tmp_path)
    shared, copies = tmp_path / "shared", tmp_path / "copies"
    shared.mkdir()
    scene.conf |= {
        "topology.state.provider": "rocksdb",
        "topology.state.provider.config": {"shared": str(shared), "directory": str(copies), "cache_entries": 20},
    }
    scene.write()
    console("submit", *scene.source(updated_lines.first(scene.files)), "--name", "lines")
    scene.counts_all()
    console("rebalance", "lines", "-t", "count=3", "-w", "5")
    wait_until(lambda: stored(cluster).tasks["count"] == 3, 60, what="the states have moved")
    before = [shared / readable_name(namespace_of("lines", "count", index, 2, 0)) for index in range(2)]
    wait_until(lambda: not any(path.exists() for path in before), 60, what="those of before are removed")
    scene.write()
    if sys.platform == "linux":
        with contextlib.suppress(IndexError):
            cluster.kill("worker", 0)
    scene.counts_all()
    console("update", "lines", *scene.source(updated_lines.second(scene.files)), "--drop-state", "total", "--wait", 5)
    scene.write()
    scene.counts_all()
    checkpoint = stored(cluster)
    names = {
        readable_name(namespace_of("lines", "count", index, checkpoint.tasks["count"], checkpoint.layouts["count"]))
        for index in range(checkpoint.tasks["count"])
    }
    assert sum(scene.ended(), Counter()) == scene.written
    assert names == {path.name for path in shared.iterdir() if path.name.startswith("lines-count")}
