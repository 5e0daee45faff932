"""A Structured Streaming query between two topologies, killed in the middle and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from streaming_topologies import exporting, ingesting, totals, truth

from tupletree.errors import NotFoundError, UsageError
from tupletree.spark.streaming import lookup
from tupletree.spark.streaming.endpoint import EXPORT, INGEST
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly  # the second test goes on with the topologies of the first

TRANSACTIONS = 60
PATIENCE_S = 240  # a query takes ten seconds to start, and many times that where other tests run


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=3) as running:
        yield running


@contextmanager
def query(nimbus: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The query in a process group of its own, with its JVM; killed at the end."""
    script = Path(__file__).with_name("streaming_query.py")
    with (directory / "query.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, script, nimbus, directory / "checkpoint"], stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def counted(directory: Path) -> int:
    """How many numbers have come through."""
    return sum(value for key, value in totals(directory).items().items() if key.endswith("count"))


def progress(process: subprocess.Popen[bytes], directory: Path, count: int) -> None:
    """Wait until so many numbers have come through; a query that ends is shown."""

    def has_come() -> bool:
        assert process.poll() is None, (directory / "query.log").read_text()
        return counted(directory) >= count

    wait_until(has_come, PATIENCE_S, what=f"{count} numbers come through")


@pytest.mark.timeout(2 * PATIENCE_S)
def test_no_row_is_lost_or_doubled_when_the_query_and_a_worker_are_killed(cluster: DevCluster, tmp_path: Path) -> None:
    limit, nimbus = tmp_path / "limit", cluster.conf["nimbus.seeds"][0]
    limit.write_text(str(TRANSACTIONS // 2))
    expected = truth(TRANSACTIONS)
    everything = sum(value for key, value in expected.items() if key.endswith("count"))
    cluster.client.submit("exporting", exporting(tmp_path), {"topology.max.spout.pending": 4})
    cluster.client.submit("ingesting", ingesting(tmp_path), {"topology.max.spout.pending": 4})

    with query(nimbus, tmp_path) as first:
        progress(first, tmp_path, everything // 6)
    limit.write_text(str(TRANSACTIONS))
    assert counted(tmp_path) < everything // 2  # it was in the middle
    cluster.kill("worker")
    with query(nimbus, tmp_path) as second:
        progress(second, tmp_path, everything)
    assert dict(totals(tmp_path).items()) == expected


def test_a_topology_that_cannot_be_read_or_fed_is_told_in_a_sentence(cluster: DevCluster) -> None:
    options = {"nimbus": cluster.conf["nimbus.seeds"][0], "topology": "exporting"}
    assert lookup.find(options, EXPORT).columns is not None
    with pytest.raises(UsageError, match="topology 'exporting' exports no stream 'x'; it exports 'numbers'"):
        lookup.find({**options, "stream": "x"}, EXPORT)
    with pytest.raises(UsageError, match="topology 'exporting' ingests no stream"):
        lookup.find(options, INGEST)
    with pytest.raises(NotFoundError, match="'nobody'"):
        lookup.find({**options, "topology": "nobody"}, EXPORT)
    pids = [one.pid for one in cluster.client.describe("exporting").workers]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # a kill waits for workers that do not say that they are done
    try:
        cluster.client.kill("exporting", wait_secs=60)
        with pytest.raises(UsageError, match="topology 'exporting' is being killed"):
            lookup.find(options, EXPORT)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
