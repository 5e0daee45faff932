"""One cluster for all tests of bad input; after each of them it must be as well as before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from badinput_harness import STEADY, CommandLine, steady_topology

from tupletree.testing import DevCluster, wait_until

SLOTS = 14


@pytest.fixture(scope="package")
def acks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that grows by a byte with every ack of the steady topology."""
    return tmp_path_factory.mktemp("steady") / "acks"


@pytest.fixture(scope="package")
def cluster(acks: Path) -> Iterator[DevCluster]:
    with DevCluster(slots=SLOTS, ackers=1) as running:
        running.client.submit(STEADY, steady_topology(acks))
        wait_until(lambda: acks.exists() and acks.stat().st_size, 60, what="the steady topology acks")
        yield running


@pytest.fixture(autouse=True)
def as_well_as_before(cluster: DevCluster, acks: Path) -> Iterator[None]:
    """Daemons, the steady topology and its worker outlive every test, and its tuples are acked afterwards."""

    def alive() -> set[int]:
        return {p.pid for p in cluster.processes if p.role != "worker" or p.topology_id.startswith(f"{STEADY}-")}

    before = alive()
    yield
    assert alive() == before
    assert STEADY in {summary.record.name for summary in cluster.client.list()}
    acked = acks.stat().st_size
    wait_until(lambda: acks.stat().st_size > acked + 3, 20, what="the steady topology still acks")


@pytest.fixture(scope="package")
def common_cli(cluster: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A command line whose directory outlives the tests."""
    return CommandLine(tmp_path_factory.mktemp("commands"), cluster.client.seeds[0])


@pytest.fixture
def cli(cluster: DevCluster, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, cluster.client.seeds[0])
