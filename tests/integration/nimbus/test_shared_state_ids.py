"""A submission that has the state id of another topology: it is accepted, and its errors say so."""

from __future__ import annotations

from typing import Any

from nimbus_harness import Bench, Lines, NimbusProcess, topology

from tupletree import StatefulBolt, TopologyBuilder
from tupletree.topology import Topology


class Count(StatefulBolt):
    def execute(self, tup: Any) -> None: ...


def counting() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines())
    builder.set_bolt("count", Count()).fields_grouping("lines", ["line"])
    return builder.create_topology()


def test_a_topology_with_the_state_id_of_another_is_warned_of(shared: Bench, leader: NimbusProcess) -> None:
    client = shared.client(leader)
    first = client.submit("first", counting())
    client.submit("stateless", topology(), {"topology.state.id": "first"})
    alone = client.submit(
        "alone", counting(), {"transactional.zookeeper.root": "/elsewhere", "topology.state.id": "first"}
    )
    second = client.submit("second", counting(), {"topology.state.id": "first"})
    [warning] = shared.store.errors(second)
    assert warning.component_id == "__nimbus"
    assert warning.message == (
        "it has the state id 'first' (topology.state.id) of topology 'first': whichever starts later takes checkpoints "
        "and states over, and the other cannot go on; kill one, and submit it with a state id of its own"
    )
    assert shared.store.errors(first) == shared.store.errors(alone) == []
    client.kill("first", wait_secs=600)
    client.kill("second", wait_secs=600)
    third = client.submit("third", counting(), {"topology.state.id": "first"})
    assert shared.store.errors(third) == []
