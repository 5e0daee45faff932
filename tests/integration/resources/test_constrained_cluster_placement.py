"""Constraints, racks and favored machines under the resource scheduler, and isolation, on real clusters."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.integration.control.conftest import Console
from tests.integration.resources.test_resource_cluster import Ticks, Train
from tupletree import Topology, TopologyBuilder
from tupletree.errors import UsageError
from tupletree.parallelism import tasks_of_record
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly

PATIENCE_S = 60
RACKS = {"m-a": "r1", "m-b": "r2", "m-c": "r1"}
MACHINES = [
    {
        "supervisor.id": one,
        "supervisor.rack": rack,
        "supervisor.memory.capacity.mb": 4000,
        "supervisor.cpu.capacity": 900,
    }
    for one, rack in RACKS.items()
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    conf = {"nimbus.scheduler": "resource", "nimbus.monitor.freq.secs": 1}
    with DevCluster(supervisors=3, slots=2, conf=conf, supervisor_confs=MACHINES) as running:
        yield running


@pytest.fixture
def console(cluster: DevCluster, capsys: pytest.CaptureFixture[str]) -> Console:
    return Console(cluster, capsys)


def topology(executors: int) -> Topology:
    builder = TopologyBuilder()
    ticks = builder.set_spout("ticks", Ticks()).set_memory_load(100)
    builder.set_bolt("work", Train(), executors).shuffle_grouping(ticks).set_memory_load(100)
    return builder.create_topology()


def executors_of(cluster: DevCluster, name: str, component: str) -> Counter[str]:
    """The executors of a component by supervisor."""
    described = cluster.client.describe(name)
    assert described.assignment is not None
    tasks = tasks_of_record(described.summary.record.raw)[component]
    return Counter(
        worker.supervisor_id
        for worker in described.assignment.workers
        for run in worker.executors
        if run.first_task in tasks
    )


def is_ready(cluster: DevCluster, name: str, workers: int) -> bool:
    summary = cluster.client.describe(name).summary
    return summary.workers_ready == workers


def submit(cluster: DevCluster, name: str, executors: int, workers: int, conf: Mapping[str, Any]) -> None:
    cluster.client.submit(name, topology(executors), conf={**conf, "topology.workers": workers})


@pytest.fixture(autouse=True)
def no_topologies_left(cluster: DevCluster) -> Iterator[None]:
    yield
    for one in cluster.client.list():
        cluster.client.kill(one.record.name, wait_secs=0)
    wait_until(lambda: not cluster.client.list(), PATIENCE_S, what="all are gone")


def rest(cluster: DevCluster, path: str) -> Any:
    address = next(one.presence.http_address for one in cluster.client.cluster().nimbuses if one.leader)
    with urllib.request.urlopen(f"http://{address}/api/v1/{path}", timeout=10) as reply:
        return json.load(reply)


def test_a_spread_component_is_on_each_machine_once_and_what_has_no_place_is_told(
    cluster: DevCluster, console: Console
) -> None:
    client = cluster.client
    submit(cluster, "spread", 2, 2, {"topology.spread.components": ["work"]})
    wait_until(lambda: is_ready(cluster, "spread", 2), PATIENCE_S, what="it runs")
    placed = executors_of(cluster, "spread", "work")
    assert set(placed.values()) == {1} and {RACKS[one] for one in placed} == {"r1", "r2"}, "over racks first"

    client.rebalance("spread", executors={"work": 2}, workers=3, wait_secs=0)
    wait_until(lambda: is_ready(cluster, "spread", 3), PATIENCE_S, what="it is rebalanced")
    assert set(executors_of(cluster, "spread", "work").values()) == {1}
    client.kill("spread", wait_secs=0)

    submit(cluster, "wide", 4, 4, {"topology.spread.components": ["work"]})
    sentence = (
        "None of its 5 executors has a place: component 'work' may have 1 executor on a machine "
        "(topology.spread.components), so the machines with room and a free slot take 3 of 4."
    )
    wait_until(lambda: client.describe("wide").unscheduled == sentence, PATIENCE_S, what="the constraint is named")
    assert sentence in console("describe", "wide")
    assert sentence in " ".join(one.sentence for one in client.health().faults)


def test_components_that_may_not_share_a_worker_do_not(cluster: DevCluster) -> None:
    submit(cluster, "apart", 2, 1, {"topology.ras.constraints": {"ticks": {"incompatibleComponents": ["work"]}}})
    wait_until(lambda: is_ready(cluster, "apart", 2), PATIENCE_S, what="it runs in two workers")
    assert len(executors_of(cluster, "apart", "work")) == 1 == len(executors_of(cluster, "apart", "ticks"))


def test_a_topology_stays_in_a_rack_and_goes_where_it_is_favored(cluster: DevCluster, console: Console) -> None:
    assert {one.presence.id: one.presence.rack for one in cluster.client.cluster().supervisors} == RACKS
    shown = console("supervisors")
    assert "rack" in shown and "r2" in shown
    assert {one["id"]: one["rack"] for one in rest(cluster, "supervisor/summary")["supervisors"]} == RACKS

    submit(cluster, "packed", 4, 4, {})
    wait_until(lambda: is_ready(cluster, "packed", 4), PATIENCE_S, what="it runs")
    assert set(executors_of(cluster, "packed", "work")) == {"m-a", "m-c"}, "the rack with the most room"
    submit(cluster, "favored", 1, 1, {"topology.scheduler.favored.nodes": ["m-b"]})
    wait_until(lambda: is_ready(cluster, "favored", 1), PATIENCE_S, what="it runs")
    assert set(executors_of(cluster, "favored", "work")) == {"m-b"}


def test_a_constraint_on_a_component_that_is_not_there_is_refused(cluster: DevCluster) -> None:
    with pytest.raises(UsageError, match=r"topology.spread.components names component 'wrok', .*did you mean 'work'\?"):
        submit(cluster, "wrong", 1, 1, {"topology.spread.components": ["wrok"]})
