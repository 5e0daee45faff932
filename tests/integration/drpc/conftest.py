"""A real DRPC server, and a topology that answers at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from drpc_by_hand import Topology
from drpc_harness import DrpcProcess

from tupletree._rpc.channels import channel


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DrpcProcess]:
    with DrpcProcess(tmp_path / "first") as process:
        yield process


@pytest.fixture
def topology(server: DrpcProcess) -> Iterator[Topology]:
    with channel(server.address) as opened:
        topology = Topology(opened)
        yield topology
        topology.close()
