"""A checkpoint spout whose topology does not fit the stored checkpoint says so and blames no other spout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tupletree import config
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord
from tupletree._checkpoints.spout import CheckpointSpout
from tupletree._health.assessment import judge
from tupletree._health.facts import ComponentFacts, TopologyFacts
from tupletree._stores.memory_nodes import MemoryStore
from tupletree.cli.statuses import status_lines
from tupletree.component import TopologyContext
from tupletree.errors import TopologyError
from tupletree.v1 import nimbus_pb2
from tupletree.v1 import topology_pb2 as pb

REASON = (
    "component 'totals' has 4 tasks, and the stored checkpoint was taken with 2; its state cannot be divided, as "
    "key 'a' belongs to no fields grouping"
)


class Reports:
    """The collector of a spout that reports errors and emits nothing."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def report_error(self, error: BaseException) -> None:
        self.errors.append(error)


def refuse(stored: Checkpoint, tasks: Mapping[str, int]) -> Any:
    raise TopologyError(REASON)


def opened(store: MemoryStore, tasks: int) -> tuple[CheckpointSpout, Reports]:
    """The spout of a topology whose bolt has so many tasks, after its first call."""
    spout = CheckpointSpout([], [], ["totals"], [], open_store=lambda conf: store)
    conf: dict[str, Any] = {**config.defaults(), "topology.name": "access", "topology.state.id": "access"}
    context = TopologyContext(
        topology_id="access-1-1",
        component_id="$checkpointspout",
        task_id=1,
        tasks={"$checkpointspout": [1], "totals": list(range(2, 2 + tasks))},
        sources={},
        targets={},
        conf=conf,
    )
    context.clock = lambda: 0.0
    spout.move_states = refuse
    reports = Reports()
    spout.open(conf, context, reports)  # type: ignore[arg-type]
    spout.next_tuple()
    return spout, reports


def test_a_state_that_cannot_be_divided_is_the_reason_everywhere() -> None:
    store = MemoryStore()
    CheckpointRecord.take_over(store, "access", "topology access-0-1").save(
        Checkpoint(7, Phase.COMMITTED, {"totals": 2}, 1)
    )
    spout, reports = opened(store, tasks=4)
    assert [str(error) for error in reports.errors] == [REASON]
    status = spout.status()
    assert (status["state"], status["reason"]) == ("refused", REASON)
    facts = TopologyFacts(
        pb.TopologyRecord(id="access-1-1", name="access", status=pb.TOPOLOGY_STATUS_ACTIVE),
        uptime_s=100.0,
        workers_used=1,
        workers_ready=1,
        components=[ComponentFacts("$checkpointspout", statuses=[_said(status)])],
    )
    said = [fault.sentence for fault in judge([], [], [facts]).faults if fault.kind.startswith("checkpoint")]
    assert said == [f"topology 'access', $checkpointspout[1]: no checkpoint is taken and nothing is acked: {REASON}"]
    shown = status_lines([{"component": "$checkpointspout", "task": 1, "age_s": 0.0, "status": status}])
    assert shown[0] == "$checkpointspout[1]: checkpoints of access, refused"
    assert " ".join(line.strip() for line in shown[1:]) == f"reason: {REASON}"


def test_the_same_number_of_tasks_goes_on() -> None:
    store = MemoryStore()
    CheckpointRecord.take_over(store, "access", "topology access-0-1").save(
        Checkpoint(7, Phase.COMMITTED, {"totals": 4}, 1)
    )
    spout, reports = opened(store, tasks=4)
    assert reports.errors == []
    assert (spout.status()["state"], spout.status()["reason"]) == ("running", None)


def _said(status: dict[str, Any]) -> nimbus_pb2.TaskStatus:
    return nimbus_pb2.TaskStatus(task_id=1, status_json=json.dumps(status))
