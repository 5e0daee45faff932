"""A machine whose supervisor is lost gets no new workers, until topologies lack room without it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from tests.integration.control.conftest import Console
from tests.integration.resources.test_resource_cluster import Ticks, Train
from tupletree import Topology, TopologyBuilder
from tupletree.client import SupervisorSummary
from tupletree.testing import DevCluster, wait_until

PATIENCE_S = 60
CONF = {"blacklist.scheduler.tolerance.count": 1, "nimbus.monitor.freq.secs": 1}
WHY = "it gets no new workers for 1800 s after 1 failure within 300 s: its supervisor was lost"


@pytest.fixture(scope="module", params=["even", "resource"])
def cluster(request: pytest.FixtureRequest) -> Iterator[DevCluster]:
    large = {"supervisor.memory.capacity.mb": 1500, "supervisor.cpu.capacity": 300}
    conf = {**CONF, "nimbus.scheduler": request.param}
    with DevCluster(supervisors=2, slots=2, conf=conf, supervisor_confs=[large, large]) as running:
        yield running


def topology(executors: int) -> Topology:
    builder = TopologyBuilder()
    ticks = builder.set_spout("ticks", Ticks()).set_memory_load(100)
    builder.set_bolt("work", Train(), executors).shuffle_grouping(ticks).set_memory_load(500)
    return builder.create_topology()


def listed(cluster: DevCluster) -> list[SupervisorSummary]:
    return [one for one in cluster.client.cluster().supervisors if one.blacklisted]


def machines(cluster: DevCluster, name: str) -> set[str]:
    assignment = cluster.client.describe(name).assignment
    return {one.supervisor_id for one in assignment.workers} if assignment is not None else set()


def rest(cluster: DevCluster, path: str) -> str:
    address = next(one.presence.http_address for one in cluster.client.cluster().nimbuses if one.leader)
    with urllib.request.urlopen(f"http://{address}/{path}", timeout=10) as reply:
        return str(reply.read().decode())


@pytest.mark.nightly
def test_a_lost_machine_is_avoided_and_released_for_lack_of_room(
    cluster: DevCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    client = cluster.client
    seen = "tupletree_nimbus_supervisors 2.0"
    wait_until(lambda: seen in rest(cluster, "metrics"), PATIENCE_S, what="the leader knows of both machines")
    cluster.restart("supervisor", 0)
    wait_until(lambda: len(listed(cluster)) == 1, PATIENCE_S, what="the machine is on the list and back")
    (avoided,) = listed(cluster)
    assert avoided.blacklisted == WHY

    client.submit("small", topology(1), conf={"topology.workers": 2})
    wait_until(lambda: bool(machines(cluster, "small")), PATIENCE_S, what="it is placed")
    assert avoided.presence.id not in machines(cluster, "small")

    console = Console(cluster, capsys)
    assert f"{avoided.presence.address} is blacklisted: {WHY}" in console("supervisors")
    notes = [one for one in client.health().notes if one.kind == "supervisor.blacklisted"]
    place = f"supervisor {avoided.presence.id} at {avoided.presence.address}"
    assert [one.sentence for one in notes] == [f"{place} is blacklisted: {WHY}"]
    summary = json.loads(rest(cluster, "api/v1/supervisor/summary"))["supervisors"]
    assert {one["id"]: one["blacklisted"] for one in summary}[avoided.presence.id] is True
    assert "tupletree_nimbus_blacklisted_supervisors 1.0" in rest(cluster, "metrics")

    client.submit("large", topology(2), conf={"topology.workers": 2})
    wait_until(lambda: avoided.presence.id in machines(cluster, "large"), PATIENCE_S, what="the machine is released")
    assert not listed(cluster)
