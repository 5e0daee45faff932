"""What the tasks of a topology have done, from the reports of their workers.

A worker reports counters since its own start. A task that lived in several workers one after the other, its
incarnations, has done the sum of what each reported last; so figures go on rising when a worker is restarted. What is
waiting or pending is of the present incarnation only. What was counted in the last ten minutes, three hours and day is
read from the past of these sums (history.py); a new leader begins that past anew.

A leader writes down from time to time what each worker has done (``memory``), and the next leader begins with that
(``recall``): the figures of a worker that reports to it replace what is remembered of that worker.

What a task says of itself, its status, is no figure: only the latest is kept, and no leader inherits it (statuses.py).

Rates are over the last seconds; capacity is the share of the last ten minutes that an executor spent executing.
Times are seconds of a monotonic clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import attrgetter

from google.protobuf.message import Message

from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from .counts import (
    GAUGES,
    INPUT_COUNTERS,
    STREAM_COUNTERS,
    SUMS,
    TASK_COUNTERS,
    Counts,
    add_counts,
    counts_of,
    scalars_of,
)
from .history import STEP_S, History
from .reported import MOST_STREAMS
from .series import STEP_S as CHART_STEP_S
from .series import Point, Series, moment_of
from .standstill import Answers, Movement, Standstill, answers, together
from .statuses import STALE_S, Statuses

RATE_WINDOW_S = 10.0
CAPACITY_WINDOW_S = 600.0
_CAPACITY_STEP_S = 10.0
_RETIRED_KEPT = 1000
_MOST_SUMMED = 2**63


ENDED = ""  # stands for all workers that are no more
_of_task = attrgetter(*TASK_COUNTERS)
Memory = dict[str, dict[str, rpc.TaskStats]]  # sums by worker id and component id


@dataclass(frozen=True)
class Rates:
    """Tuples a second over the last few seconds."""

    emitted: float = 0.0
    executed: float = 0.0
    acked: float = 0.0


@dataclass
class _Task:
    """One task's story."""

    worker_id: str
    latest: rpc.TaskStats
    movement: Movement
    earlier: rpc.TaskStats = field(default_factory=rpc.TaskStats)  # the sum of incarnations that are over
    recent: deque[tuple[float, int, int, int]] = field(default_factory=deque)  # time; emitted, executed, acked
    busy: deque[tuple[float, float]] = field(default_factory=deque)  # time; seconds executing, over all incarnations
    history: History = field(default_factory=lambda: History((*TASK_COUNTERS, *SUMS)))

    def total(self) -> rpc.TaskStats:
        """The sum over all incarnations."""
        if not self.earlier.component_id:
            return self.latest
        total = rpc.TaskStats()
        add(total, self.earlier)
        add(total, self.latest)
        return total


class TopologyStatistics:
    """The statistics of one topology."""

    def __init__(self) -> None:
        self._tasks: dict[int, _Task] = {}
        self._retired: deque[tuple[int, str]] = deque(maxlen=_RETIRED_KEPT)  # incarnations that must not return
        self._remembered: Memory = {}  # of workers that have not reported to this leader
        self._statuses = Statuses()
        self._histories: dict[str, History] = {}  # by component
        self._members: dict[str, set[int]] = {}  # the tasks that were ever heard of, by component
        self._series: dict[str, Series] = {}
        self._noted_s = self._charted_s = -math.inf

    def report(self, report: rpc.WorkerReport, now_s: float, statuses: Mapping[int, str] | None = None) -> None:
        """Take a worker's report in. A late one of an incarnation that was replaced is ignored.

        ``statuses``: what its tasks say of themselves, by task id.
        """
        self._remembered.pop(report.worker_id, None)
        for stats in report.tasks:
            if (stats.task_id, report.worker_id) not in self._retired:
                self._take(report, stats, now_s)
        self._note(now_s)
        present = {one.task_id for one in report.tasks if self._tasks[one.task_id].worker_id == report.worker_id}
        self._statuses.report(report.worker_id, present, statuses or {}, now_s)

    def memory(self) -> Memory:
        """What is worth keeping for the next leader."""
        kept: Memory = {}
        for worker_id, components in self._remembered.items():
            for component_id, stats in components.items():
                add(kept.setdefault(worker_id, {}).setdefault(component_id, rpc.TaskStats()), stats)
        for task in self._tasks.values():
            for worker_id, stats in ((task.worker_id, task.latest), (ENDED, task.earlier)):
                if stats.component_id:
                    add(kept.setdefault(worker_id, {}).setdefault(stats.component_id, rpc.TaskStats()), stats)
        return kept

    def recall(self, memory: Memory) -> None:
        """Begin with what an earlier leader kept. Before the first report."""
        self._remembered = memory

    def component(self, component_id: str, tasks: Iterable[int]) -> rpc.TaskStats:
        """The sum over a component's tasks; task id 0."""
        total = rpc.TaskStats(component_id=component_id)
        for components in self._remembered.values():
            if component_id in components:
                add(total, components[component_id])
        for task_id in tasks:
            task = self._tasks.get(task_id)
            if task is not None:
                if task.earlier.component_id:
                    add(total, task.earlier)
                add(total, task.latest)
                for gauge in GAUGES:
                    setattr(total, gauge, getattr(total, gauge) + getattr(task.latest, gauge))
                total.congested = total.congested or task.latest.congested
                total.found_blocking = total.found_blocking or task.latest.found_blocking
        return total

    def statuses(self, tasks: Iterable[int], now_s: float) -> list[rpc.TaskStatus]:
        """What some tasks say of themselves, if they do and if it is news."""
        return self._statuses.of(tasks, now_s)

    def counts(self, component_id: str, window_s: float | None, now_s: float) -> Counts:
        """All counters of a component in the last ``window_s``; None: of all time."""
        if window_s is None:
            return counts_of(self.component(component_id, self._members.get(component_id, ())))
        history = self._histories.get(component_id)
        return {} if history is None else history.in_window(self._sum(component_id), window_s, now_s)

    def lately(self, component_id: str, counters: Sequence[str], window_s: float, now_s: float) -> list[int]:
        """A few of a component's own counters in the last ``window_s``: as ``counts``, at a fraction of the cost."""
        tasks = [self._tasks[one] for one in self._members.get(component_id, ())]
        now: Counts = {
            one: sum(getattr(task.earlier, one) + getattr(task.latest, one) for task in tasks) for one in counters
        }
        if not any(now.values()):
            return [0 for _ in counters]
        found = self._histories[component_id].in_window(now, window_s, now_s)
        return [round(found.get(one, 0)) for one in counters]

    def task_counts(self, tasks: Iterable[int], window_s: float | None, now_s: float) -> Counts:
        """The scalar counters of some tasks together, likewise. Of all time: since this leader heard of them."""
        found: Counts = {}
        for task in map(self._tasks.get, tasks):
            if task is not None:
                total = scalars_of(task.total())
                add_counts(found, total if window_s is None else task.history.in_window(total, window_s, now_s))
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
        sums = [0.0, 0.0, 0.0]
        for task in map(self._tasks.get, tasks):
            if task is None or len(task.recent) < 2 or now_s - task.recent[-1][0] > STALE_S:
                continue
            first, last = task.recent[0], task.recent[-1]
            for number in range(3):
                sums[number] += (last[number + 1] - first[number + 1]) / (last[0] - first[0])
        return Rates(*sums)

    def standstill(self, tasks: Iterable[int], after_s: float) -> Standstill:
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
        return max((sum(self._busy_share(task, now_s) for task in tasks) for tasks in executors), default=0.0)

    def _note(self, now_s: float) -> None:
        """Keep what the counters are now, as often as charts and histories want it."""
        if now_s - self._charted_s >= CHART_STEP_S:
            self._charted_s = now_s
            for component_id, members in self._members.items():
                tasks = [(task.total(), task.latest) for task in map(self._tasks.__getitem__, members)]
                self._series[component_id].note(moment_of(tasks, now_s))
        if now_s - self._noted_s < STEP_S:
            return
        self._noted_s = now_s
        for component_id in self._members:
            self._histories[component_id].note(self._sum(component_id), now_s)
        for task in self._tasks.values():
            task.history.note(scalars_of(task.total()), now_s)

    def _sum(self, component_id: str) -> Counts:
        """The counters of a component, of the tasks that this leader heard of."""
        counts: Counts = {}
        for task_id in self._members.get(component_id, ()):
            add_counts(counts, counts_of(self._tasks[task_id].total()))
        return counts

    def _begin(self, report: rpc.WorkerReport, stats: rpc.TaskStats, now_s: float) -> _Task:
        """A task that was not heard of before: it may have worked for long."""
        task = self._tasks[stats.task_id] = _Task(report.worker_id, stats, Movement(stats, now_s))
        since_s = now_s - max(0.0, report.uptime_s)
        task.busy.append((since_s, 0.0))
        task.history.credit(scalars_of(stats), since_s, now_s)
        self._histories.setdefault(stats.component_id, History()).credit(counts_of(stats), since_s, now_s)
        self._series.setdefault(stats.component_id, Series()).credit(moment_of([(stats, stats)], now_s))
        self._members.setdefault(stats.component_id, set()).add(stats.task_id)
        return task

    def _take(self, report: rpc.WorkerReport, stats: rpc.TaskStats, now_s: float) -> None:
        task = self._tasks.get(stats.task_id)
        if task is None:
            task = self._begin(report, stats, now_s)
        elif task.worker_id != report.worker_id:
            self._retired.append((stats.task_id, task.worker_id))
            add(task.earlier, task.latest)
            task.worker_id = report.worker_id
            task.recent.clear()
            task.movement = Movement(stats, now_s)
        task.latest = stats
        task.movement.note(stats, now_s)
        emitted = sum(stream.emitted for stream in stats.streams)
        if not task.recent or now_s > task.recent[-1][0]:
            task.recent.append((now_s, emitted, stats.executed, stats.acked))
        while len(task.recent) > 2 and task.recent[1][0] <= now_s - RATE_WINDOW_S:
            task.recent.popleft()
        if now_s - task.busy[-1][0] >= _CAPACITY_STEP_S:
            task.busy.append((now_s, task.earlier.execute_s + stats.execute_s))
        while len(task.busy) > 1 and task.busy[1][0] <= now_s - CAPACITY_WINDOW_S:
            task.busy.popleft()

    def _busy_share(self, task_id: int, now_s: float) -> float:
        task = self._tasks.get(task_id)
        if task is None:
            return 0.0
        since_s, busy_s = task.busy[0]
        window_s = now_s - since_s
        total_s = task.earlier.execute_s + task.latest.execute_s
        return max(0.0, total_s - busy_s) / window_s if window_s > 0 else 0.0


def add(total: rpc.TaskStats, more: rpc.TaskStats) -> None:
    """Add the counters of one to another, stream by stream and bucket by bucket.

    Whatever workers report, in however many incarnations: a sum stays what a message can hold, and has so many streams.
    """
    total.component_id = total.component_id or more.component_id
    if not any(_of_task(more)) and not (more.streams or more.inputs or more.process_buckets or more.complete_buckets):
        return  # as most tasks of a topology with very many
    _raise(total, TASK_COUNTERS, more)
    streams = {stream.stream: stream for stream in total.streams}
    for stream in more.streams:
        if stream.stream not in streams and len(streams) < MOST_STREAMS:
            streams[stream.stream] = total.streams.add(stream=stream.stream)
        if stream.stream in streams:
            _raise(streams[stream.stream], STREAM_COUNTERS, stream)
    inputs = {(one.source_component, one.stream): one for one in total.inputs}
    for one in more.inputs:
        key = one.source_component, one.stream
        if key not in inputs and len(inputs) < MOST_STREAMS:
            inputs[key] = total.inputs.add(source_component=one.source_component, stream=one.stream)
        if key in inputs:
            _raise(inputs[key], INPUT_COUNTERS, one)
    for name in ("process_buckets", "complete_buckets"):
        buckets, summand = getattr(total, name), getattr(more, name)
        if summand:
            buckets[:] = [min(_MOST_SUMMED, a + b) for a, b in zip_longest(buckets, summand, fillvalue=0)]


def _raise(total: Message, counters: Iterable[str], more: Message) -> None:
    for counter in counters:
        setattr(total, counter, min(_MOST_SUMMED, getattr(total, counter) + getattr(more, counter)))


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
                total=statistics.component(component_id, ids),
                capacity=statistics.capacity(own, now_s),
                emitted_per_s=rates.emitted,
                executed_per_s=rates.executed,
                acked_per_s=rates.acked,
                statuses=statistics.statuses(ids, now_s),
                remark=remarks.get(component_id, ""),
            )
        )
    return summaries
