"""The daemon's background tasks: started anywhere, watched in one place, cancelled together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class TaskGroup:
    """A set of tasks that must not fail: each handles the errors it expects.

    The first exception that escapes a task ends the daemon (``failed``). A supervisor process is safe to restart,
    because its workers keep running. Errors caused by a single slot, topology or worker never escape (faults.py),
    because they would recur after every restart.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self.failed.done():
            self.failed.set_exception(error)

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
