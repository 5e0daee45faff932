"""The verdict on a cluster, fault by fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tupletree._judgement import DEATHS, Verdict, judge, unreachable
from tupletree.v1 import acker_pb2, nimbus_pb2, supervisor_pb2
from tupletree.v1 import topology_pb2 as pb

READY = acker_pb2.DescribeLedgerReply(acker_id="a1", ready=True)


def cluster(ackers: int = 2, supervisors: int = 1) -> nimbus_pb2.DescribeClusterReply:
    return nimbus_pb2.DescribeClusterReply(
        ackers=[
            nimbus_pb2.AckerSummary(presence=pb.Presence(id=f"a{n}", host="h", grpc_port=6640 + n))
            for n in range(ackers)
        ],
        supervisors=[
            nimbus_pb2.SupervisorSummary(presence=pb.Presence(id=f"s{n}", host="h", grpc_port=6628))
            for n in range(supervisors)
        ],
    )


def topology(ready: int = 2, used: int = 2, **fields: Any) -> nimbus_pb2.DescribeTopologyReply:
    given: dict[str, Any] = {"status": pb.TOPOLOGY_STATUS_ACTIVE, "uptime_s": 100.0, "statuses": [], "conf": {}}
    given |= fields
    record = pb.TopologyRecord(id="words-1", name="words", status=given["status"], conf_json=json.dumps(given["conf"]))
    return nimbus_pb2.DescribeTopologyReply(
        summary=nimbus_pb2.TopologySummary(
            record=record, workers_used=used, workers_ready=ready, uptime_s=given["uptime_s"]
        ),
        unscheduled=given.get("unscheduled", ""),
        components=[
            nimbus_pb2.ComponentStats(
                component_id="c",
                statuses=[
                    nimbus_pb2.TaskStatus(task_id=3, status_json=s if isinstance(s, str) else json.dumps(s))
                    for s in given["statuses"]
                ],
            )
        ],
    )


def verdict(
    *topologies: nimbus_pb2.DescribeTopologyReply,
    of: nimbus_pb2.DescribeClusterReply | None = None,
    ledgers: dict[str, Any] | None = None,
    slots: dict[str, Any] | None = None,
) -> Verdict:
    return judge(of or cluster(), {"a0": READY, "a1": READY, **(ledgers or {})}, topologies, slots or {})


def kinds(found: Verdict) -> list[str]:
    return [fault.kind for fault in found.faults]


def test_nothing_wrong_is_healthy() -> None:
    assert verdict(topology()) == Verdict("healthy", ())


def test_one_sick_acker_is_degraded_and_all_of_them_is_down() -> None:
    sick = acker_pb2.DescribeLedgerReply(ready=False, reasons=["zookeeper: connecting"])
    found = verdict(topology(), ledgers={"a1": sick})
    assert (found.status, kinds(found)) == ("degraded", ["acker.not_ready"])
    assert found.faults[0].sentence == "acker a1 at h:6641 is not ready: zookeeper: connecting"
    found = verdict(topology(), ledgers={"a0": "connection refused", "a1": sick})
    assert (found.status, kinds(found)) == ("down", ["acker.none_ready", "acker.unreachable", "acker.not_ready"])
    assert verdict(of=cluster(ackers=0)).status == "down"


def test_without_a_supervisor_it_is_down() -> None:
    found = verdict(of=cluster(supervisors=0))
    assert (found.status, kinds(found)) == ("down", ["supervisor.none"])
    found = verdict(slots={"s0": "connection refused"})
    assert (found.status, kinds(found)) == ("degraded", ["supervisor.unreachable"])


def test_a_crash_loop_names_topology_worker_and_how_it_ended() -> None:
    def slots(**fields: Any) -> dict[str, Any]:
        slot = supervisor_pb2.SlotSummary(port=6700, topology_id="words-1", **fields)
        return {"s0": supervisor_pb2.ListSlotsReply(slots=[slot])}

    found = verdict(topology(), slots=slots(deaths=DEATHS, last_exit="exit status 1: KeyError: 'x'"))
    assert kinds(found) == ["worker.crash_loop"]
    assert found.faults[0].sentence == (
        "topology 'words': its worker at h:6700 died 3 times in a row: exit status 1: KeyError: 'x'"
    )
    assert verdict(topology(), slots=slots(deaths=DEATHS - 1)).status == "healthy"
    assert kinds(verdict(topology(), slots=slots(misses=1))) == ["worker.no_bundle"]


def test_missing_workers() -> None:
    assert kinds(verdict(topology(ready=1))) == ["topology.workers_not_ready"]
    assert verdict(topology(ready=0, used=0)).faults[0].sentence == "topology 'words' has no worker"
    assert kinds(verdict(topology(ready=0, unscheduled="2 slots are missing"))) == ["topology.unscheduled"]
    assert verdict(topology(ready=1, uptime_s=5.0)).status == "healthy", "it has only just been submitted"
    for status in (pb.TOPOLOGY_STATUS_KILLED, pb.TOPOLOGY_STATUS_REBALANCING):
        assert verdict(topology(ready=0, status=status)).status == "healthy"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ({"kind": "pipeline", "state": "stopped", "reason": "no\x1b such\ntable"}, "pipeline.stopped"),
        ({"kind": "pipeline", "state": "running", "batches": [{"age_s": 1}, {"age_s": 61}]}, "commit.stalled"),
        ({"kind": "coordinator", "state": "running", "active": [{"age_s": 90}]}, "commit.stalled"),
        ({"kind": "coordinator", "state": "running", "active": [{"age_s": 1}], "failures": 3}, "commit.failing"),
        ({"kind": "coordinator", "state": "deposed"}, "commit.deposed"),
        ({"kind": "checkpoint", "state": "running", "step": "prepare", "step_age_s": 75.2}, "checkpoint.stalled"),
        ({"kind": "checkpoint", "state": "running", "failures": 4}, "checkpoint.failing"),
        ({"kind": "checkpoint", "state": "stands still"}, "checkpoint.deposed"),
    ],
)
def test_commits_and_checkpoints_that_do_not_get_on(status: dict[str, Any], kind: str) -> None:
    found = verdict(topology(statuses=[status]))
    assert (found.status, kinds(found)) == ("degraded", [kind])
    assert found.faults[0].sentence.startswith("topology 'words', c[3]: ")
    assert found.faults[0].sentence.isprintable()


@pytest.mark.parametrize(
    "status",
    [
        {"kind": "pipeline", "state": "running", "batches": [{"age_s": 59}]},
        {"kind": "coordinator", "state": "running", "active": [], "failures": 2},
        {"kind": "checkpoint", "state": "running", "step": None, "step_age_s": None, "failures": 0},
        {"kind": "checkpoint", "step_age_s": "long", "failures": {"a": 1}},
        {"kind": "coordinator", "active": "many", "failures": True},
        {"kind": "pipeline", "batches": [1, None, {"age_s": []}]},
        {"kind": ["pipeline"]},
        {"kind": "mine", "age_s": 1e9},
        "not json",
    ],
)
def test_what_gets_on_or_makes_no_sense_is_no_fault(status: Any) -> None:
    assert verdict(topology(statuses=[status])).status == "healthy"


def test_a_longer_message_timeout_makes_a_longer_patience() -> None:
    slow = {"kind": "coordinator", "state": "running", "active": [{"age_s": 90}]}
    assert verdict(topology(statuses=[slow], conf={"topology.message.timeout.secs": 60})).status == "healthy"


def test_who_cannot_be_asked_is_down() -> None:
    found = unreachable("nimbus at h:6627 is not reachable")
    assert (found.status, found.faults[0].sentence) == ("down", "nimbus at h:6627 is not reachable")
