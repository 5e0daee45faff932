"""A cluster on several machines, which are network namespaces of this one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "chaos"))  # for numbers_topology

from spread_cluster import SpreadCluster

from tupletree._devcluster.machines import why_not
from tupletree.config import defaults

SESSION_MS = 4000
WORKER_TIMEOUT_S = 6
CONF = {
    "zookeeper.session.timeout": SESSION_MS,
    "nimbus.monitor.freq.secs": 1,
    "nimbus.task.timeout.secs": WORKER_TIMEOUT_S,
    "supervisor.worker.timeout.secs": WORKER_TIMEOUT_S,
    "supervisor.worker.shutdown.sleep.secs": 1,
    **{key: True for key in ("security.insecure",) if key in defaults()},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SpreadCluster]:
    reason = why_not()
    if reason:
        pytest.skip(f"no machines of their own: {reason}")
    running = SpreadCluster(CONF)
    try:
        yield running
    finally:
        running.close()
