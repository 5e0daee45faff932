"""A topology that has machines to itself, under the even scheduler, on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.control.conftest import Console
from tests.integration.resources.test_constrained_cluster_placement import PATIENCE_S, is_ready, rest, submit
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly

CONF = {"isolation.scheduler.machines": {"own": 2, "large": 3}, "nimbus.monitor.freq.secs": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=3, slots=2, conf=CONF) as running:
        yield running


def machines_of(cluster: DevCluster, name: str) -> set[str]:
    assignment = cluster.client.describe(name).assignment
    return {one.supervisor_id for one in assignment.workers} if assignment is not None else set()


def test_an_isolated_topology_has_its_machines_to_itself(
    cluster: DevCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    client, console = cluster.client, Console(cluster, capsys)
    submit(cluster, "other", 3, 3, {"topology.spread.components": ["work"]})
    wait_until(lambda: is_ready(cluster, "other", 3), PATIENCE_S, what="it runs on all machines")
    assert len(machines_of(cluster, "other")) == 3
    notes = [one.sentence for one in client.health().notes]
    assert "topology 'other': nimbus.scheduler even does not follow topology.spread.components" in notes

    submit(cluster, "own", 2, 2, {})
    wait_until(lambda: is_ready(cluster, "own", 2), PATIENCE_S, what="the others have left, and it runs")
    assert len(machines_of(cluster, "own")) == 2 and not machines_of(cluster, "own") & machines_of(cluster, "other")
    wait_until(lambda: is_ready(cluster, "other", 2), PATIENCE_S, what="the others run on the third machine")
    sentence = (
        "It has 2 of 3 workers: no other slot is free on the machines that isolated topologies leave "
        "(isolation.scheduler.machines)."
    )
    assert client.describe("other").unscheduled == sentence
    assert sentence in console("describe", "other")
    summary = rest(cluster, "supervisor/summary")["supervisors"]
    kept = {one["id"] for one in summary if one["isolatedTopology"] == "own"}
    assert kept == machines_of(cluster, "own")
    assert console("supervisors").count("is kept for topology 'own'") == 2

    submit(cluster, "large", 2, 2, {})
    lacks = "It has 1 of 3 machines of its own (isolation.scheduler.machines): no other registered machine is left."
    wait_until(lambda: client.describe("large").unscheduled == lacks, PATIENCE_S, what="what is missing is told")
    wait_until(lambda: is_ready(cluster, "large", 2), PATIENCE_S, what="it runs on what is there")
    assert lacks in " ".join(one.sentence for one in client.health().faults)
    assert machines_of(cluster, "other") == set(), "it waits"
    client.kill("own", wait_secs=0)
    wait_until(
        lambda: len(machines_of(cluster, "large")) == 2, PATIENCE_S, what="it gets the machines that are free now"
    )
