"""Collection of task statuses for the report to nimbus.

Status functions are user code, and the report is also a heartbeat. So status functions run on a separate thread, a
report waits at most ``GRACE_S`` for them, and no further function is called until the current one returns. If a
status function hangs, the statuses of the whole worker are missing, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence

from tupletree._wire.statuses import MAX_BYTES_TOGETHER, encode_status, error_status, within
from tupletree.v1 import nimbus_pb2

from ..core.task import Task
from ..engine import Engine

GRACE_S = 0.5


class _Reading:
    """One round of calls to all status functions."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.done = asyncio.Event()
        self.found: list[tuple[int, str]] = []
        self.at: tuple[int, float] = (tasks[0].task_id, time.monotonic())  # the running task, and since when
        self._loop = asyncio.get_running_loop()
        self._tasks = tasks
        threading.Thread(target=self._run, name="statuses", daemon=True).start()

    def _run(self) -> None:
        for task in self._tasks:
            self.at = (task.task_id, time.monotonic())
            if task.context.status is not None:
                self.found.append((task.task_id, encode_status(task.context.status)))
        with contextlib.suppress(RuntimeError):  # the worker has ended meanwhile
            self._loop.call_soon_threadsafe(self.done.set)


class TaskStatusReader:
    """Reader of the statuses of an engine's tasks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reading: _Reading | None = None

    async def read(self) -> list[nimbus_pb2.TaskStatus]:
        """Return the status of every task with a status function; if a function hangs, only an error for its task."""
        if self._reading is None:
            tasks = [task for one in self._engine.executors for task in one.tasks if task.context.status is not None]
            if not tasks:
                return []
            self._reading = _Reading(tasks)
        reading = self._reading
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reading.done.wait(), GRACE_S)
        if not reading.done.is_set():
            task_id, since_s = reading.at
            waited_s = time.monotonic() - since_s
            found = [(task_id, error_status(f"the status function has not returned for {waited_s:.0f} s"))]
        else:
            self._reading = None
            found = reading.found
        kept = within(MAX_BYTES_TOGETHER, found)
        return [nimbus_pb2.TaskStatus(task_id=task_id, status_json=text) for task_id, text in kept]
