"""The background tasks of a daemon: started anywhere, watched in one place, cancelled together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class TaskGroup:
    """A set of tasks that must not fail: each handles the errors it expects. Create it in the event loop.

    The first exception that escapes a task ends the daemon: ``until`` raises it, and ``failure`` holds it.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End the daemon, as if the error had escaped a task. Only the first error counts."""
        if not self._failed.done():
            self._failed.set_exception(error)

    @property
    def failure(self) -> BaseException | None:
        return self._failed.exception() if self._failed.done() else None

    async def until(self, end: Awaitable[T]) -> T:
        """Run ``end`` and return its result. If a task fails first, cancel ``end`` and raise the task's exception."""
        ending = asyncio.ensure_future(end)
        try:
            waited: set[asyncio.Future[Any]] = {ending, self._failed}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            return self._failed.result() if self._failed.done() else ending.result()
        finally:
            ending.cancel()

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
