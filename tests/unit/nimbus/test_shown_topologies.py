"""What leaves nimbus of a topology: passwords in its configuration and in its components' stay."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tupletree._coord.versioned import Versioned
from tupletree._security.rights import Principal
from tupletree.errors import NotFoundError
from tupletree.nimbus import rpc_replies
from tupletree.nimbus.cluster_view import ClusterView, hidden_topologies
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.cluster_state import ClusterState
from tupletree.nimbus.leader.leader_state import LeaderState
from tupletree.nimbus.statistics.acker_stats import LedgerHistory
from tupletree.nimbus.web import ackers, cluster
from tupletree.nimbus.web.topology import _version
from tupletree.v1.acker_pb2 import ShardSummary
from tupletree.v1.topology_pb2 import (
    Assignment,
    ComponentSpec,
    ExecutorRange,
    Presence,
    ShardAssignment,
    TopologyRecord,
    TopologySpec,
    WorkerAssignment,
)

CONF = {"database.password": "hunter2", "database.url": "redis://me:hunter2@cache", "topology.workers": 1}
RECORD = TopologyRecord(id="words-1-5", name="words", conf_json=json.dumps(CONF), tasks={"split": 1})
SPEC = TopologySpec(components=[ComponentSpec(id="split", conf_json=json.dumps(CONF))])
STATE = ClusterState(
    records={"words-1-5": Versioned(RECORD, 0)}, assignments={}, supervisors={}, ackers={}, worker_presences={}
)


def seen(state: ClusterState, who: Principal | None = None) -> ClusterView:
    leader_state = LeaderState(1, 30.0, 120.0, 0.0)
    hidden = hidden_topologies(state, who, [])
    return ClusterView(state, {}, "", 1, {}, {}, leader_state, "1", 0.0, 0.0, hidden=hidden)


def test_neither_a_list_nor_a_description_shows_a_password() -> None:
    (listed,) = rpc_replies.topologies(seen(STATE))
    described = rpc_replies.topology(seen(STATE), RECORD, SPEC, [])
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
    state = replace(STATE, records={**STATE.records, odd.id: Versioned(odd, 0)})
    listed = rpc_replies.topologies(seen(state))
    assert {one.record.name for one in listed} == {"words", "odd"}
    assert _version(conf_json) is None
    assert seen(state, Principal("eve", "user")).records() == [odd]


def figures(view: ClusterView) -> list[Any]:
    summary = cluster.summary(view, "", 0)
    slots = [summary[one] for one in ("slotsTotal", "slotsUsed", "slotsFree")]
    return [slots, cluster.supervisors(view, "", 0), list(rpc_replies.cluster(view).supervisors), ackers.summary(view)]


def test_slots_and_shards_of_topologies_that_the_caller_may_not_see_are_taken_all_the_same() -> None:
    own = TopologyRecord(id="own-2-6", name="own", owner="eve", workers=1, tasks={"split": 1}, executors={"split": 1})
    executors = [ExecutorRange(first_task=1, last_task=1)]
    worker = WorkerAssignment(supervisor_id="s", host="h", port=6700, executors=executors)
    assignment = Assignment(topology_id=RECORD.id, workers=[worker], shards=[ShardAssignment(shard=0, acker_id="a")])
    state = ClusterState(
        records={one.id: Versioned(one, 0) for one in (RECORD, own)},
        assignments={RECORD.id: Versioned(assignment, 0)},
        supervisors={"s": Presence(id="s", slots=[6700])},
        ackers={"a": Presence(id="a")},
        worker_presences={},
    )
    whole, view = seen(state), seen(state, Principal("eve", "user"))
    assert (view.free_slots, view.unscheduled(own)) == (0, whole.unscheduled(own))
    assert figures(view) == figures(whole)
    told = LedgerHistory()
    told.shards = [ShardSummary(topology_id=one, shard=0) for one in (RECORD.id, own.id)]
    shown = ackers.page(replace(view, ledgers={"a": told}), "a")["shardList"]
    assert [(one["topologyId"], one["role"]) for one in shown] == [(own.id, "left over")]
    assert RECORD.id not in str([rpc_replies.topologies(view), cluster.supervisor(view, "s", "", "", 0), shown])
    with pytest.raises(NotFoundError):
        view.record(RECORD.id)
    with pytest.raises(NotFoundError):
        view.named(RECORD.name)


def test_what_is_stored_stays_as_it_is() -> None:
    rpc_replies.shown(RECORD, 0)
    rpc_replies.shown_spec(SPEC)
    assert json.loads(RECORD.conf_json) == CONF
    assert json.loads(SPEC.components[0].conf_json) == CONF
    assert rpc_replies.shown_spec(TopologySpec(components=[ComponentSpec(id="b")])).components[0].conf_json == ""
