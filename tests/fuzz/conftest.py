"""One cluster for all fuzzing: a steady topology that must go on, and one that inputs may do anything to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fuzz_topologies import STEADY, VICTIM, steady_topology, victim_topology

from tupletree.testing import DevCluster, ProcessInfo, wait_until

CONF = {"topology.workers": 2, "topology.message.timeout.secs": 3}
"""What inputs leave in a ledger goes within a few seconds, so that memory shows whether it does."""


@pytest.fixture(scope="package")
def acks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that grows by a byte with every ack of the steady topology."""
    return tmp_path_factory.mktemp("fuzz") / "acks"


@pytest.fixture(scope="package")
def cluster(acks: Path) -> Iterator[DevCluster]:
    namespaces = {"orders": {"timeout_s": 3, "max_open_trees": 50}}
    with DevCluster(slots=6, ackers=1, conf={"acker.trees.namespaces": namespaces}) as running:
        running.client.submit(STEADY, steady_topology(acks), CONF)
        running.client.submit(VICTIM, victim_topology())
        wait_until(lambda: acks.exists() and acks.stat().st_size, 60, what="the steady topology acks")
        wait_until(lambda: all(s.workers_ready == s.workers_used for s in running.client.list()), 60)
        yield running


@pytest.fixture(scope="package")
def words(cluster: DevCluster) -> Mapping[str, list[Any]]:
    """What means something to the cluster, by the names of fields."""
    steady, victim = (cluster.client.describe(name) for name in (STEADY, VICTIM))
    record = steady.summary.record
    workers = list(steady.workers)
    return {
        "name": [VICTIM],
        "namespace": ["orders"],
        "topology_id": [record.id, victim.summary.record.id],
        "worker_id": [one.worker_id for one in workers],
        "from_worker_id": [one.worker_id for one in workers],
        "to_worker_id": [one.worker_id for one in workers],
        "supervisor_id": [one.supervisor_id for one in steady.assignment.workers],
        "component_id": ["ticks", "swallow"],
        "component": ["ticks", "swallow", ""],
        "stream": ["default"],
        "shard": [0, 1],
        "shards": [record.acker_shards],
        "tasks": [1, 2, 3],
        "target_task": [1, 2, 3],
        "source_task": [1, 2, 3],
        "task_id": [1, 2, 3],
        "sequence": [1, 2],
        "rows": [1, 2],
        "values": [b"\x91\x91\x01", b"\x91\x92\x01\x02"],
        "message_timeout_s": [CONF["topology.message.timeout.secs"]],
        "sha256": [record.bundle_sha256],
        "epoch": [steady.assignment.epoch],
        "conf_json": ["{}"],
    }


@pytest.fixture(autouse=True)
def as_well_as_before(cluster: DevCluster, acks: Path) -> Iterator[None]:
    """Daemons and the steady topology's workers outlive every test, log no traceback, and tuples are acked after it."""

    def alive() -> dict[int, ProcessInfo]:
        mine = (p for p in cluster.processes if p.role != "worker" or p.topology_id.startswith(f"{STEADY}-"))
        return {process.pid: process for process in mine}

    def tracebacks() -> dict[str, int]:
        return {p.log_path: Path(p.log_path).read_text(errors="replace").count("Traceback") for p in before.values()}

    before = alive()
    logged = tracebacks()
    yield
    assert alive().keys() == before.keys()
    assert tracebacks() == logged
    acked = acks.stat().st_size
    wait_until(lambda: acks.stat().st_size > acked + 3, 30, what="the steady topology still acks")


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner
