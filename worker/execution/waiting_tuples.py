"""The message timeouts of tuples that wait in the inbox of a task that is full.

A bolt that can be full restarts the timeouts of the tuples that it has accepted (async_bolt.py). Tuples in its inbox
wait for the same service, and would time out before the bolt has tried them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from ..core.batches import Batch, roots_of
from ..core.task import Clock, Task
from .inbox import Inbox, RemoteBatch

TIMES = 4
"""Number of restarts per message timeout. The executor may be late: a full bolt wakes it three times per timeout."""


class WaitingTuples:
    """The tuples in the inbox of one component's tasks, any of which can be full."""

    def __init__(self, tasks: Sequence[Task], inbox: Inbox, clock: Clock) -> None:
        self._tasks = {task.task_id: task for task in tasks}
        self._inbox = inbox
        self._clock = clock
        self._period_s = tasks[0].context.conf["topology.message.timeout.secs"] / TIMES
        self._due_s = -math.inf

    def keep_alive(self) -> None:
        """Restart the timeouts of all waiting tuples, at most ``TIMES`` times per timeout. The owning thread only."""
        now_s = self._clock()
        if now_s < self._due_s:
            return
        self._due_s = now_s + self._period_s
        updates = next(iter(self._tasks.values())).updates  # the same for all tasks of an executor
        for roots in self._waiting():
            updates.resets.update(roots)

    def _waiting(self) -> Iterator[Iterable[int]]:
        """Yield the roots of each waiting batch."""
        for item in self._inbox.items():
            if type(item) is Batch:
                yield item.rows.all_roots()
            elif type(item) is RemoteBatch and item.divided is not None:
                yield from (rows.all_roots() for _, rows in item.rows_of(self._tasks))
            elif type(item) is RemoteBatch:
                yield roots_of(item.message)
