"""Plausibility checks of worker reports. Pure.

Workers run user code, and their reports are added to those of other workers, stored, and shown to everybody. Metrics
therefore have bounds that no worker reaches in its lifetime, and the number and length of names are limited.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Callable, Collection, Iterable
from operator import attrgetter
from typing import Any, Final

from tupletree.errors import ProtocolError
from tupletree.v1 import nimbus_pb2 as rpc

from .counters import GAUGES, INPUT_COUNTERS, STREAM_COUNTERS, TASK_COUNTERS

MAX_COUNTED: Final = 2**53  # also for seconds
MAX_STREAMS: Final = 5000  # output or input streams of one task
MAX_BUCKETS: Final = 1000  # latency buckets of a task; more than exist, as a worker of another version can have more
MAX_NAME_LENGTH: Final = 1000

_Figures = Callable[[Any], Iterable[float]]
_of_task: Final[_Figures] = attrgetter(*TASK_COUNTERS, *GAUGES)
_of_stream: Final[_Figures] = attrgetter(*STREAM_COUNTERS)
_of_input: Final[_Figures] = attrgetter(*INPUT_COUNTERS)


Known = Callable[[int], rpc.TaskStats | None]
"""Returns the last report of a task, given its id."""


def check_report(report: rpc.WorkerReport, topology_id: str, known: Known) -> None:
    """Reject a report that no genuine worker of the topology sends. Raises ProtocolError.

    A task's entry equal to its ``known`` report is not checked again: most tasks repeat their report of a second ago.
    """
    if report.topology_id != topology_id:
        raise ProtocolError("a stream of reports mixes topologies")
    _check_names(report.worker_id, report.supervisor_id, report.host)
    if not 0 <= report.uptime_s <= MAX_COUNTED or report.http_port > 65_535:
        raise ProtocolError("a report has an invalid uptime or port")
    for stats in report.tasks:
        if stats == known(stats.task_id):
            continue
        figures = [*_of_task(stats), stats.call_s]
        _check_names(stats.component_id)
        if max(len(stats.streams), len(stats.inputs)) > MAX_STREAMS:
            raise ProtocolError(f"task {stats.task_id} reports more than {MAX_STREAMS} streams")
        for buckets in (stats.process_buckets, stats.complete_buckets):
            if len(buckets) > MAX_BUCKETS:
                raise ProtocolError(f"task {stats.task_id} reports more than {MAX_BUCKETS} buckets of latencies")
            figures.append(max(buckets, default=0))  # buckets are unsigned
        for stream in stats.streams:
            _check_names(stream.stream)
            figures += _of_stream(stream)
        for one in stats.inputs:
            _check_names(one.source_component, one.stream)
            figures += _of_input(one)
        _check_figures(stats.task_id, figures)


def leave_out_unknown(report: rpc.WorkerReport, last_task: int) -> None:
    """Remove the entries of unknown tasks from a report. The topology's tasks are 1 to ``last_task``.

    Memory use is thus bounded by the size of the submitted topologies.
    """
    known = [one for one in report.tasks if 0 < one.task_id <= last_task]
    if len(known) < len(report.tasks):
        del report.tasks[:]
        report.tasks.extend(known)


def _check_figures(task_id: int, figures: Collection[float]) -> None:
    if min(figures) >= 0 and max(figures) <= MAX_COUNTED and not math.isnan(sum(figures)):
        return
    for figure in figures:
        if not 0 <= figure <= MAX_COUNTED:
            raise ProtocolError(f"task {task_id} reports a metric out of range: {figure:g}")


def _check_names(*names: str) -> None:
    for name in names:
        if len(name) > MAX_NAME_LENGTH:
            raise ProtocolError(f"a report contains a name of more than {MAX_NAME_LENGTH} characters")
