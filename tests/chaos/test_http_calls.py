"""An AsyncBolt and a real HTTP server: a worker killed with -9 under load, and a server that hangs."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from calling_topology import calling_topology
from poison_topology import lines_of

from bench._http_calls import serving
from tupletree.testing import DevCluster, wait_until

TIMEOUT_S = 4
HANGS_S = 3 * TIMEOUT_S
PENDING = 1_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=1, slots=2, ackers=1) as running:
        yield running


def answered(directory: Path) -> Counter[int]:
    return Counter(int(line[0]) for line in lines_of(directory, "answered"))


@pytest.mark.long
def test_no_call_is_lost_with_its_worker(cluster: DevCluster, tmp_path: Path) -> None:
    limit = 30_000
    with serving(0.05) as (port, _):
        conf = {"topology.workers": 2, "topology.max.spout.pending": PENDING}
        cluster.client.submit("killed", calling_topology(tmp_path, port, limit), conf)
        for share in (0.1, 0.3):
            wait_until(lambda share=share: len(answered(tmp_path)) > share * limit, 60, what="it gets on")
            wait_until(lambda: [one for one in cluster.processes if one.role == "worker"], 30, what="a worker runs")
            cluster.kill("worker", 0)
        wait_until(lambda: len(answered(tmp_path)) == limit, 60, what="all are answered")
        cluster.client.kill("killed", wait_secs=0)
        wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 30, what="its workers end")


@pytest.mark.long
def test_a_server_that_hangs_holds_the_spout_back_and_nothing_times_out(cluster: DevCluster, tmp_path: Path) -> None:
    limit = 8_000
    with serving(0.05) as (port, server):
        conf = {"topology.message.timeout.secs": TIMEOUT_S, "topology.max.spout.pending": PENDING}
        cluster.client.submit("hangs", calling_topology(tmp_path, port, limit), conf)
        wait_until(lambda: len(answered(tmp_path)) > 500, 60, what="it gets on")
        os.kill(server, signal.SIGSTOP)
        try:
            time.sleep(HANGS_S)
            before = len(answered(tmp_path))
            assert before < limit, "the server hung too late to show anything"
        finally:
            os.kill(server, signal.SIGCONT)
        wait_until(lambda: len(answered(tmp_path)) == limit, 60, what="all are answered")
        assert set(answered(tmp_path).values()) == {1}  # what had timed out would have been called again
        cluster.client.kill("hangs", wait_secs=0)
        wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 30, what="its workers end")
