"""What operators are told of workers that die or are missing, and of a kill or rebalance that waits."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest
import told_topologies
from told_harness import Reader, one_line
from told_topologies import PENDING

from tests.integration.control.conftest import Console
from tupletree import TopologyStatus
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly

NAMES = ("idle", "waits", "dies")
PATIENCE_S = 90
AT_MOST = r"at most (10m|9m)( \d+s)?"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=len(NAMES)) as running:
        running.client.submit("idle", told_topologies.idle())
        running.client.submit("waits", *told_topologies.waits())
        running.client.submit("dies", told_topologies.dies())
        for name in NAMES:
            wait_until(lambda name=name: ready(running, name) == 1, PATIENCE_S, what=f"the worker of {name} is ready")
        yield running


def ready(cluster: DevCluster, name: str) -> int:
    return cluster.client.describe(name).summary.workers_ready


@pytest.fixture
def reader(cluster: DevCluster, capsys: pytest.CaptureFixture[str]) -> Reader:
    return Reader(cluster, Console(cluster, capsys))


def kill_worker(cluster: DevCluster, name: str) -> None:
    """Kill its worker, and wait for the next one."""
    (before,) = cluster.client.describe(name).workers
    os.kill(before.pid, signal.SIGKILL)

    def is_replaced() -> bool:
        (now,) = cluster.client.describe(name).workers
        return now.ready and now.pid not in (0, before.pid)

    wait_until(is_replaced, PATIENCE_S, what="the next worker is ready")


def test_deaths_in_a_row_are_one_error_with_a_count_and_are_not_over(cluster: DevCluster, reader: Reader) -> None:
    for _ in range(3):
        kill_worker(cluster, "dies")
    reason = reader.reason("dies", "worker.crash_loop")
    assert reason["severity"] == "degraded"
    assert "died 3 times in a row: " in reason["sentence"]
    told = reader.offered(reason)
    (error,) = reader.console.json("errors", "dies")
    (shown,) = reader.page("dies")["topologyErrors"]
    reasons = reader.reasons("dies")
    assert "worker.crash_loop" in {one["kind"] for one in reasons}  # still, so what was read between is of that time
    assert "over" not in told
    assert (error["is_over"], shown["isOver"]) == (False, False)
    assert (error["count"], shown["times"]) == (3, 3)
    assert error["first_unix_s"] < error["at_unix_s"]
    assert shown["firstErrorTime"] < shown["time"]
    assert re.search(r" 3 times since \S+( \S+)?: the worker on port \d+ died: killed by SIGKILL", told), told
    assert not any("just submitted" in one["sentence"] for one in reasons)


def test_a_dead_worker_is_not_said_to_be_just_submitted(cluster: DevCluster, reader: Reader) -> None:
    cluster.client.kill("dies", wait_secs=0)
    wait_until(lambda: "dies" not in {one.record.name for one in cluster.client.list()}, what="it is gone")
    cluster.client.submit("dies", told_topologies.starts_slowly())
    wait_until(lambda: ready(cluster, "dies") == 1, PATIENCE_S, what="its worker is ready")
    kill_worker(cluster, "dies")
    (before,) = cluster.client.describe("dies").workers
    os.kill(before.pid, signal.SIGKILL)  # the second in a row: the next worker starts a second later
    reason = reader.reason("dies", "topology.starting", "topology.workers_not_ready")
    assert reason["kind"] == "topology.workers_not_ready"
    assert re.search(r"has 0 of 1 workers ready: a worker died [12] times? in a row", reason["sentence"])


def test_a_rebalance_with_nothing_pending_does_not_wait(cluster: DevCluster, reader: Reader) -> None:
    wait_until(lambda: reader.component("idle", "numbers")["acked"] == 3, what="all that it emits is acked")
    told = reader.console("rebalance", "idle", "--wait", "600")
    assert re.match(rf"idle is rebalancing: waiting for .*, {AT_MOST}\n", told), told

    def is_over() -> bool:
        return cluster.client.describe("idle").summary.record.status == TopologyStatus.ACTIVE

    wait_until(is_over, what="the rebalance is over")


def test_a_configuration_key_is_refused_by_a_rebalance(reader: Reader) -> None:
    told = reader.console.refusal("rebalance", "idle", "-c", "topology.max.spout.pending=77")
    assert "'topology.max.spout.pending' configures a topology" in told
    assert "'tupletree config set NAME topology.max.spout.pending=VALUE'" in told
    assert reader.console.json("describe", "idle")["status"] == "active"


def test_workers_that_are_missing_are_told(cluster: DevCluster, reader: Reader) -> None:
    told = reader.console("rebalance", "idle", "-n", "9", "--wait", "0")
    assert (
        "idle will have 1 of 9 workers: the cluster has 3 slots, 0 of them free; start more supervisors, or ask for "
        "fewer workers\n"
    ) in told
    reason = reader.reason("idle", "topology.unscheduled")
    missing = "It has 1 of 9 workers: no slot is free."
    assert reason["sentence"] == f"topology 'idle' is not fully scheduled: {missing}"
    assert reader.verdict()["verdict"] == "degraded"
    assert reader.offered(reason)
    described = reader.console("describe", "idle")
    assert f"not fully scheduled: {missing}\n" in described
    assert "and 9 wanted" in described
    reader.page_as("idle", schedulerInfo=missing, workersWanted=9, workersTotal=1)
    (listed,) = [one for one in reader.rest("topology/summary")["topologies"] if one["name"] == "idle"]
    assert listed["schedulerInfo"] == missing


def test_a_kill_with_nothing_pending_does_not_wait(cluster: DevCluster, reader: Reader) -> None:
    wait_until(lambda: ready(cluster, "idle") == 1, PATIENCE_S, what="its worker is ready")
    wait_until(lambda: reader.component("idle", "numbers")["pending"] == 0, what="nothing is pending")
    told = reader.console("kill", "idle", "--wait", "600")
    assert re.match(rf"idle is killed: waiting for .*, {AT_MOST}\n", told), told
    wait_until(lambda: "idle" not in {one.record.name for one in cluster.client.list()}, what="it is gone")


def test_what_a_kill_or_rebalance_waits_for_is_told(cluster: DevCluster, reader: Reader) -> None:
    wait_until(lambda: reader.component("waits", "numbers")["pending"] == PENDING, 30, what="all trees are pending")
    for command, status in (("rebalance", "rebalancing"), ("kill", "killed")):
        waited = rf"waiting for {PENDING} tuple trees or tuples in flight, {AT_MOST}"
        told = reader.console(command, "waits", "--wait", "600")
        assert re.match(rf"waits is {status}: {waited}\n", told), told
        assert re.search(waited, one_line(reader.console("describe", "waits")))
        assert reader.console.json("describe", "waits")["pending"]["unfinished"] == PENDING
        page = reader.page_as("waits", status=status.upper(), pendingUnfinished=PENDING)
        assert page["pendingDueUnixSeconds"] > 0
    cluster.client.kill("waits", wait_secs=0)
