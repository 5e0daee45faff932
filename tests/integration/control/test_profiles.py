"""Where a worker spends its time, on a real cluster: seen from outside, in each format."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import spinning_topology

from tests.integration.control.conftest import Console
from tupletree.testing import DevCluster, wait_until


@pytest.fixture(scope="module")
def spinning() -> Iterator[DevCluster]:
    with DevCluster(supervisors=1, slots=1) as cluster:
        cluster.client.submit("spinning", spinning_topology.topology())
        wait_until(lambda: cluster.client.describe("spinning").summary.workers_ready == 1, 90)
        yield cluster


@pytest.mark.parametrize(("kind", "begins"), [("flamegraph", b"<?xml"), ("speedscope", b"{"), ("raw", b"")])
def test_a_worker_is_profiled(
    spinning: DevCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str, begins: bytes
) -> None:
    path = tmp_path / "profile"
    told = Console(spinning, capsys).json("profile", "spinning", "--seconds", "1", "--format", kind, "-o", path)
    data = path.read_bytes()
    assert (told["bytes"], told["file"]) == (len(data), str(path))
    assert data.startswith(begins)
    assert b"spin_here" in data
    assert os.listdir(tmp_path) == ["profile"]
