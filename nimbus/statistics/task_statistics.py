"""Statistics of one task, over all its incarnations. Pure; times are seconds of a monotonic clock.

Most reports of most tasks repeat the report before. A repeated report only advances the time up to which the counters
are known to be unchanged. The samples skipped meanwhile are added when a counter changes.
"""

from __future__ import annotations  # pure

import math
from collections import deque
from typing import Final

from tupletree._wire.user_counts import of_inputs, of_streams
from tupletree.v1 import nimbus_pb2 as rpc

from .counters import SUMS, TASK_COUNTERS, Counts, scalars_of
from .stall_detector import Movement
from .sums import add, has_counted
from .task_statuses import STALE_S
from .windowed_counters import WindowedCounters

RATE_WINDOW_S: Final = 10.0
CAPACITY_WINDOW_S: Final = 600.0
CAPACITY_STEP_S: Final = 10.0

_Point = tuple[float, ...]


class TaskStatistics:
    """Sum of the last reports of a task's incarnations, with its rates and history."""

    __slots__ = ("_busy", "_changed_s", "_history", "_noted_s", "_recent", "_seen_s", "_since_s", "component_id",
                 "earlier", "latest", "movement", "worker_id")  # fmt: skip

    def __init__(self, worker_id: str, stats: rpc.TaskStats, uptime_s: float, now_s: float) -> None:
        """Begin with a task's first report, from a worker that has been up for ``uptime_s``."""
        self._since_s = now_s - max(0.0, uptime_s)
        self.component_id = stats.component_id
        self.worker_id = worker_id
        self.latest = stats
        self.earlier = rpc.TaskStats()  # sum of ended incarnations
        self.movement = Movement(stats, now_s)
        self._seen_s = self._changed_s = now_s
        self._recent: deque[_Point] = deque()  # time, emitted, executed, acked
        self._busy: deque[_Point] = deque([(self._since_s, 0.0)])  # time, seconds executing, over all incarnations
        self._history: WindowedCounters | None = None  # None until something is counted
        if has_counted(stats):
            self._begin_history(now_s)
        self._noted_s = -math.inf
        self._record(now_s)

    def _begin_history(self, now_s: float) -> WindowedCounters:
        history = self._history = WindowedCounters((*TASK_COUNTERS, *SUMS))
        history.credit(scalars_of(self.latest), self._since_s, now_s)
        return history

    def repeats(self, stats: rpc.TaskStats, now_s: float) -> None:
        """Record the next report, equal to the last report, or one that leaves the task out because it is equal.

        The new message replaces the old message, which would keep the whole earlier report in memory.
        """
        self.latest = stats
        self._seen_s = now_s
        self.movement.repeats(stats, now_s)

    def changes(self, stats: rpc.TaskStats, now_s: float) -> None:
        """Record the next report of the same incarnation, different from the last report."""
        self._catch_up()
        self.latest = stats
        self._seen_s = self._changed_s = now_s
        self.movement.on_report(stats, now_s)
        self._record(now_s)

    def moves(self, worker_id: str, stats: rpc.TaskStats, now_s: float) -> None:
        """Record the first report of the next incarnation."""
        self._catch_up()
        add(self.earlier, self.latest)
        self.worker_id, self.latest = worker_id, stats
        self._seen_s = self._changed_s = now_s
        self.movement = Movement(stats, now_s)
        self._recent.clear()
        self._record(now_s)

    def total(self) -> rpc.TaskStats:
        """Return the sum over all incarnations."""
        if not self.earlier.component_id:
            return self.latest
        total = rpc.TaskStats()
        add(total, self.earlier)
        add(total, self.latest)
        return total

    def add_sample(self, now_s: float) -> None:
        """Add the present counters to the history, for ``in_window``."""
        if self._changed_s >= self._noted_s and self._history is not None:
            self._history.add_sample(scalars_of(self.total()), now_s)
        self._noted_s = now_s

    def in_window(self, window_s: float | None, now_s: float) -> Counts:
        """Return the task's scalar counters in the last ``window_s``; None: all time."""
        total = scalars_of(self.total())
        if window_s is None or self._history is None:
            return total
        return self._history.in_window(total, window_s, now_s)

    def rates(self, now_s: float) -> tuple[float, float, float]:
        """Return tuples emitted, executed and acked per second over the last few seconds; 0 without recent reports."""
        if self._changed_s <= self._seen_s - RATE_WINDOW_S:
            return 0.0, 0.0, 0.0
        took_s = self._seen_s - _start_s(self._recent, self._seen_s - RATE_WINDOW_S)
        if took_s <= 0 or now_s - self._seen_s > STALE_S:
            return 0.0, 0.0, 0.0
        (_, *before), (_, *after) = self._recent[0], self._recent[-1]
        emitted, executed, acked = ((new - old) / took_s for old, new in zip(before, after, strict=True))
        return emitted, executed, acked

    def busy_share(self, now_s: float) -> float:
        """Return the share of the last ten minutes that the task spent executing."""
        since_s = _start_s(self._busy, now_s - CAPACITY_WINDOW_S)
        if self._changed_s <= now_s - CAPACITY_WINDOW_S or now_s <= since_s:
            return 0.0
        return max(0.0, self._execute_s - self._busy[0][1]) / (now_s - since_s)

    @property
    def _execute_s(self) -> float:
        return self.earlier.execute_s + self.latest.execute_s

    def _catch_up(self) -> None:
        """Record the period in which the counters did not change."""
        if self._seen_s - self._changed_s >= CAPACITY_STEP_S:
            self._busy.append((self._changed_s, self._execute_s))
        if self._seen_s > self._changed_s:
            self._record(self._seen_s)
        history = self._history or self._begin_history(self._seen_s)
        if self._noted_s > self._changed_s:
            history.add_sample(scalars_of(self.total()), self._noted_s)

    def _record(self, at_s: float) -> None:
        """Record the present counters as a sample at ``at_s``."""
        stats = self.latest
        if not self._recent or at_s > self._recent[-1][0]:
            self._recent.append((at_s, of_streams(stats, "emitted"), *of_inputs(stats, "executed", "acked")))
        if at_s - self._busy[-1][0] >= CAPACITY_STEP_S:
            self._busy.append((at_s, self._execute_s))
        _start_s(self._recent, at_s - RATE_WINDOW_S)
        _start_s(self._busy, at_s - CAPACITY_WINDOW_S)


def _start_s(points: deque[_Point], window_s: float) -> float:
    """Return the start of the period whose initial counters are those of the first point.

    The period begins at ``window_s`` if the counters did not change across that time, else at the first point. Each
    point is a time and the counters at that time. Older points, no longer needed, are removed.
    """
    while len(points) > 1 and points[1][0] <= window_s:
        points.popleft()
    stood = len(points) > 1 and points[0][1:] == points[1][1:]
    return max(points[0][0], window_s) if stood else points[0][0]
