"""A node of ZooKeeper that a nimbus may not read concerns its owner alone."""

from __future__ import annotations

from nimbus_harness import Bench, topology

from tupletree._coord import paths
from tupletree._coord.presence import Registration
from tupletree._coord.session import connect, disconnect
from tupletree.testing.wait import wait_until
from tupletree.v1 import topology_pb2 as pb


def test_a_supervisor_with_credentials_of_its_own_stops_no_nimbus(bench: Bench) -> None:
    leader, standby = bench.leader("n1"), bench.nimbus("n2")
    session = connect(
        {
            "zookeeper.servers": [bench.zookeeper.connect_string],
            "zookeeper.port": 2181,
            "zookeeper.session.timeout": 20_000,
            "zookeeper.connection.timeout": 10_000,
            "zookeeper.auth.user": "tupletree",
            "zookeeper.auth.password": "rolled out here first",
        }
    )
    try:
        strange = Registration(
            session, bench.root, "supervisor", pb.Presence(id="strange", host="127.0.0.1", grpc_port=1, slots=[1])
        )
        strange.start()
        others = bench.register_supervisor("a", 2)
        topology_id = bench.client(leader, standby).submit("words", topology(), {"topology.workers": 1})
        bench.await_assignment(topology_id, lambda one: [worker.supervisor_id for worker in one.workers] == ["a"])
        path = paths.presence(bench.root, "supervisor", "strange")
        for one in (leader, standby):
            wait_until(lambda one=one: f"node={path}" in one.log(), what="its log names the node")
            assert one.process.poll() is None
        assert leader.leads()
        strange.stop()
        others.stop()
    finally:
        disconnect(session)
