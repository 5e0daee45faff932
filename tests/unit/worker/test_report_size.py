"""A worker's report always fits into a message, however many tasks the worker has."""

from __future__ import annotations

from tupletree._wire.latency import BUCKETS
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.worker.reporting.heartbeats import bounded


def report(tasks: int) -> rpc.WorkerReport:
    stats = [
        rpc.TaskStats(
            task_id=number,
            component_id="split",
            executed=10**9,
            process_buckets=[10**6] * BUCKETS,
            inputs=[rpc.InputStats(source_component="lines", stream="default", executed=10**9)] * 10,
        )
        for number in range(1, tasks + 1)
    ]
    statuses = [rpc.TaskStatus(task_id=number, status_json="x" * 8000) for number in range(1, tasks + 1)]
    return rpc.WorkerReport(topology_id="t", tasks=stats, statuses=statuses, unfinished=7)


def test_what_makes_a_report_too_large_is_left_out_details_first() -> None:
    whole = report(20)
    assert bounded(report(20)) == whole
    no_statuses = bounded(report(20), 100_000)
    assert not no_statuses.statuses
    assert list(no_statuses.tasks) == list(whole.tasks)
    no_buckets = bounded(report(20), 12_000)
    assert not any(one.process_buckets for one in no_buckets.tasks)
    assert all(one.inputs for one in no_buckets.tasks)
    least = bounded(report(20), 1000)
    assert least.ByteSize() <= 1000
    assert [one.executed for one in least.tasks] == [10**9] * 20
    assert least.unfinished == 7
