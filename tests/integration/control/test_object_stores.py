"""States and savepoints in an object store go on through kills, other numbers of tasks, and another topology."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from counted_lines import counted_lines
from test_rebalanced_tasks import counts, has_all, stored, write

from tests.integration.control.conftest import Console
from tests.integration.state.object_servers import BUCKET, S3Server
from tests.integration.transactional.database_servers import running
from tupletree._checkpoints.forgetting import forget
from tupletree._savepoints.files import Place
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.client import StateClient
from tupletree.errors import NotFoundError
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=2, slots=2, ackers=1) as started:
        yield started


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    with running(S3Server) as server:
        yield server


@pytest.fixture
def console(
    cluster: DevCluster, s3_server: S3Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Console:
    """Commands find the store by their environment."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return Console(cluster, capsys)


def conf_of(server: S3Server, copies: Path, prefix: str) -> dict[str, Any]:
    return {
        "topology.workers": 2,
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 300,
        "topology.message.timeout.secs": 10,
        "topology.state.provider": "rocksdb",
        "topology.state.provider.config": {
            "shared": f"s3://{BUCKET}/{prefix}",
            "directory": str(copies),
            "cache_entries": 20,
            "storage_options": server.options,
            "timeout_s": 10,
        },
    }


def workers(cluster: DevCluster) -> list[Any]:
    return [one for one in cluster.processes if one.role == "worker"]


def ends(cluster: DevCluster) -> None:
    wait_until(lambda: not workers(cluster), 30, what="the workers end")


def kill_a_worker(cluster: DevCluster) -> None:
    if sys.platform == "linux":
        wait_until(lambda: workers(cluster), 60, what="workers run")
        with contextlib.suppress(IndexError, NotFoundError):
            cluster.kill("worker", 0)


def test_a_topology_has_its_states_and_savepoints_in_an_object_store(
    cluster: DevCluster, console: Console, s3_server: S3Server, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    conf = conf_of(s3_server, tmp_path / "copies", "before")
    written = write(logs)
    cluster.client.submit("lines", counted_lines(f"{logs}/*.txt"), conf)
    wait_until(lambda: stored(cluster).txid >= 1, 60, what="a checkpoint is stored")
    kill_a_worker(cluster)
    written += write(logs)
    console("rebalance", "lines", "-t", "count=3", "-w", "5")
    wait_until(lambda: stored(cluster).tasks.get("count") == 3, 60, what="the states have moved")
    kill_a_worker(cluster)
    written += write(logs)
    wait_until(lambda: has_all(cluster), 60, what="all lines are read")
    txid = stored(cluster).txid
    wait_until(lambda: stored(cluster).txid > txid + 1, 60, what="a checkpoint has all of them")
    line = "7 of 3"
    (answer,) = StateClient(cluster.client.seeds).get("lines", "count", line).entries
    assert (answer.key, answer.value) == (line, written[line])
    shown = console("config", "get", "lines")
    assert "a secret" not in shown

    kept = f"s3://{BUCKET}/savepoints/monday"
    taken = console.json("savepoint", "lines", "--to", kept)
    assert (taken["savepoint"], taken["entries"]["count"]) == (kept, len(written))
    assert f"there is a savepoint at {kept} already" in console.refusal("savepoint", "lines", "--to", kept)
    assert "Bucket 'no-such-bucket' not found" in console.run("savepoint", "lines", "--to", "s3://no-such-bucket/a")[2]
    assert "s3:/a cannot be used for a savepoint" in console.refusal("savepoint", "lines", "--to", "s3:/a")
    cluster.client.kill("lines", wait_secs=0)
    ends(cluster)
    assert sum(counts(conf, stored(cluster)), Counter()) == written

    other = conf_of(s3_server, tmp_path / "copies", "after")
    topology = counted_lines(f"{logs}/*.txt", counters=4)
    cluster.client.submit("lines", topology, other, from_savepoint=kept)
    kill_a_worker(cluster)
    written += write(logs)
    wait_until(lambda: stored(cluster).tasks.get("count") == 4, 60, what="the states are restored")
    wait_until(lambda: has_all(cluster), 60, what="all lines are read")
    end = f"s3://{BUCKET}/savepoints/tuesday"
    console("savepoint", "lines", "--to", end, "--kill")
    ends(cluster)
    assert sum(counts(other, stored(cluster)), Counter()) == written
    assert Place(end).read_manifest().components["count"].entries == len(written)


def test_a_topology_goes_on_when_its_object_store_was_killed(
    cluster: DevCluster, console: Console, tmp_path: Path
) -> None:
    with running(S3Server) as server:
        logs = tmp_path / "logs"
        logs.mkdir()
        conf = conf_of(server, tmp_path / "copies", "killed")
        with contextlib.closing(open_store(cluster.conf)) as store:
            forget(store, "lines")  # those of the test before
        written = write(logs)
        cluster.client.submit("lines", counted_lines(f"{logs}/*.txt"), conf)
        wait_until(lambda: stored(cluster).txid >= 2, 60, what="a checkpoint is stored")
        server.stop()
        written += write(logs)
        away = "the object store s3://"
        wait_until(lambda: away in console("errors", "lines"), 60, what="the errors say that the store is away")
        server.start()
        wait_until(lambda: has_all(cluster), 60, what="all lines are read")
        console("savepoint", "lines", "--to", tmp_path / "kept", "--kill")
        ends(cluster)
        assert sum(counts(conf, stored(cluster)), Counter()) == written
