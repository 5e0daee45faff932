"""One time limit for many asyncio tasks, with one timer for all of them.

``asyncio.timeout`` sets and cancels a timer for each call. Cancelled timers stay in the event loop's heap until it is
swept, which costs a tenth of what a short call costs. As all tasks have the same limit, they are due in the order in
which they began: a dict in that order and a timer for the first are enough.
"""

from __future__ import annotations

import asyncio
from typing import Any


class TimeLimit:
    """The limit of one task, from ``TimeLimits.begin`` to ``TimeLimits.end``."""

    __slots__ = ("due_s", "has_passed", "task")

    def __init__(self, task: asyncio.Task[Any], due_s: float) -> None:
        self.task = task
        self.due_s = due_s
        self.has_passed = False

    @property
    def is_cancelled_otherwise(self) -> bool:
        """True if the task is cancelled, and not (only) because the limit has passed."""
        return self.task.cancelling() > self.has_passed


class TimeLimits:
    """Cancels each task that takes longer than ``limit_s``. Used on one event loop."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._running: dict[TimeLimit, None] = {}  # in the order in which they are due
        self._has_timer = False

    def begin(self, task: asyncio.Task[Any]) -> TimeLimit:
        """Begin the limit of the current task."""
        loop = task.get_loop()
        limit = TimeLimit(task, loop.time() + self._limit_s)
        self._running[limit] = None
        if not self._has_timer:
            self._has_timer = True
            loop.call_at(limit.due_s, self._cancel_due, loop)
        return limit

    def end(self, limit: TimeLimit) -> None:
        """End a limit. If it has passed, what it cancelled is taken back, as ``asyncio.timeout`` does."""
        if limit.has_passed:
            limit.task.uncancel()
        else:
            del self._running[limit]

    def _cancel_due(self, loop: asyncio.AbstractEventLoop) -> None:
        self._has_timer = False
        while self._running:
            limit = next(iter(self._running))
            if limit.due_s > loop.time():
                self._has_timer = True
                loop.call_at(limit.due_s, self._cancel_due, loop)
                return
            del self._running[limit]
            limit.has_passed = True
            limit.task.cancel()
