"""Whether a worker's report can be true. Pure.

Workers run other people's code, and what they report is summed with what others reported, kept, and shown to everybody.
So figures have bounds that no worker reaches in a lifetime, and names are not longer, nor more, than names are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tupletree.errors import ProtocolError
from tupletree.v1 import nimbus_pb2 as rpc

from .counts import GAUGES, INPUT_COUNTERS, STREAM_COUNTERS, TASK_COUNTERS

MOST_COUNTED: Final = 2**53  # also of seconds
MOST_STREAMS: Final = 5000  # that one task emits on, or receives
MOST_BUCKETS: Final = 1000  # of latencies: more than there are, for a worker of another version may have others
LONGEST_NAME: Final = 1000


def check_report(report: rpc.WorkerReport) -> None:
    """Raises ProtocolError for a report that no worker of ours sends."""
    _check_names((report.worker_id, report.supervisor_id, report.host))
    if not 0 <= report.uptime_s <= MOST_COUNTED or report.http_port > 65_535:
        raise ProtocolError("a report has an uptime or a port that there is not")
    for stats in report.tasks:
        _check_figures(stats, (*TASK_COUNTERS, *GAUGES), stats.task_id)
        _check_names((stats.component_id,))
        if max(len(stats.streams), len(stats.inputs)) > MOST_STREAMS:
            raise ProtocolError(f"task {stats.task_id} reports more than {MOST_STREAMS} streams")
        if max(len(stats.process_counts), len(stats.complete_counts)) > MOST_BUCKETS:
            raise ProtocolError(f"task {stats.task_id} reports more than {MOST_BUCKETS} buckets of latencies")
        if max((*stats.process_counts, *stats.complete_counts), default=0) > MOST_COUNTED:
            raise ProtocolError(f"task {stats.task_id} reports a figure out of range")
        for stream in stats.streams:
            _check_names((stream.stream,))
            _check_figures(stream, STREAM_COUNTERS, stats.task_id)
        for one in stats.inputs:
            _check_names((one.source_component, one.stream))
            _check_figures(one, INPUT_COUNTERS, stats.task_id)


def _check_figures(
    message: rpc.TaskStats | rpc.StreamStats | rpc.InputStats, names: Iterable[str], task_id: int
) -> None:
    for name in names:
        if not 0 <= getattr(message, name) <= MOST_COUNTED:  # nor is what is not a number
            raise ProtocolError(f"task {task_id} reports a figure out of range: {name}")


def _check_names(names: Iterable[str]) -> None:
    if any(len(name) > LONGEST_NAME for name in names):
        raise ProtocolError(f"a report names something with more than {LONGEST_NAME} characters")
