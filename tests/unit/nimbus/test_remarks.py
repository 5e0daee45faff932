"""Remarks on components, from the reports of workers to what describe, REST and health say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tupletree._coord.versioned import Versioned
from tupletree._health.facts import ComponentFacts
from tupletree.cli.describe import _print, describe_dict
from tupletree.client import TopologyDescription
from tupletree.nimbus import health_inputs, rpc_replies
from tupletree.nimbus.cluster_view import ClusterView
from tupletree.nimbus.leader.cluster_state import ClusterState
from tupletree.nimbus.leader.leader_state import LeaderState
from tupletree.nimbus.statistics.ack_detector import blocks
from tupletree.nimbus.web import component, schema_objects, topology
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

RECORD = pb.TopologyRecord(
    id="words-1-5",
    name="words",
    conf_json=json.dumps({"topology.message.timeout.secs": 30}),
    tasks={"spout": 2, "split": 6},
    executors={"spout": 2, "split": 3},
    status=pb.TOPOLOGY_STATUS_ACTIVE,
)
SPEC = pb.TopologySpec(
    components=[
        pb.ComponentSpec(id="spout", kind=pb.COMPONENT_KIND_SPOUT),
        pb.ComponentSpec(id="split", kind=pb.COMPONENT_KIND_BOLT),
    ]
)
ADVICE = (
    "blocks: 2 of 3 executors have a thread of their own; set blocking = True on the component, or wait in another "
    "thread and return with context.call_soon"
)
SPOUT_CALL = (
    "task 8 has been in one call of its code for 12 s; if it waits there for its source, set blocking = True on the "
    "spout"
)


class Reported:
    """A nimbus that has heard one report of a topology's tasks: spout 7 and 8, split 1 to 6 by two to an executor."""

    def __init__(self, *tasks: rpc.TaskStats) -> None:
        self.leader_state = LeaderState(1, 30.0, 120.0, 0.0)
        report = rpc.WorkerReport(topology_id=RECORD.id, worker_id="w", tasks=tasks)
        self.leader_state.statistics(RECORD.id).report(report, 100.0)
        state = ClusterState({RECORD.id: Versioned(RECORD, 0)}, {}, {}, {}, {})
        self.view = ClusterView(state, {}, "", 1, {}, {}, self.leader_state, "0", 100.0, 0.0)

    def described(self) -> rpc.DescribeTopologyReply:
        return rpc_replies.topology(self.view, RECORD, SPEC, [])

    def page(self, component_id: str) -> dict[str, Any]:
        return component.page(topology.Topology(self.view, RECORD, SPEC, [], ""), component_id, "600", False, "")

    def topology_page(self) -> topology.Topology:
        return topology.Topology(self.view, RECORD, SPEC, [], "")

    def judged(self, component_id: str) -> ComponentFacts:
        found = health_inputs.topology(self.view, RECORD, SPEC, []).components
        return next(one for one in found if one.id == component_id)


def parted() -> list[rpc.TaskStats]:
    """Both tasks of two of the bolt's executors; a third one that has all its neighbours."""
    return [
        rpc.TaskStats(task_id=number, component_id="split", acked=1, found_blocking=number < 5)
        for number in range(1, 7)
    ]


def test_a_component_that_was_found_blocking_is_said_to_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    reported = Reported(*parted())
    assert [(one.component_id, one.remark) for one in reported.described().components] == [
        ("split", ADVICE),
        ("spout", ""),
    ]
    _print(describe_dict(TopologyDescription.of(reported.described())))
    assert f"split: {ADVICE}\n" in capsys.readouterr().out
    assert reported.judged("split").blocks == ADVICE
    assert reported.judged("spout").blocks == ""
    total = reported.leader_state.statistics(RECORD.id).component("split")
    assert total.found_blocking
    reported.leader_state.statistics(RECORD.id).report(
        rpc.WorkerReport(
            worker_id="w", tasks=[rpc.TaskStats(task_id=one, component_id="split") for one in range(1, 7)]
        ),
        101.0,
    )
    assert reported.judged("split").blocks == "", "they are back with their neighbours"


def test_the_pages_of_the_topology_and_of_the_component_have_the_remark() -> None:
    reported = Reported(*parted())
    (bolt,) = [topology._bolt(reported.topology_page(), "split", "600", False)]
    assert (bolt["remark"], bolt["remarkKind"]) == (ADVICE, "component.blocks")
    assert bolt.keys() == schema_objects.BOLT.keys()
    (spout,) = [topology._spout(reported.topology_page(), "spout", "600", False)]
    assert (spout["remark"], spout["remarkKind"]) == ("", "")
    assert spout.keys() == schema_objects.SPOUT.keys()
    assert (reported.page("split")["remark"], reported.page("split")["remarkKind"]) == (ADVICE, "component.blocks")
    assert reported.page("spout")["remark"] == ""


def test_a_spout_whose_call_does_not_end_is_named() -> None:
    spout = [
        rpc.TaskStats(task_id=7, component_id="spout", call_s=3),
        rpc.TaskStats(task_id=8, component_id="spout", call_s=12),
    ]
    reported = Reported(*spout)
    assert [(one.component_id, one.remark) for one in reported.described().components] == [
        ("split", ""),
        ("spout", SPOUT_CALL),
    ]
    assert reported.judged("spout").long_call == SPOUT_CALL
    assert reported.page("spout")["remarkKind"] == "component.long_call"
    assert Reported(spout[0]).judged("spout").long_call == ""


def test_a_fault_goes_before_the_advice() -> None:
    stats = parted()
    stats[0].queued, stats[0].call_s = 5, 12.0
    assert Reported(*stats).page("split")["remarkKind"] == "component.long_call"


def test_the_advice_counts_executors() -> None:
    assert blocks(0, 4) == ""
    assert blocks(1, 1).startswith("blocks: 1 of 1 executor has a thread of its own; ")
    assert blocks(1, 4).startswith("blocks: 1 of 4 executors has a thread of its own; ")
