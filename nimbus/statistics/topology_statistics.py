"""What the tasks of a topology have done, from the reports of their workers.

A worker reports counters since its own start. A task that lived in several workers one after the other, its
incarnations, has done the sum of what each reported last; so figures go on rising when a worker is restarted. What is
waiting or pending is of the present incarnation only. What was counted in the last ten minutes, three hours and day is
read from the past of these sums (windowed_counters.py); a new leader begins that past anew.

A leader writes down from time to time what each worker has done (``memory``), and the next leader begins with that
(``recall``): the figures of a worker that reports to it replace what is remembered of that worker.

Of the status that a task reports about itself only the latest is kept, and no leader inherits it (task_statuses.py).

Rates are over the last seconds; capacity is the share of the last ten minutes that an executor spent executing.
Times are seconds of a monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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

ENDED = ""  # stands for all workers that are no more
Memory = dict[str, dict[str, rpc.TaskStats]]  # sums by worker id and component id


@dataclass(frozen=True)
class Rates:
    """Tuples a second over the last few seconds."""

    emitted: float = 0.0
    executed: float = 0.0
    acked: float = 0.0


class TopologyStatistics:
    """The statistics of one topology."""

    def __init__(self) -> None:
        self._tasks: dict[int, TaskStatistics] = {}
        self._retired: dict[tuple[int, str], None] = {}  # incarnations that must not return, oldest first
        self._remembered: Memory = {}  # of workers that have not reported to this leader
        self._statuses = Statuses()
        self._sums: dict[str, dict[str, WorkerSum]] = {}  # of present incarnations, by component and worker id
        self._ended: dict[str, rpc.TaskStats] = {}  # the sums of incarnations that are over, by component
        self._histories: dict[str, WindowedCounters] = {}  # by component
        self._series: dict[str, TimeSeries] = {}
        self._noted_s = self._charted_s = -math.inf

    def report(self, report: rpc.WorkerReport, now_s: float, statuses: Mapping[int, str] | None = None) -> None:
        """Take a worker's report in. A late one of an incarnation that was replaced is ignored.

        ``statuses``: what its tasks say of themselves, by task id.
        """
        self._remembered.pop(report.worker_id, None)
        for stats in report.tasks:
            self._take(report, stats, now_s)
        self._note(now_s)
        if statuses or self._statuses:
            present = {one.task_id for one in report.tasks if self._tasks[one.task_id].worker_id == report.worker_id}
            self._statuses.report(report.worker_id, present, statuses or {}, now_s)

    def latest(self, task_id: int) -> rpc.TaskStats | None:
        """What a task reported last."""
        task = self._tasks.get(task_id)
        return None if task is None else task.latest

    def memory(self) -> Memory:
        """What is worth keeping for the next leader."""
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
        """Begin with what an earlier leader kept. Before the first report."""
        self._remembered = memory

    def component(self, component_id: str) -> rpc.TaskStats:
        """The sum over a component's tasks; task id 0."""
        total = self._heard(component_id)
        for components in self._remembered.values():
            if component_id in components:
                add(total, components[component_id])
        return total

    def _heard(self, component_id: str) -> rpc.TaskStats:
        """The same, without what was remembered."""
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
        """What some tasks say of themselves, if they do and if it is news."""
        return self._statuses.of(tasks, now_s)

    def counts(self, component_id: str, window_s: float | None, now_s: float) -> Counts:
        """All counters of a component in the last ``window_s``; None: of all time."""
        if window_s is None:
            return counts_of(self.component(component_id))
        history = self._histories.get(component_id)
        return {} if history is None else history.in_window(counts_of(self._heard(component_id)), window_s, now_s)

    def lately(self, component_id: str, counters: Sequence[str], window_s: float, now_s: float) -> list[int]:
        """A few of a component's own counters in the last ``window_s``: as ``counts``, at a fraction of the cost."""
        total = self._heard(component_id)
        now: Counts = {one: getattr(total, one) for one in counters}
        if not any(now.values()):
            return [0 for _ in counters]
        found = self._histories[component_id].in_window(now, window_s, now_s)
        return [round(found.get(one, 0)) for one in counters]

    def task_counts(self, tasks: Iterable[int], window_s: float | None, now_s: float) -> Counts:
        """The scalar counters of some tasks together, likewise. Of all time: since this leader heard of them."""
        found: Counts = {}
        for task in map(self._tasks.get, tasks):
            if task is not None:
                add_counts(found, task.in_window(window_s, now_s))
        return found

    def series(self, component_id: str) -> Sequence[Point]:
        """The last ten minutes of a component, oldest first. Those of all components are of the same moments."""
        series = self._series.get(component_id)
        return () if series is None else series.points

    def gauges(self, tasks: Iterable[int]) -> dict[str, int | bool]:
        """What is waiting and pending in some tasks together, and whether any of them is congested."""
        found = [task.latest for task in map(self._tasks.get, tasks) if task is not None]
        return {
            "queued": sum(one.queued for one in found),
            "pending": sum(one.pending for one in found),
            "congested": any(one.congested for one in found),
        }

    def rates(self, tasks: Iterable[int], now_s: float) -> Rates:
        """The sum of some tasks' rates."""
        known = [task.rates(now_s) for task in map(self._tasks.get, tasks) if task is not None]
        return Rates(*map(sum, zip(*known, strict=True)))

    def standstill(self, tasks: Iterable[int], after_s: float) -> Stall:
        """What some tasks of a component have not got done for more than ``after_s``."""
        found = [task.movement for task in map(self._tasks.get, tasks) if task is not None]
        return together(found, after_s)

    def answers(self, tasks: Iterable[int], is_spout: bool = False) -> Answers:
        """What some tasks of a component do with what they execute."""
        return answers((task.movement for task in map(self._tasks.get, tasks) if task is not None), is_spout)

    def blocking(self, executors: Iterable[Sequence[int]]) -> int:
        """The number of executors that were found blocking, each given as its tasks."""
        known = ([self._tasks[one] for one in tasks if one in self._tasks] for tasks in executors)
        return sum(any(task.latest.found_blocking for task in tasks) for tasks in known)

    def capacity(self, executors: Iterable[Sequence[int]], now_s: float) -> float:
        """That of the busiest executor, each given as its tasks."""
        known = ([self._tasks[one] for one in tasks if one in self._tasks] for tasks in executors)
        return max((sum(task.busy_share(now_s) for task in tasks) for tasks in known), default=0.0)

    def _note(self, now_s: float) -> None:
        """Keep what the counters are now, as often as charts and histories want it."""
        if now_s - self._charted_s >= CHART_STEP_S:
            self._charted_s = now_s
            for component_id, series in self._series.items():
                series.note(moment_of(self._heard(component_id), now_s))
        if now_s - self._noted_s < STEP_S:
            return
        self._noted_s = now_s
        for component_id, history in self._histories.items():
            history.note(counts_of(self._heard(component_id)), now_s)
        for task in self._tasks.values():
            task.note(now_s)

    def _take(self, report: rpc.WorkerReport, stats: rpc.TaskStats, now_s: float) -> None:
        """Take in what one task says."""
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
        """A task that was not heard of before: it may have worked for long."""
        task = self._tasks[stats.task_id] = TaskStatistics(report.worker_id, stats, report.uptime_s, now_s)
        history = self._histories.setdefault(stats.component_id, WindowedCounters())
        series = self._series.setdefault(stats.component_id, TimeSeries())
        if has_counted(stats):
            history.credit(counts_of(stats), now_s - max(0.0, report.uptime_s), now_s)
            series.credit(moment_of(stats, now_s))
        self._include(task, stats.task_id)

    def _move(self, task: TaskStatistics, worker_id: str, stats: rpc.TaskStats, now_s: float) -> None:
        """A task goes on in another worker."""
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


def summarize(
    statistics: TopologyStatistics,
    record: pb.TopologyRecord,
    kinds: Mapping[str, pb.ComponentKind],
    tasks: Mapping[str, range],
    executors: Iterable[tuple[int, int]],
    now_s: float,
    remarks: Mapping[str, str],
) -> list[rpc.ComponentStats]:
    """One entry for each component, ascending by id. ``executors``: first and last task of every executor."""
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
