"""What tasks say of themselves, as the pages of pipelines, transactions and checkpoints show it; and ledgers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tupletree.errors import NotFoundError
from tupletree.nimbus.cluster_view import ClusterView
from tupletree.nimbus.leader.cluster_state import ClusterState
from tupletree.nimbus.leader.leader_state import LeaderState
from tupletree.nimbus.statistics.acker_stats import KEPT_S, LedgerHistory
from tupletree.nimbus.web import ackers, component, progress, visualization
from tupletree.nimbus.web.topology import Topology, page, series
from tupletree.v1 import acker_pb2
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

NOW_S = 100.0


def view(leader_state: LeaderState, record: pb.TopologyRecord, **state: Any) -> ClusterView:
    stored = {"records": {}, "assignments": {}, "supervisors": {}, "ackers": {}, "worker_presences": {}, **state}
    return ClusterView(
        state=ClusterState(**stored),
        nimbuses={},
        leader_id="",
        holders=1,
        ackers={},
        ledgers={},
        leader_state=leader_state,
        version="1",
        now_s=NOW_S,
        now_unix_s=1_700_000_000.0,
    )


def topology(*statuses: Any) -> Topology:
    """A topology of one task for each status, and one that says nothing."""
    leader_state = LeaderState(1, 30, 30, 0.0)
    record = pb.TopologyRecord(id="t-1", name="t", tasks={"tells": max(1, len(statuses)), "z": 1})
    record.executors.update(record.tasks)
    spec = pb.TopologySpec()
    spec.components.add(id="tells", kind=pb.COMPONENT_KIND_SPOUT)
    spec.components.add(id="z", kind=pb.COMPONENT_KIND_BOLT).inputs.add(source="tells", stream="default")
    report = rpc.WorkerReport(topology_id="t-1", worker_id="w", uptime_s=10)
    told = {}
    for task, status in enumerate(statuses, 1):
        report.tasks.add(task_id=task, component_id="tells")
        told[task] = status if isinstance(status, str) else json.dumps(status)
    leader_state.statistics("t-1").report(report, NOW_S, told)
    return Topology(view(leader_state, record), record, spec, [], "http://n")


COORDINATOR = {
    "kind": "coordinator",
    "transactional_id": "ids",
    "state": "running",
    "committed": 7,
    "active": [{"txid": 8, "age_s": 1.5}, {"txid": 9, "age_s": 0.5}, "rubbish"],
    "failures": 2,
    "lag": {"rows": 12},
}
PIPELINE = {"kind": "pipeline", "state": "running", "committed_txid": 3, "batches": [{"txid": 4, "age_s": 2.0}]}
QUEUE = {"kind": "queue", "queue": "RabbitMQ", "connected": True, "outstanding": 3, "lag": 7}
AWAY = {**QUEUE, "connected": False, "outstanding": 0, "lag": None, "error": "OSError: no route"}
CHECKPOINT = {"kind": "checkpoint", "state_id": "s", "txid": 5, "phase": "committed", "is_recovering": False}


def test_transactions_with_what_is_stored() -> None:
    (one,) = progress.transactions(topology(COORDINATOR), {"ids": {"committed": 7}}, "")["coordinators"]
    assert (one["transactionalId"], one["committedTxid"], one["batchesInFlight"]) == ("ids", 7, 2)
    assert (one["oldestBatchSeconds"], one["stored"]) == (1.5, {"committed": 7})
    assert progress.ids_of(topology(COORDINATOR), "coordinator", "transactional_id") == ["ids"]


def test_pipelines_and_checkpoints() -> None:
    both = topology(PIPELINE, CHECKPOINT)
    (pipeline,) = progress.pipelines(both)["pipelines"]
    assert (pipeline["committedTxid"], pipeline["batchesInFlight"], pipeline["oldestBatchSeconds"]) == (3, 1, 2.0)
    (checkpoint,) = progress.checkpoints(both, {}, "away")["checkpoints"]
    assert (checkpoint["stateId"], checkpoint["txid"], checkpoint["stored"]) == ("s", 5, None)
    assert progress.checkpoints(both, {}, "away")["storedUnavailable"] == "away"


def test_lag_in_the_form_of_storms_spouts() -> None:
    assert progress.lag(topology(COORDINATOR)) == {
        "tells": {"spoutId": "tells", "spoutType": "TRANSACTIONAL", "spoutLagResult": {"rows": 12}}
    }
    assert progress.lag(topology(PIPELINE))["tells"]["spoutLagResult"] == {"batches": 1, "oldestSeconds": 2.0}
    assert progress.lag(topology(QUEUE, AWAY)) == {
        "tells": {
            "spoutId": "tells",
            "spoutType": "QUEUE",
            "spoutLagResult": {
                "source": "RabbitMQ",
                "lag": 7,
                "lagUnit": "messages",
                "outstanding": 3,
                "connectedTasks": 1,
                "tasks": 2,
            },
        }
    }


def test_the_lag_of_a_log_is_that_of_all_its_tasks() -> None:
    log = {"kind": "log", "log": "files", "connected": True, "outstanding": 1, "lag": 7, "lag_unit": "bytes"}
    shown = progress.lag(topology(log, log, {**log, "lag": None}))["tells"]
    lag = shown["spoutLagResult"]
    assert (shown["spoutType"], lag["source"], lag["lag"], lag["lagUnit"]) == ("LOG", "files", 14, "bytes")


def test_the_connections_of_a_spout() -> None:
    found = topology(QUEUE, AWAY, PIPELINE)
    shown = component.page(found, "tells", "600", False, "")["connections"]
    names = ("task", "source", "connected", "outstanding", "lag", "lagUnit", "error")
    assert [tuple(one[name] for name in names) for one in shown] == [
        (1, "RabbitMQ", True, 3, 7, "messages", None),
        (2, "RabbitMQ", False, 0, None, "messages", "OSError: no route"),
    ]
    assert "connections" not in component.page(found, "z", "600", False, "")


@pytest.mark.parametrize(
    "status",
    [
        {"kind": "coordinator"},
        {"kind": "pipeline", "batches": 7},
        {"kind": "checkpoint", "state_id": []},
        {"kind": ["odd"], "active": [{"age_s": "old"}]},
        {"kind": "coordinator", "active": [{"age_s": None}], "lag": "much"},
        {"kind": "queue", "connected": 7, "lag": "much", "outstanding": {}},
        "no json",
    ],
)
def test_whatever_a_status_says_there_is_a_page(status: Any) -> None:
    found = topology(status)
    for made in (
        progress.transactions(found, {}, ""),
        progress.pipelines(found),
        progress.checkpoints(found, {}, ""),
        progress.lag(found),
        {"statuses": progress.statuses(found)},
        {"connections": progress.connections(found, "tells")},
    ):
        json.dumps(made, allow_nan=False)


def test_a_topology_that_nobody_reported_of_has_pages() -> None:
    found = topology()
    shown = page(found, "600", False, "")
    assert [one["spoutId"] for one in shown["spouts"]] == ["tells"] and shown["bolts"][0]["executed"] == 0
    assert series(found)["points"] == [] == series(found, "z")["points"]
    with pytest.raises(NotFoundError, match="has no component 'nope'"):
        series(found, "nope")
    graph = visualization.graph(found, ":all-time", False)
    assert graph["z"][":inputs"][0][":component"] == "tells"
    assert visualization.boxes(found, False)["visualizationTable"][0][":row"][0]["stream"] == "default"
    assert visualization.metrics(found, "600", True)["bolts"][0]["id"] == "z"


@pytest.mark.parametrize("sys", [False, True])
@pytest.mark.parametrize("window", [":all-time", "600"])
def test_executors_transfer_what_their_component_does(window: str, sys: bool) -> None:
    found = topology(PIPELINE, CHECKPOINT)
    report = rpc.WorkerReport(topology_id="t-1", worker_id="w", uptime_s=10)
    for task_id in (1, 2):
        streams = [rpc.StreamStats(stream=one, transferred=60, emitted=60) for one in ("default", "__ack")]
        report.tasks.add(task_id=task_id, component_id="tells", streams=streams)
    found.statistics.report(report, NOW_S)
    node = visualization.graph(found, window, sys)["tells"]
    shown = [one[":transferred"][window] for one in node[":stats"]]
    assert [sum(one.values()) for one in shown] == [120 if sys else 60] * 2
    assert sum(sum(one.values()) for one in shown) == sum(node[":transferred"].values())


def test_names_of_streams_for_a_page() -> None:
    assert [visualization.sanitized(one) for one in ("default", "a b/c", "__tick", "1")] == [
        "default",
        "a_b_c",
        "_s__tick",
        "_s_",
    ]


def reply(**shards: int) -> acker_pb2.DescribeLedgerReply:
    found = acker_pb2.DescribeLedgerReply(acker_id="a", ready=True)
    for number, (topology_id, completed) in enumerate(sorted(shards.items())):
        found.shards.add(topology_id=topology_id, shard=number, pending=1, oldest_age_s=number, completed=completed)
    return found


def test_rates_of_a_ledger_are_of_the_shards_that_stay() -> None:
    ledger = LedgerHistory()
    ledger.add_sample(reply(one=100, two=1000), 10.0)
    assert ledger.last is not None and (ledger.last.completed_per_s, ledger.last.pending) == (0.0, 2)
    ledger.add_sample(reply(one=120), 12.0)  # the other has moved away
    assert ledger.last is not None and ledger.last.completed_per_s == 10.0
    assert ledger.last.completed == 120


def test_ten_minutes_of_a_ledger_are_kept() -> None:
    ledger = LedgerHistory()
    for now_s in range(0, 2000, 2):
        ledger.add_sample(reply(one=now_s), float(now_s))
    assert len(ledger.points) == KEPT_S / 2 + 1


def test_an_acker_of_which_nothing_was_heard_has_a_page() -> None:
    record = pb.TopologyRecord(id="t-1", name="t")
    presence = pb.Presence(id="a", host="h", started_unix_s=1_699_999_990.0)
    cluster = view(LeaderState(1, 30, 30, 0.0), record, ackers={"a": presence})
    assert ackers.summary(cluster)["ackers"][0]["status"] == "Unreachable"
    assert ackers.page(cluster, "a")["shardList"] == [] == ackers.series(cluster, "a")["points"]
    with pytest.raises(NotFoundError, match="there is no acker with the id 'b'; registered: a"):
        ackers.page(cluster, "b")
