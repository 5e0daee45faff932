"""What the assignments ask of a supervisor's slots."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tupletree.errors import InternalError
from tupletree.supervisor.local_assignment import LocalAssignment, newest_epoch, plan_work
from tupletree.v1.topology_pb2 import Assignment, ExecutorRange, TopologyRecord, WorkerAssignment

PORTS = (6700, 6701)


def record(topology_id: str, **conf: object) -> TopologyRecord:
    return TopologyRecord(
        id=topology_id, bundle_sha256=f"sha-{topology_id}", bundle_bytes=10, conf_json=json.dumps(conf)
    )


def assignment(topology_id: str, *workers: tuple[str, int], epoch: int = 1) -> Assignment:
    executors = [ExecutorRange(first_task=3, last_task=4), ExecutorRange(first_task=1, last_task=2)]
    return Assignment(
        topology_id=topology_id,
        epoch=epoch,
        workers=[WorkerAssignment(supervisor_id=who, port=port, executors=executors) for who, port in workers],
    )


def plan(*assignments: Assignment, records: list[TopologyRecord] | None = None) -> dict[int, LocalAssignment | None]:
    known = records if records is not None else [record(one.topology_id) for one in assignments]
    return plan_work(assignments, {one.id: one for one in known}, "me", PORTS, 30.0)


def test_without_assignments_every_slot_is_to_be_empty() -> None:
    assert plan() == {6700: None, 6701: None}


def test_a_worker_assigned_here_is_work_for_its_slot() -> None:
    work = plan(assignment("a", ("me", 6701), ("other", 6700)))
    assert work[6700] is None
    assert work[6701] == LocalAssignment("a", "sha-a", 10, "{}", ((1, 2), (3, 4)), None)


def test_a_port_that_this_supervisor_does_not_offer_is_ignored() -> None:
    assert plan(assignment("a", ("me", 9999))) == {6700: None, 6701: None}


def test_an_assignment_whose_topology_is_gone_is_no_work() -> None:
    assert plan(assignment("a", ("me", 6700)), records=[]) == {6700: None, 6701: None}


@pytest.mark.parametrize(("first_task", "tasks"), [(5, 4), (0, 3)])
def test_an_assignment_of_tasks_that_the_record_does_not_have_is_no_work(first_task: int, tasks: int) -> None:
    changed = record("a")
    changed.first_task = first_task
    changed.tasks["count"] = tasks
    assert plan(assignment("a", ("me", 6700)), records=[changed]) == {6700: None, 6701: None}


@pytest.mark.parametrize("order", [1, -1])
def test_two_topologies_in_one_slot_are_settled_by_epoch_then_by_id(order: int) -> None:
    by_epoch = [assignment("b", ("me", 6700), epoch=1), assignment("a", ("me", 6700), epoch=2)][::order]
    by_id = [assignment("a", ("me", 6700)), assignment("b", ("me", 6700))][::order]
    first, second = plan(*by_epoch)[6700], plan(*by_id)[6700]
    assert first is not None and first.topology_id == "a"
    assert second is not None and second.topology_id == "b"


@pytest.mark.parametrize(("wanted", "silence"), [(None, None), (10, None), (45, 45.0), (4000, 600.0)])
def test_a_topology_may_ask_for_a_longer_silence_timeout_up_to_ten_minutes(
    wanted: float | None, silence: float | None
) -> None:
    conf = {} if wanted is None else {"topology.worker.timeout.secs": wanted}
    work = plan(assignment("a", ("me", 6700)), records=[record("a", **conf)])[6700]
    assert work is not None and work.silence_timeout_s == silence


def test_work_survives_the_trip_to_disk() -> None:
    work = LocalAssignment("a", "sha", 10, '{"k":1}', ((1, 2),), 45.0, (("count", 7, 9),))
    facts = json.loads(json.dumps(work.to_json()))
    assert LocalAssignment.from_json(facts) == work
    del facts["tasks"]  # as an earlier version has written it
    assert LocalAssignment.from_json(facts) == replace(work, tasks=())


def test_the_worker_is_told_the_tasks_once_they_have_changed() -> None:
    changed = record("a")
    changed.tasks.update({"count": 3, "split": 1})
    assert plan(assignment("a", ("me", 6700)), records=[changed])[6700].tasks == ()  # type: ignore[union-attr]
    changed.first_task = 5
    placed = assignment("a", ("me", 6700))
    del placed.workers[0].executors[:]
    placed.workers[0].executors.add(first_task=5, last_task=8)
    work = plan(placed, records=[changed])[6700]
    assert work is not None and work.tasks == (("count", 5, 7), ("split", 8, 8))


@pytest.mark.parametrize(
    "facts", [{}, {"topology_id": "a"}, {**LocalAssignment("a", "s", 1, "", ()).to_json(), "executors": [1]}]
)
def test_a_mutilated_description_of_work_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises(InternalError, match="not a valid assignment file"):
        LocalAssignment.from_json(facts)


def test_the_newest_epoch_is_the_highest_that_an_assignment_carries() -> None:
    assert newest_epoch([]) == 0
    assert newest_epoch([assignment("a", epoch=3), assignment("b", epoch=7)]) == 7
