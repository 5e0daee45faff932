"""What workers can have nimbus believe and hold, whatever they report."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tupletree.errors import ProtocolError
from tupletree.nimbus.statistics.report_validation import (
    MAX_BUCKETS,
    MAX_COUNTED,
    MAX_NAME_LENGTH,
    MAX_STREAMS,
    check_report,
    leave_out_unknown,
)
from tupletree.nimbus.statistics.topology_statistics import TopologyStatistics
from tupletree.nimbus.statistics.windowed_counters import WindowedCounters
from tupletree.v1.nimbus_pb2 import InputStats, StreamStats, TaskStats, WorkerReport


def report(worker_id: str = "w", **task: Any) -> WorkerReport:
    tasks = [TaskStats(**{"task_id": number, "component_id": "split", **task}) for number in (1, 2)]
    return WorkerReport(topology_id="words-1-5", worker_id=worker_id, uptime_s=5.0, http_port=65_535, tasks=tasks)


def nothing(task_id: int) -> None:
    """No task has reported yet."""


def test_what_a_worker_reports_is_taken() -> None:
    check_report(WorkerReport(), "", nothing)
    streams = [StreamStats(stream=f"s{number}", emitted=MAX_COUNTED) for number in range(MAX_STREAMS)]
    inputs = [InputStats(source_component="a", stream="default", execute_s=1.5)]
    counts = [1] * MAX_BUCKETS
    told = report(executed=MAX_COUNTED, streams=streams, inputs=inputs, process_buckets=counts)
    check_report(told, "words-1-5", nothing)


@pytest.mark.parametrize(
    "task",
    [
        {"executed": 2**64 - 1},
        {"pending": 2**64 - 1},
        {"execute_s": math.nan},
        {"execute_s": math.inf},
        {"process_s_sum": -1.0},
        {"component_id": "x" * (MAX_NAME_LENGTH + 1)},
        {"process_buckets": [1] * (MAX_BUCKETS + 1)},
        {"complete_buckets": [2**64 - 1]},
        {"streams": [StreamStats(stream=str(number)) for number in range(MAX_STREAMS + 1)]},
        {"streams": [StreamStats(stream="x" * (MAX_NAME_LENGTH + 1))]},
        {"streams": [StreamStats(complete_s_sum=math.nan)]},
        {"inputs": [InputStats(source_component="a", acked=2**64 - 1)]},
        {"inputs": [InputStats(stream="x" * (MAX_NAME_LENGTH + 1))]},
    ],
    ids=range(13),
)
def test_what_no_worker_reports_is_refused(task: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        check_report(report(**task), "words-1-5", nothing)


@pytest.mark.parametrize(
    "field", [{"uptime_s": math.nan}, {"http_port": 70_000}, {"host": "x" * (MAX_NAME_LENGTH + 1)}], ids=range(3)
)
def test_nor_of_the_worker_itself(field: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        check_report(WorkerReport(worker_id="w", **field), "", nothing)


def test_nor_of_two_topologies_in_one_stream() -> None:
    with pytest.raises(ProtocolError, match="a stream of reports mixes topologies"):
        check_report(report(), "words-2-6", nothing)


def test_what_was_found_in_order_before_is_not_looked_at_again() -> None:
    told = report(executed=5)
    told.tasks[1].executed = 2**64 - 1
    check_report(told, "words-1-5", lambda task_id: told.tasks[1] if task_id == 2 else None)
    with pytest.raises(ProtocolError):
        check_report(told, "words-1-5", lambda task_id: told.tasks[1] if task_id == 1 else None)


def test_figures_of_tasks_that_there_are_not_are_left_out() -> None:
    told = WorkerReport(tasks=[TaskStats(task_id=number, executed=7) for number in (0, 1, 3, 4, 2**30)])
    leave_out_unknown(told, 3)
    assert [(one.task_id, one.executed) for one in told.tasks] == [(1, 7), (3, 7)]


def test_sums_stay_what_a_message_can_hold() -> None:
    statistics = TopologyStatistics()
    for number in range(3):
        streams = [StreamStats(stream=f"{number} {one}", emitted=2**63) for one in range(MAX_STREAMS // 2)]
        inputs = [
            InputStats(source_component="a", stream="s", executed=2**63),
            InputStats(source_component=str(number)),
        ]
        told = report(f"w{number}", executed=2**63, streams=streams, inputs=inputs, process_buckets=[2**63])
        statistics.report(told, float(number))
    (kept,) = statistics.memory()[""].values()
    assert kept.executed == 2**63 and list(kept.process_buckets) == [2**63]
    assert len(kept.streams) == MAX_STREAMS
    assert len(kept.inputs) == 3
    assert statistics.component("split").executed == 2**63


def test_a_history_has_so_many_counters_and_no_more() -> None:
    history = WindowedCounters(["executed"])
    for moment in range(4):
        counts = {("stream", f"{moment} {number}", "emitted"): 1.0 for number in range(6000)}
        history.add_sample({"executed": 10.0 * moment, **counts}, 30.0 * moment)
    found = history.in_window({"executed": 30.0, **counts}, 600, 90.0)
    assert found["executed"] == 30.0
    assert len(found) < 6000
