"""Statistics of a topology's tasks, from the reports of their workers.

A worker reports counters since its own start. A task can run in several workers one after the other: its incarnations.
Its total is the sum of the last report of each incarnation, so that counters keep rising when a worker is restarted.
Queued tuples and pending trees are those of the present incarnation only. Counts of the last ten minutes, three hours
and day are read from the history of these sums (windowed_counters.py); a new leader begins with an empty history.

A leader periodically stores the sums of each worker (``memory``), and the next leader begins with them (``recall``).
When a worker reports to the new leader, its report replaces the remembered sums of that worker. Once every task has
reported, the other remembered workers have ended, and their sums become ended incarnations (``end_silent_workers``).

Only the latest status that a task reports about itself is kept, and a new leader does not inherit it
(task_statuses.py).

Rates cover the last few seconds; capacity is the share of the last ten minutes that an executor spent executing.
Times are seconds of a monotonic clock.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from .counters import Counts, add_counts, counts_of
from .stall_detector import Answers, Stall, answers, together
from .sums import WorkerSum, add, add_gauges, has_counted
from .task_statistics import TaskStatistics
from .task_statuses import Statuses
from .timeseries import STEP_S as CHART_STEP_S
from .timeseries import Point, TimeSeries, moment_of
from .windowed_counters import STEP_S, WindowedCounters

_RETIRED_KEPT = 100_000

ENDED = ""  # stands for all ended incarnations
Memory = dict[str, dict[str, rpc.TaskStats]]  # sums by worker id and component id


@dataclass(frozen=True)
class Rates:
    """Tuples per second over the last few seconds."""

    emitted: float = 0.0
    executed: float = 0.0
    acked: float = 0.0


class TopologyStatistics:
    """Statistics of one topology."""

    def __init__(self) -> None:
        self._tasks: dict[int, TaskStatistics] = {}
        self._retired: dict[tuple[int, str], None] = {}  # replaced incarnations, oldest first; late reports are ignored
        self._remembered: Memory = {}  # of workers that have not reported to this leader
        self._statuses = Statuses()
        self._sums: dict[str, dict[str, WorkerSum]] = {}  # of present incarnations, by component and worker id
        self._ended: dict[str, rpc.TaskStats] = {}  # sums of ended incarnations, by component
        self._histories: dict[str, WindowedCounters] = {}  # by component
        self._series: dict[str, TimeSeries] = {}
        self._noted_s = self._charted_s = -math.inf

    def report(
        self,
        report: rpc.WorkerReport,
        now_s: float,
        statuses: Mapping[int, str] | None = None,
        same: Collection[int] = (),
    ) -> bool:
        """Record a worker's report. Late reports of a replaced incarnation are ignored.

        ``statuses``: the statuses that the worker's tasks report about themselves, by task id. ``same``: the tasks of
        the worker that the report leaves out, as they are as before. False if one of these is not known.
        """
        self._remembered.pop(report.worker_id, None)
        for stats in report.tasks:
            self._apply(report, _apart(stats) if report.only_changes else stats, now_s)
        known = [task for task in map(self._tasks.get, same) if task is not None]
        for task in known:
            if task.worker_id == report.worker_id:
                task.repeats(task.latest, now_s)
        self._add_samples(now_s)
        if statuses or self._statuses:
            own = (*(one.task_id for one in report.tasks), *same)
            present = {one for one in own if one in self._tasks and self._tasks[one].worker_id == report.worker_id}
            self._statuses.report(report.worker_id, present, statuses or {}, now_s)
        return len(known) == len(same)

    def latest(self, task_id: int) -> rpc.TaskStats | None:
        """Return the last report of a task."""
        task = self._tasks.get(task_id)
        return None if task is None else task.latest

    def memory(self) -> Memory:
        """Return the sums to keep for the next leader."""
        kept: Memory = {}

        def keep(worker_id: str, component_id: str, stats: rpc.TaskStats) -> None:
            add(kept.setdefault(worker_id, {}).setdefault(component_id, rpc.TaskStats()), stats)

        for worker_id, components in self._remembered.items():
            for component_id, stats in components.items():
                keep(worker_id, component_id, stats)
        for component_id, sums in self._sums.items():
            for worker_id, one in sums.items():
                keep(worker_id, component_id, one.read())
        for component_id, stats in self._ended.items():
            keep(ENDED, component_id, stats)
        return kept

    def recall(self, memory: Memory) -> None:
        """Begin with the memory of an earlier leader. Call before the first report."""
        self._remembered = memory

    def end_silent_workers(self, tasks: int) -> None:
        """Merge the remembered sums of workers that ended before they reported, once all ``tasks`` have reported."""
        if len(self._tasks) < tasks or self._remembered.keys() <= {ENDED}:
            return
        ended: dict[str, rpc.TaskStats] = {}
        for components in self._remembered.values():
            for component_id, stats in components.items():
                add(ended.setdefault(component_id, rpc.TaskStats()), stats)
        self._remembered = {ENDED: ended}

    def component(self, component_id: str) -> rpc.TaskStats:
        """Return the sum over a component's tasks; task id 0."""
        total = self._heard(component_id)
        for components in self._remembered.values():
            if component_id in components:
                add(total, components[component_id])
        return total

    def _heard(self, component_id: str) -> rpc.TaskStats:
        """Return the sum without the memory of an earlier leader."""
        total = rpc.TaskStats(component_id=component_id)
        if component_id in self._ended:
            add(total, self._ended[component_id])
        for one in self._sums.get(component_id, {}).values():
            stats = one.read()
            add(total, stats)
            add_gauges(total, stats)
            total.congested = total.congested or stats.congested
            total.found_blocking = total.found_blocking or stats.found_blocking
        return total

    def statuses(self, tasks: Iterable[int], now_s: float) -> list[rpc.TaskStatus]:
        """Return the unexpired statuses that tasks report about themselves."""
        return self._statuses.of(tasks, now_s)

    def counts(self, component_id: str, window_s: float | None, now_s: float) -> Counts:
        """Return all counters of a component in the last ``window_s``; None: all time."""
        if window_s is None:
            return counts_of(self.component(component_id))
        history = self._histories.get(component_id)
        return {} if history is None else history.in_window(counts_of(self._heard(component_id)), window_s, now_s)

    def lately(self, component_id: str, counters: Sequence[str], window_s: float, now_s: float) -> list[int]:
        """Return a few of a component's own counters in the last ``window_s``; much cheaper than ``counts``."""
        total = self._heard(component_id)
        now: Counts = {one: getattr(total, one) for one in counters}
        if not any(now.values()):
            return [0 for _ in counters]
        found = self._histories[component_id].in_window(now, window_s, now_s)
        return [round(found.get(one, 0)) for one in counters]

    def task_counts(self, tasks: Iterable[int], window_s: float | None, now_s: float) -> Counts:
        """Return summed scalar counters of ``tasks`` in the last ``window_s``; None: all reported to this leader."""
        found: Counts = {}
        for task in map(self._tasks.get, tasks):
            if task is not None:
                add_counts(found, task.in_window(window_s, now_s))
        return found

    def series(self, component_id: str) -> Sequence[Point]:
        """Return the chart points of a component, oldest first. All components are sampled at the same times."""
        series = self._series.get(component_id)
        return () if series is None else series.points

    def gauges(self, tasks: Iterable[int]) -> dict[str, int | bool]:
        """Return the summed queued tuples and pending trees of ``tasks``, and a flag for any task congested."""
        found = [task.latest for task in map(self._tasks.get, tasks) if task is not None]
        return {
            "queued": sum(one.queued for one in found),
            "pending": sum(one.pending for one in found),
            "congested": any(one.congested for one in found),
        }

    def rates(self, tasks: Iterable[int], now_s: float) -> Rates:
        """Return the summed rates of ``tasks``."""
        known = [task.rates(now_s) for task in map(self._tasks.get, tasks) if task is not None]
        return Rates(*map(sum, zip(*known, strict=True)))

    def standstill(self, tasks: Iterable[int], after_s: float) -> Stall:
        """Return the stalls of a component's tasks that have lasted for more than ``after_s``."""
        found = [task.movement for task in map(self._tasks.get, tasks) if task is not None]
        return together(found, after_s)

    def answers(self, tasks: Iterable[int], is_spout: bool = False) -> Answers:
        """Return the combined acks, fails and running calls of a component's tasks."""
        return answers((task.movement for task in map(self._tasks.get, tasks) if task is not None), is_spout)

    def blocking(self, executors: Iterable[Sequence[int]]) -> int:
        """Return the number of executors that were found blocking. Each executor is given as its task ids."""
        known = ([self._tasks[one] for one in tasks if one in self._tasks] for tasks in executors)
        return sum(any(task.latest.found_blocking for task in tasks) for tasks in known)

    def capacity(self, executors: Iterable[Sequence[int]], now_s: float) -> float:
        """Return the capacity of the busiest executor. Each executor is given as its task ids."""
        known = ([self._tasks[one] for one in tasks if one in self._tasks] for tasks in executors)
        return max((sum(task.busy_share(now_s) for task in tasks) for tasks in known), default=0.0)

    def _add_samples(self, now_s: float) -> None:
        """Sample the present counters for charts and histories, when a sample is due."""
        if now_s - self._charted_s >= CHART_STEP_S:
            self._charted_s = now_s
            for component_id, series in self._series.items():
                series.add_sample(moment_of(self._heard(component_id), now_s))
        if now_s - self._noted_s < STEP_S:
            return
        self._noted_s = now_s
        for component_id, history in self._histories.items():
            history.add_sample(counts_of(self._heard(component_id)), now_s)
        for task in self._tasks.values():
            task.add_sample(now_s)

    def _apply(self, report: rpc.WorkerReport, stats: rpc.TaskStats, now_s: float) -> None:
        """Record the report of one task."""
        task = self._tasks.get(stats.task_id)
        if task is None:
            self._begin(report, stats, now_s)
        elif task.worker_id != report.worker_id:
            if (stats.task_id, report.worker_id) not in self._retired:
                self._move(task, report.worker_id, stats, now_s)
        elif stats == task.latest:
            task.repeats(stats, now_s)
        else:
            self._sums[task.component_id][task.worker_id].changes(stats.task_id)
            task.changes(stats, now_s)

    def _begin(self, report: rpc.WorkerReport, stats: rpc.TaskStats, now_s: float) -> None:
        """Begin with a newly reported task, which can have been running for long."""
        task = self._tasks[stats.task_id] = TaskStatistics(report.worker_id, stats, report.uptime_s, now_s)
        is_first = stats.component_id not in self._histories
        history = self._histories.setdefault(stats.component_id, WindowedCounters())
        series = self._series.setdefault(stats.component_id, TimeSeries())
        if is_first or has_counted(stats):  # a first report of nothing begins the history at 0
            history.credit(counts_of(stats), now_s - max(0.0, report.uptime_s), now_s)
        if has_counted(stats):
            series.credit(moment_of(stats, now_s))
        self._include(task, stats.task_id)

    def _move(self, task: TaskStatistics, worker_id: str, stats: rpc.TaskStats, now_s: float) -> None:
        """Record that a task now runs on another worker."""
        self._retired[stats.task_id, task.worker_id] = None
        if len(self._retired) > _RETIRED_KEPT:
            del self._retired[next(iter(self._retired))]
        left = self._sums[task.component_id]
        left[task.worker_id].remove_task(stats.task_id)
        if not left[task.worker_id]:
            del left[task.worker_id]
        add(self._ended.setdefault(task.component_id, rpc.TaskStats()), task.latest)
        task.moves(worker_id, stats, now_s)
        self._include(task, stats.task_id)

    def _include(self, task: TaskStatistics, task_id: int) -> None:
        sums = self._sums.setdefault(task.component_id, {})
        sums.setdefault(task.worker_id, WorkerSum(task.component_id)).add_task(task_id, task)


def _apart(stats: rpc.TaskStats) -> rpc.TaskStats:
    """Return a copy that does not keep the rest of its report in memory: the task may have no news for long."""
    found = rpc.TaskStats()
    found.CopyFrom(stats)
    return found


def summarize(
    statistics: TopologyStatistics,
    record: pb.TopologyRecord,
    kinds: Mapping[str, pb.ComponentKind],
    tasks: Mapping[str, range],
    executors: Iterable[tuple[int, int]],
    now_s: float,
    remarks: Mapping[str, str],
) -> list[rpc.ComponentStats]:
    """Return one entry per component, ascending by id. ``executors``: first and last task of each executor."""
    ranges = [range(first, last + 1) for first, last in executors]
    summaries = []
    for component_id, ids in sorted(tasks.items()):
        own = [one for one in ranges if one.start in ids]
        rates = statistics.rates(ids, now_s)
        summaries.append(
            rpc.ComponentStats(
                component_id=component_id,
                kind=kinds.get(component_id, pb.COMPONENT_KIND_UNSPECIFIED),
                executors=len(own),
                tasks=record.tasks[component_id],
                total=statistics.component(component_id),
                capacity=statistics.capacity(own, now_s),
                emitted_per_s=rates.emitted,
                executed_per_s=rates.executed,
                acked_per_s=rates.acked,
                statuses=statistics.statuses(ids, now_s),
                remark=remarks.get(component_id, ""),
            )
        )
    return summaries
