"""Reports that hold only what has changed say the same as complete ones, and nimbus asks for all when it must."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tupletree.nimbus.leader.leader_state import LeaderState
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.worker.reporting.report_stream import leave_out_known

TASKS = (1, 2, 3)
SLOT = Slot("s", 6700)
PLACEMENTS = {"t": {SLOT: tuple((one, one) for one in TASKS)}}


def leader() -> LeaderState:
    made = LeaderState(1, 30, 120, 0.0)
    made.assigned(PLACEMENTS, PLACEMENTS.keys(), 0.0)
    return made


def complete(counts: dict[int, int], worker_id: str, uptime_s: float) -> rpc.WorkerReport:
    report = rpc.WorkerReport(topology_id="t", worker_id=worker_id, supervisor_id="s", port=6700, uptime_s=uptime_s)
    for task_id, executed in counts.items():
        one = report.tasks.add(task_id=task_id, component_id="c", executed=executed, queued=executed % 3)
        one.streams.add(stream="default", emitted=executed)
        report.statuses.add(task_id=task_id, status_json=json.dumps({"executed": executed}))
    return report


class Worker:
    """The worker's side of a stream, without the stream."""

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self._known: dict[int, bytes] | None = None

    def report(self, counts: dict[int, int], to: LeaderState, now_s: float) -> int:
        """Report to a nimbus; return how many tasks the report named."""
        report = complete(counts, self.worker_id, now_s)
        tasks = {one.task_id: one.SerializeToString() for one in report.tasks}
        if self._known is not None:
            leave_out_known(report, tasks, self._known)
        named = len(report.tasks)
        arrived = rpc.WorkerReport.FromString(report.SerializeToString())
        self._known = tasks if to.report(arrived, now_s) else None
        return named


def seen(state: LeaderState, now_s: float) -> list[object]:
    found = state.statistics("t")
    return [
        found.component("c"),
        found.gauges(TASKS),
        found.rates(TASKS, now_s),
        found.capacity([(one,) for one in TASKS], now_s),
        found.task_counts(TASKS, 600, now_s),
        found.standstill(TASKS, 2.0),
        sorted((one.task_id, one.status_json) for one in found.statuses(TASKS, now_s)),
        state.is_ready("t", SLOT, PLACEMENTS["t"][SLOT], now_s),
    ]


steps = st.lists(
    st.tuples(
        st.lists(st.sampled_from(TASKS), max_size=3),  # the tasks that work
        st.floats(0.5, 30),  # the time until the next report
        st.sampled_from(["", "", "", "", "restart", "lost answer"]),
    ),
    max_size=30,
)


@given(steps)
def test_differences_say_what_complete_reports_say(
    script: list[tuple[list[int], float, str]],
) -> None:
    by_all, by_difference = leader(), leader()
    worker, now_s, counts = Worker("w0"), 1.0, dict.fromkeys(TASKS, 0)
    for number, (working, pause_s, happens) in enumerate(script):
        if happens == "restart":
            worker, counts = Worker(f"w{number + 1}"), dict.fromkeys(TASKS, 0)
        elif happens == "lost answer":
            worker = Worker(worker.worker_id)  # another stream
        for task_id in working:
            counts[task_id] += 1
        by_all.report(complete(counts, worker.worker_id, now_s), now_s)
        worker.report(counts, by_difference, now_s)
        assert seen(by_difference, now_s) == seen(by_all, now_s)
        now_s += pause_s


def test_only_tasks_with_news_are_named() -> None:
    state, worker = leader(), Worker("w")
    assert worker.report({1: 5, 2: 5, 3: 5}, state, 1.0) == 3
    assert worker.report({1: 5, 2: 6, 3: 5}, state, 2.0) == 1
    assert worker.report({1: 5, 2: 6, 3: 5}, state, 3.0) == 0
    assert state.statistics("t").component("c").executed == 16


def test_all_is_asked_for_again_after_a_change_of_leaders_and_while_the_slot_is_not_assigned() -> None:
    state, worker = leader(), Worker("w")
    worker.report({1: 5, 2: 5, 3: 5}, state, 1.0)
    other = leader()
    assert [worker.report({1: 6, 2: 5, 3: 5}, other, now_s) for now_s in (2.0, 3.0, 4.0)] == [1, 3, 0]
    assert other.statistics("t").component("c").executed == 16
    other.assigned({}, (), 5.0)
    assert [worker.report({1: 6, 2: 5, 3: 5}, other, now_s) for now_s in (6.0, 7.0)] == [0, 3]
    other.assigned(PLACEMENTS, PLACEMENTS.keys(), 8.0)
    assert [worker.report({1: 6, 2: 5, 3: 5}, other, now_s) for now_s in (9.0, 10.0)] == [3, 0]
    assert other.statistics("t").component("c").executed == 16


def test_many_workers_are_asked_to_report_less_often_unless_their_topology_is_waited_for() -> None:
    state = LeaderState(1, 30, 120, 0.0)
    slots = {Slot("s", port): ((port, port),) for port in range(1, 2001)}
    state.assigned({"t": slots}, {"t"}, 0.0)
    assert state.next_report_s("t") == 2.0
    state.draining.waiting(["t"])
    assert state.next_report_s("t") == 0.0
    state.assigned({"t": dict(list(slots.items())[:1000])}, {"t"}, 1.0)
    state.draining.waiting([])
    assert state.next_report_s("t") == 0.0
    state.assigned({"t": {Slot("s", port): ((port, port),) for port in range(1, 9001)}}, {"t"}, 2.0)
    assert state.next_report_s("t") == 3.0
