"""What leaves nimbus of a topology: passwords in its configuration and in its components' stay."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tupletree._coord.versioned import Versioned
from tupletree._security.rights import Principal
from tupletree.nimbus import rpc_replies
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.cluster_state import ClusterState
from tupletree.nimbus.leader.leader_state import LeaderState
from tupletree.nimbus.visibility import visible
from tupletree.nimbus.web.topology import _version
from tupletree.v1.topology_pb2 import ComponentSpec, TopologyRecord, TopologySpec

CONF = {"database.password": "hunter2", "database.url": "redis://me:hunter2@cache", "topology.workers": 1}
RECORD = TopologyRecord(id="words-1-5", name="words", conf_json=json.dumps(CONF), tasks={"split": 1})
SPEC = TopologySpec(components=[ComponentSpec(id="split", conf_json=json.dumps(CONF))])
LOADED = ClusterState(
    records={"words-1-5": Versioned(RECORD, 0)}, assignments={}, supervisors={}, ackers={}, worker_presences={}
)


def test_neither_a_list_nor_a_description_shows_a_password() -> None:
    leader_state = LeaderState(1, 30.0, 120.0, 0.0)
    (listed,) = rpc_replies.topologies(LOADED, leader_state, 0.0, 0.0)
    described = rpc_replies.topology(LOADED, leader_state, RECORD, SPEC, [], 0.0, 0.0)
    for reply in (listed, described, rpc_replies.shown(RECORD, 0)):
        assert "hunter2" not in str(reply)
    assert json.loads(listed.record.conf_json)["topology.workers"] == 1
    assert json.loads(described.spec.components[0].conf_json)["topology.workers"] == 1


def test_what_a_kill_waits_for_is_shown() -> None:
    killed = lifecycle.ask(RECORD, lifecycle.Kill(30), 100.0)
    assert rpc_replies.shown(killed, 12).pending.unfinished == 12
    assert not rpc_replies.shown(RECORD, 12).HasField("pending")


ODD = ['{"k":' + "[" * 5000 + "]" * 5000 + "}", '{"k":' + "[" * 600 + "]" * 600 + "}", "[", "7"]


@pytest.mark.parametrize("conf_json", ODD, ids=range(len(ODD)))
def test_a_configuration_that_cannot_be_shown_hides_no_other_topology(conf_json: str) -> None:
    odd = TopologyRecord(id="odd-2-6", name="odd", owner="eve", conf_json=conf_json)
    loaded = replace(LOADED, records={**LOADED.records, odd.id: Versioned(odd, 0)})
    listed = rpc_replies.topologies(loaded, LeaderState(1, 30.0, 120.0, 0.0), 0.0, 0.0)
    assert {one.record.name for one in listed} == {"words", "odd"}
    assert _version(conf_json) is None
    assert set(visible(loaded, Principal("eve", "user"), []).records) == {odd.id}


def test_what_is_stored_stays_as_it_is() -> None:
    rpc_replies.shown(RECORD, 0)
    rpc_replies.shown_spec(SPEC)
    assert json.loads(RECORD.conf_json) == CONF
    assert json.loads(SPEC.components[0].conf_json) == CONF
    assert rpc_replies.shown_spec(TopologySpec(components=[ComponentSpec(id="b")])).components[0].conf_json == ""
