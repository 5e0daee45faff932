"""The configuration of a topology as ``config get NAME`` and ``describe`` show it."""

from __future__ import annotations

import json

from tupletree.cli.config_topology import changed_lines, settings_with_components
from tupletree.client import TopologyDescription
from tupletree.v1 import nimbus_pb2
from tupletree.v1 import topology_pb2 as pb

PENDING = "topology.max.spout.pending"
TICKS = "topology.tick.tuple.freq.secs"

RECORD = pb.TopologyRecord(
    name="words",
    workers=1,
    conf_json=json.dumps({PENDING: 5, TICKS: None, "my.key": 1}),
    submitted_conf={PENDING: "200"},
    live_keys=[PENDING],
    pending=pb.PendingAction(conf={"my.key": "2", "your.key": "3", "her.key": ""}),
)
COMPONENTS = [
    pb.ComponentSpec(id="count", conf_json=json.dumps({TICKS: 3})),
    pb.ComponentSpec(id="split"),
]
DESCRIPTION = TopologyDescription.of(
    nimbus_pb2.DescribeTopologyReply(
        summary=nimbus_pb2.TopologySummary(record=RECORD), spec=pb.TopologySpec(components=COMPONENTS)
    )
)


def test_components_that_set_a_key_themselves_are_shown_with_it() -> None:
    found = {one["key"]: one for one in settings_with_components(DESCRIPTION)}
    assert list(found) == [PENDING, TICKS, "her.key", "my.key", "your.key"], "the order of the table, then names"
    assert found[TICKS]["components"] == {"count": 3}
    assert "components" not in found[PENDING]
    assert (found["your.key"]["value"], found["your.key"]["pending"]) == (None, 3)


def test_a_line_for_each_key_that_was_changed_or_waits() -> None:
    assert changed_lines(settings_with_components(DESCRIPTION)) == [
        "topology.max.spout.pending is 5, 200 at submission",
        "her.key will be null when the workers are restarted",
        "my.key will be 2 when the workers are restarted",
        "your.key will be 3 when the workers are restarted",
    ]
