"""What nimbus keeps of what tasks say of themselves: the latest, for a while, within limits."""

from __future__ import annotations

import json

from tupletree._wire.statuses import MAX_BYTES, MAX_BYTES_TOGETHER
from tupletree.nimbus.leader.leader_state import LeaderState
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.statistics.stats_encoding import encode_memory
from tupletree.nimbus.statistics.task_statuses import STALE_S, split
from tupletree.nimbus.statistics.topology_statistics import TopologyStatistics, summarize
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb


def report(worker_id: str, statuses: dict[int, str], tasks: tuple[int, ...] = (1, 2)) -> rpc.WorkerReport:
    return rpc.WorkerReport(
        topology_id="t",
        supervisor_id="s",
        port=1,
        worker_id=worker_id,
        tasks=[rpc.TaskStats(task_id=one, component_id="c") for one in tasks],
        statuses=[rpc.TaskStatus(task_id=one, status_json=text) for one, text in statuses.items()],
    )


def take(statistics: TopologyStatistics, one: rpc.WorkerReport, now_s: float) -> None:
    lean, told = split(one)
    statistics.report(lean, now_s, told)


def said(statistics: TopologyStatistics, now_s: float) -> dict[int, str]:
    return {one.task_id: one.status_json for one in statistics.statuses(range(1, 1000), now_s)}


def test_each_report_replaces_what_its_worker_said_before() -> None:
    one = TopologyStatistics()
    take(one, report("w1", {1: '{"a":1}', 2: '{"a":2}'}), 0)
    take(one, report("w1", {1: '{"a":3}'}), 1)
    assert said(one, 1) == {1: '{"a":3}'}


def test_a_status_has_an_age_and_is_dropped_when_reports_stop() -> None:
    one = TopologyStatistics()
    take(one, report("w1", {1: "{}"}), 10)
    assert [status.age_s for status in one.statuses([1], 12)] == [2]
    assert said(one, 10 + STALE_S) == {1: "{}"}
    assert said(one, 10.1 + STALE_S) == {}


def test_a_new_incarnation_does_not_inherit_and_a_late_report_of_the_old_one_changes_nothing() -> None:
    one = TopologyStatistics()
    take(one, report("w1", {1: '{"old":1}', 2: '{"old":1}'}), 0)
    take(one, report("w2", {2: '{"new":1}'}), 1)
    take(one, report("w1", {1: '{"old":2}', 2: '{"old":2}'}), 2)
    assert said(one, 2) == {2: '{"new":1}'}


def test_what_is_not_small_or_not_json_or_of_no_task_of_the_worker_is_left_out() -> None:
    one = TopologyStatistics()
    huge = json.dumps({"a": "x" * MAX_BYTES})
    take(one, report("w1", {1: huge, 2: "{", 3: "[]", 4: "{}", 5: "{}"}, tasks=(1, 2, 3, 4)), 0)
    assert said(one, 0) == {4: "{}"}


def test_a_topology_cannot_say_more_than_a_limit_and_can_again_when_the_old_is_gone() -> None:
    one = TopologyStatistics()
    text = json.dumps({"a": "x" * (MAX_BYTES - 20)})
    room = MAX_BYTES_TOGETHER // len(text)
    tasks = tuple(range(1, 501))
    take(one, report("w1", {task: text for task in tasks}, tasks), 0)
    take(one, report("w2", {501: text}, (501,)), 0)
    assert len(said(one, 0)) == room
    assert 501 not in said(one, 0)
    take(one, report("w2", {501: text}, (501,)), STALE_S + 1)
    assert set(said(one, STALE_S + 1)) == {501}


def test_the_memory_of_a_leader_has_no_statuses() -> None:
    one = TopologyStatistics()
    take(one, report("w1", {1: '{"secret":1}'}), 0)
    data, _ = encode_memory(one.memory())
    assert b"secret" not in data
    assert b"w1" in data


def test_the_report_that_is_kept_has_no_statuses() -> None:
    leader_state = LeaderState(1, 30, 30, 0)
    leader_state.assigned({"t": {Slot("s", 1): ((1, 2),)}}, ["t"], 0)
    leader_state.report(report("w1", {1: "{}"}), 1)
    [kept] = leader_state.reports.values()
    assert (kept.report.worker_id, len(kept.report.tasks), len(kept.report.statuses)) == ("w1", 2, 0)
    assert said(leader_state.statistics("t"), 1) == {1: "{}"}


def test_components_are_described_with_the_statuses_of_their_tasks() -> None:
    one = TopologyStatistics()
    take(one, report("w1", {1: '{"a":1}', 3: '{"b":1}'}, (1, 2, 3)), 0)
    tasks = {"a": range(1, 3), "b": range(3, 4)}
    record = pb.TopologyRecord(tasks={"a": 2, "b": 1})
    found = summarize(one, record, {}, tasks, [(1, 2), (3, 3)], now_s=1, remarks={})
    assert {component.component_id: [status.status_json for status in component.statuses] for component in found} == {
        "a": ['{"a":1}'],
        "b": ['{"b":1}'],
    }
