"""Every daemon and worker is restarted, in the order of docs/operations.md, under a running topology.

No version changes here: what is tried is the order, and that nothing stops or fails on the way but what must.
"""

from __future__ import annotations

import pytest
from numbers_topology import History, numbers_topology

from tupletree.testing import DevCluster, wait_until

CONF = {
    "topology.workers": 2,
    "topology.acker.executors": 2,
    "topology.message.timeout.secs": 30,
    "topology.max.spout.pending": 200,
}


@pytest.mark.nightly
def test_daemons_are_replaced_one_by_one_and_a_topology_runs_on(tmp_path):
    with DevCluster(supervisors=2, slots=2, ackers=2, nimbuses=2) as cluster:
        cluster.client.submit("numbers", numbers_topology(tmp_path), CONF)
        history = History(tmp_path)

        def flows():
            wanted = len(history.acked()) + 100
            wait_until(lambda: len(history.acked()) >= wanted, 60, what="the topology flows")

        flows()
        workers = {process.pid for process in cluster.processes if process.role == "worker"}
        for role in ("nimbus", "supervisor", "acker"):
            for index in (0, 1):
                cluster.restart(role, index)
                wait_until(lambda: well(cluster), 60, what="the cluster is whole")
                flows()
        assert history.events("fail") == [], "daemons that are replaced cost no replay"
        assert {process.pid for process in cluster.processes if process.role == "worker"} == workers
        for index in (0, 1):
            cluster.restart("worker", index)
            flows()
        history.stop()
        wait_until(history.is_complete, 60, what="everything is acked")
        history.check()


def well(cluster):
    """True if a nimbus leads and sees everybody, and every shard has an acker that is to keep it."""
    reply = cluster.client.cluster()
    shards = cluster.client.describe("numbers").assignment.shards
    return (
        len(reply.supervisors) == 2
        and len([one for one in reply.ackers if not one.presence.draining]) == 2
        and all(one.acker_id and not one.draining_acker_id for one in shards)
    )
