"""Detects stalled tasks from their reports. Pure.

A task stalls in two ways: tuples wait and none is executed, or trees of a spout fail and none is acked. An idle task
is not stalled. Times are seconds of a monotonic clock.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tupletree._wire.user_counts import of_inputs
from tupletree.v1 import nimbus_pb2 as rpc


@dataclass(frozen=True, slots=True)
class Stall:
    """Stall of several tasks together."""

    stuck: int = 0  # tasks that have tuples waiting and execute none
    stuck_s: float = 0.0  # the longest wait among them
    fails: int = 0  # trees or tuples failed since the last ack; 0 if any task acks
    fails_s: float = 0.0  # for how long


@dataclass(frozen=True, slots=True)
class Answers:
    """Acks, fails and running calls of a component's tasks, in their present incarnations."""

    executed: int = 0  # tuples of user streams, without ticks
    settled: int = 0  # tuples acked or failed
    since_s: float = 0.0  # time since the first task began to execute tuples
    holds_tuples: bool = False  # the bolt declares that it acks late
    call_s: float = 0.0  # the longest running call; for a bolt, only of tasks in which tuples wait
    caller: int = 0  # the task in this call; 0 if there is no call


class Movement:
    """Progress of a task: the times of its last execute and last ack. Unchanged while the task does not report."""

    __slots__ = (
        "_acked_s",
        "_executed_s",
        "_failed",
        "_failed_s",
        "_fails_since_s",
        "_last",
        "_repeated",
        "_reported_s",
        "_works_since_s",
        "executed",
    )

    def __init__(self, stats: rpc.TaskStats, now_s: float) -> None:
        self._last = stats
        self._executed_s = self._acked_s = self._fails_since_s = self._reported_s = now_s
        self._failed = stats.failed  # failures counted at the last ack
        self._failed_s = -math.inf
        self._works_since_s = now_s
        self._repeated = False  # since the last report that was different
        self.executed: int
        (self.executed,) = of_inputs(stats, "executed")

    def repeats(self, stats: rpc.TaskStats, now_s: float) -> None:
        """Record the next report of the same incarnation, equal to the last report."""
        self._last, self._reported_s, self._repeated = stats, now_s, True

    def on_report(self, stats: rpc.TaskStats, now_s: float) -> None:
        """Record the next report of the same incarnation, different from the last report."""
        if self._repeated:
            self._on_report(self._last, self._reported_s)
            self._repeated = False
        self._on_report(stats, now_s)

    def _on_report(self, stats: rpc.TaskStats, now_s: float) -> None:
        if stats.executed != self._last.executed or not stats.queued:
            self._executed_s = now_s
        if stats.failed != self._last.failed:
            self._failed_s = now_s
        if stats.acked != self._last.acked:
            self._acked_s = self._fails_since_s = now_s
            self._failed = stats.failed
        elif stats.failed == self._failed:
            self._fails_since_s = now_s
        (self.executed,) = of_inputs(stats, "executed")
        if not self.executed:
            self._works_since_s = now_s
        self._last, self._reported_s = stats, now_s

    @property
    def stuck_s(self) -> float:
        """Seconds for which tuples have waited without any being executed."""
        if not self._last.queued:
            return 0.0
        return self._reported_s - self._executed_s

    @property
    def latest(self) -> rpc.TaskStats:
        """The last report."""
        return self._last

    @property
    def works_s(self) -> float:
        """Seconds since the task began to execute tuples."""
        if not self.executed:
            return 0.0
        return self._reported_s - self._works_since_s

    @property
    def unacked_s(self) -> float:
        """Seconds without an ack."""
        return self._reported_s - self._acked_s

    def fails(self, lately_s: float) -> tuple[int, float]:
        """Return the number of failures since the last ack and their duration; 0 if none failed in ``lately_s``."""
        if self._last.failed == self._failed or self._reported_s - self._failed_s > lately_s:
            return 0, 0.0
        return self._last.failed - self._failed, self._reported_s - self._fails_since_s


def together(movements: Iterable[Movement], after_s: float) -> Stall:
    """Combine the stalls of a component's tasks that have lasted for more than ``after_s``."""
    found = list(movements)
    stuck = [one.stuck_s for one in found if one.stuck_s > after_s]
    fails, fails_s = 0, 0.0
    if all(one.unacked_s > after_s for one in found):
        failing = [one.fails(after_s) for one in found]
        fails_s = max((since_s for _, since_s in failing), default=0.0)
        fails = sum(count for count, _ in failing)
    if fails_s <= after_s:
        fails, fails_s = 0, 0.0
    return Stall(len(stuck), max(stuck, default=0.0), fails, fails_s)


def answers(movements: Iterable[Movement], is_spout: bool = False) -> Answers:
    """Combine the answers of a component's tasks. A spout's call counts although no tuples wait for a spout."""
    found = list(movements)
    waiting = [one.latest for one in found if one.latest.queued or is_spout]
    longest = max(waiting, key=lambda one: one.call_s, default=rpc.TaskStats())
    return Answers(
        executed=sum(one.executed for one in found),
        settled=sum(one.latest.acked + one.latest.failed for one in found),
        since_s=max((one.works_s for one in found), default=0.0),
        holds_tuples=any(one.latest.holds_tuples for one in found),
        call_s=longest.call_s,
        caller=longest.task_id if longest.call_s else 0,
    )
