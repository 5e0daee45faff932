"""The machines of a user's pool, under the even scheduler, on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.control.conftest import Console
from tests.integration.resources.test_constrained_cluster_placement import PATIENCE_S, is_ready, rest, submit
from tests.integration.resources.test_isolated_machines import machines_of
from tupletree.errors import UsageError
from tupletree.testing import DevCluster, wait_until

CONF = {"multitenant.scheduler.user.pools": {"ann": 2}, "nimbus.monitor.freq.secs": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=3, slots=2, conf=CONF) as running:
        yield running


def test_the_topologies_of_a_user_share_a_pool(
    cluster: DevCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, console = cluster.client, Console(cluster, capsys)
    monkeypatch.setenv("LOGNAME", "bob")
    submit(cluster, "other", 3, 3, {"topology.isolate.machines": 1})
    wait_until(lambda: is_ready(cluster, "other", 3), PATIENCE_S, what="it runs on all machines")
    assert len(machines_of(cluster, "other")) == 3
    sentence = (
        "topology 'other': topology.isolate.machines has no effect, as its owner has no pool "
        "(multitenant.scheduler.user.pools)"
    )
    assert sentence in [one.sentence for one in client.health().notes]

    monkeypatch.setenv("LOGNAME", "ann")
    submit(cluster, "shared", 3, 3, {})
    wait_until(lambda: is_ready(cluster, "shared", 3), PATIENCE_S, what="the others have left, and it runs")
    pool = machines_of(cluster, "shared")
    assert len(pool) == 2 and not pool & machines_of(cluster, "other")
    summary = rest(cluster, "supervisor/summary")["supervisors"]
    assert {one["id"] for one in summary if one["userPool"] == "ann"} == pool
    assert console("supervisors").count("is in the pool of ann") == 2
    assert [one.pool for one in client.cluster().supervisors].count("ann") == 2
    owners = {one["owner"]: one["isolatedNodes"] for one in rest(cluster, "owner-resources")["owners"]}
    assert owners == {"ann": "2", "bob": "N/A"}

    submit(cluster, "apart", 2, 2, {"topology.isolate.machines": 1})
    wait_until(lambda: is_ready(cluster, "apart", 2), PATIENCE_S, what="it has a machine of the pool to itself")
    wait_until(lambda: is_ready(cluster, "shared", 2), PATIENCE_S, what="the other runs on the rest of the pool")
    assert machines_of(cluster, "apart") | machines_of(cluster, "shared") == pool
    assert len(machines_of(cluster, "apart")) == 1 and not machines_of(cluster, "apart") & machines_of(
        cluster, "shared"
    )
    lack = (
        "It has 2 of 3 workers: no other slot is free on the machines that isolated topologies "
        "(topology.isolate.machines) leave in its owner's pool, which has 2 of 2 (multitenant.scheduler.user.pools)."
    )
    assert client.describe("shared").unscheduled == lack
    shown = console("supervisors")
    assert shown.count("is kept for topology 'apart'") == 1 and shown.count("is in the pool of ann") == 2
    with pytest.raises(UsageError, match=r"'tupletree update NAME FILE' changes what a topology needs"):
        client.set_conf("apart", {"topology.isolate.machines": 2})

    client.kill("apart", wait_secs=0)
    client.kill("shared", wait_secs=0)
    wait_until(lambda: is_ready(cluster, "other", 3), PATIENCE_S, what="without topologies there is no pool")
