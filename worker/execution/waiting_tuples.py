"""The message timeouts of tuples that wait in the inbox of a task that is full.

A bolt that can be full restarts the timeouts of the tuples that it has (async_bolt.py). Those behind them wait for the
same service, and would time out without ever having been tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..core.batches import Batch, roots_of
from ..core.task import Clock, Task
from .inbox import Inbox, RemoteBatch

TIMES = 4
"""How often within a message timeout; more often than a bolt that is full wakes its executor."""


class WaitingTuples:
    """The tuples in the inbox of these tasks, all of one component, of which any can be full."""

    def __init__(self, tasks: Sequence[Task], inbox: Inbox, clock: Clock) -> None:
        self._tasks = {task.task_id: task for task in tasks}
        self._inbox = inbox
        self._clock = clock
        self._period_s = tasks[0].context.conf["topology.message.timeout.secs"] / TIMES
        self._due_s = -math.inf

    def keep_alive(self) -> None:
        """Restart the timeouts of all tuples that wait, unless that was done a moment ago. The owning thread only."""
        now_s = self._clock()
        if now_s < self._due_s:
            return
        self._due_s = now_s + self._period_s
        for target, roots in self._waiting():
            self._tasks[target].updates.resets.update(roots)

    def _waiting(self) -> Iterator[tuple[int, Sequence[int]]]:
        """The roots of the batches, each with the task that it is for."""
        for item in self._inbox.items():
            if type(item) is Batch:
                yield item.target_task, item.rows.all_roots()
            elif type(item) is RemoteBatch:
                yield item.message.target_task, roots_of(item.message)
