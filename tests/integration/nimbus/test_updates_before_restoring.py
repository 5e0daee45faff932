"""An update of a topology that begins with a savepoint."""

from __future__ import annotations

from typing import Any

import pytest
from nimbus_harness import Bench, Lines

from tupletree import StatefulBolt, TopologyBuilder
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord
from tupletree._stores.zookeeper_nodes import ZooKeeperStore
from tupletree.errors import UsageError
from tupletree.topology import Topology

CONF = {
    "topology.state.provider": "sqlite",
    "topology.state.provider.config": {"directory": "/states"},
    "topology.state.savepoint": "monday",
}


class Count(StatefulBolt):
    def execute(self, tup: Any) -> None: ...


def words(parallelism: int) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines(), parallelism)
    builder.set_bolt("count", Count()).fields_grouping("lines", ["line"])
    return builder.create_topology()


def test_an_update_waits_until_the_savepoint_is_restored(bench: Bench) -> None:
    client = bench.client(bench.leader())
    topology_id = client.submit("early", words(1), CONF)
    for only_check in (True, False):
        with pytest.raises(UsageError, match="'early' has not restored its savepoint yet, which an update does not"):
            client.update("early", words(2), CONF, only_check=only_check)
    assert client.describe("early").summary.record.pending is None

    record = CheckpointRecord.take_over(ZooKeeperStore(bench.session, "/transactional"), "early", "a test")
    record.save(Checkpoint(7, tasks={"count": 1}, origin=topology_id))
    assert client.update("early", words(2), CONF).record.pending is not None
