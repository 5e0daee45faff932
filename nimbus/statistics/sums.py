"""Sums over the reports of tasks. Pure.

``WorkerSum`` is updated incrementally: the cost of a read is proportional to the number of tasks that changed since the
last read. In very large topologies, most tasks have nothing new to report.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable
from itertools import zip_longest
from operator import attrgetter
from typing import Protocol

from google.protobuf.message import Message

from tupletree.v1 import nimbus_pb2 as rpc

from .counters import GAUGES, INPUT_COUNTERS, STREAM_COUNTERS, TASK_COUNTERS
from .report_validation import MAX_STREAMS

_MAX_SUMMED = 2**63
_NOTHING = rpc.TaskStats()
_of_task = attrgetter(*TASK_COUNTERS)


class Reporting(Protocol):
    """A task with its latest report."""

    latest: rpc.TaskStats


class WorkerSum:
    """The sum over the tasks of one component in one worker, in counters and gauges; task id 0."""

    def __init__(self, component_id: str) -> None:
        self._sum = rpc.TaskStats(component_id=component_id)
        self._tasks: dict[int, Reporting] = {}
        self._congested: set[int] = set()
        self._blocking: set[int] = set()
        self._before: dict[int, rpc.TaskStats | None] = {}  # changed tasks: the report still included in the sum

    def __len__(self) -> int:
        return len(self._tasks)

    def add_task(self, task_id: int, task: Reporting) -> None:
        """Include the task in the sum."""
        self._tasks[task_id] = task
        self._before.setdefault(task_id, None)

    def changes(self, task_id: int) -> None:
        """Call before the task's latest report is replaced by a different report."""
        if task_id not in self._before:
            self._before[task_id] = self._tasks[task_id].latest

    def remove_task(self, task_id: int) -> None:
        """Remove the task from the sum."""
        self.changes(task_id)
        del self._tasks[task_id]

    def read(self) -> rpc.TaskStats:
        """Return the current sum. The caller must not change it; it is valid until the next report."""
        if 2 * len(self._before) > len(self._tasks) or any(one >= _MAX_SUMMED for one in _of_task(self._sum)):
            self._sum = rpc.TaskStats(component_id=self._sum.component_id)  # also removes rounding errors
            for task in self._tasks.values():
                self._include(task.latest)
        else:
            for task_id, before in self._before.items():
                if before is not None:
                    subtract(self._sum, before)
                    add_gauges(self._sum, before, -1)
                if task_id in self._tasks:
                    self._include(self._tasks[task_id].latest)
        self._mark(self._before)
        self._before.clear()
        return self._sum

    def _mark(self, changed: Iterable[int]) -> None:
        """Set the flags for any task congested and any task found blocking."""
        for task_id in changed:
            latest = self._tasks[task_id].latest if task_id in self._tasks else _NOTHING
            for tasks, is_one in ((self._congested, latest.congested), (self._blocking, latest.found_blocking)):
                if is_one:
                    tasks.add(task_id)
                else:
                    tasks.discard(task_id)
        self._sum.congested, self._sum.found_blocking = bool(self._congested), bool(self._blocking)

    def _include(self, stats: rpc.TaskStats) -> None:
        total = self._sum
        names_more = len(stats.streams) > len(total.streams) or len(stats.inputs) > len(total.inputs)
        if names_more or has_counted(stats):
            add(total, stats)
        add_gauges(total, stats)


def has_counted(stats: rpc.TaskStats) -> bool:
    """True if a task has done anything. In very large topologies, most tasks have not."""
    return any(_of_task(stats)) or any(stream.emitted for stream in stats.streams)


def add(total: rpc.TaskStats, more: rpc.TaskStats) -> None:
    """Add the counters of ``more`` to ``total``, per stream and per bucket.

    Counters and the number of streams are capped: no report, in any number of incarnations, makes a sum overflow.
    """
    total.component_id = total.component_id or more.component_id
    _raise(total, TASK_COUNTERS, more)
    streams = {stream.stream: stream for stream in total.streams}
    for stream in more.streams:
        if stream.stream not in streams and len(streams) < MAX_STREAMS:
            streams[stream.stream] = total.streams.add(stream=stream.stream)
        if stream.stream in streams:
            _raise(streams[stream.stream], STREAM_COUNTERS, stream)
    inputs = {(one.source_component, one.stream): one for one in total.inputs}
    for one in more.inputs:
        key = one.source_component, one.stream
        if key not in inputs and len(inputs) < MAX_STREAMS:
            inputs[key] = total.inputs.add(source_component=one.source_component, stream=one.stream)
        if key in inputs:
            _raise(inputs[key], INPUT_COUNTERS, one)
    for name in ("process_buckets", "complete_buckets"):
        buckets, summand = getattr(total, name), getattr(more, name)
        if summand:
            buckets[:] = [min(_MAX_SUMMED, a + b) for a, b in zip_longest(buckets, summand, fillvalue=0)]


def add_gauges(total: rpc.TaskStats, more: rpc.TaskStats, times: int = 1) -> None:
    """Add the gauges of ``more``, so many times, to those of ``total``: queued tuples, pending trees. -1 subtracts."""
    for gauge in GAUGES:
        setattr(total, gauge, getattr(total, gauge) + times * getattr(more, gauge))


def subtract(total: rpc.TaskStats, part: rpc.TaskStats) -> None:
    """Undo ``add``, provided that the sum has reached no limit. Seconds can differ by rounding."""
    _lower(total, TASK_COUNTERS, part)
    streams = {stream.stream: stream for stream in total.streams}
    for stream in part.streams:
        if stream.stream in streams:
            _lower(streams[stream.stream], STREAM_COUNTERS, stream)
    inputs = {(one.source_component, one.stream): one for one in total.inputs}
    for one in part.inputs:
        if (key := (one.source_component, one.stream)) in inputs:
            _lower(inputs[key], INPUT_COUNTERS, one)
    for name in ("process_buckets", "complete_buckets"):
        buckets = getattr(total, name)
        for bucket, count in enumerate(getattr(part, name)):
            buckets[bucket] = max(0, buckets[bucket] - count)


def _raise(total: Message, counters: Iterable[str], more: Message) -> None:
    for counter in counters:
        setattr(total, counter, min(_MAX_SUMMED, getattr(total, counter) + getattr(more, counter)))


def _lower(total: Message, counters: Iterable[str], part: Message) -> None:
    for counter in counters:
        setattr(total, counter, max(0, getattr(total, counter) - getattr(part, counter)))
