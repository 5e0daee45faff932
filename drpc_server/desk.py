"""The requests with those who wait for them: futures of callers, and the streams of the tasks that serve.

Everything runs in the event loop of the daemon. ``Requests`` makes the decisions.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import Final
from uuid import uuid4

from tupletree._wire.latency import BOUNDS_S
from tupletree.drpc.requests import Assigned, Ended, Kind, Requests
from tupletree.errors import UnavailableError
from tupletree.metrics import Histogram

_MAX_SWEEP_S: Final = 0.25
MAX_BATCH: Final = 1000
_MAX_BATCH_BYTES: Final = 8 * 1024 * 1024


class ServingTask:
    """A connected task of a DRPCSpout: what is to be sent to it."""

    def __init__(self, number: int, function: str) -> None:
        self.number = number
        self.function = function
        self.assigned: deque[Assigned] = deque()
        self.ended: list[str] = []
        self.is_closed = False
        self._has_news = asyncio.Event()

    def wake(self) -> None:
        """Have ``next`` return."""
        self._has_news.set()

    async def next(self) -> tuple[list[Assigned], list[str]] | None:
        """Wait for requests to send and ids that have ended; None once the stream is closed."""
        while not self.assigned and not self.ended:
            if self.is_closed:
                return None
            self._has_news.clear()
            await self._has_news.wait()
        ended, self.ended = self.ended, []
        batch: list[Assigned] = []
        size = 0
        while self.assigned and len(batch) < MAX_BATCH and size < _MAX_BATCH_BYTES:
            one = self.assigned.popleft()
            size += len(one.args)
            batch.append(one)
        return batch, ended


class Desk:
    """Accepts requests and answers each once."""

    def __init__(self, max_pending: int, timeout_s: float) -> None:
        self.requests = Requests(max_pending)
        self.timeout_s = timeout_s
        self.is_closing = False
        self.ended: Counter[tuple[str, Kind]] = Counter()
        self.refused = 0
        self.seconds: dict[str, Histogram] = defaultdict(lambda: Histogram(BOUNDS_S))
        self._waiting: dict[str, asyncio.Future[Ended]] = {}
        self._tasks: dict[int, ServingTask] = {}
        self._numbers = itertools.count(1)

    async def execute(self, function: str, args: str, timeout_s: float = 0.0) -> Ended:
        """Return the end of a request. Cancelling this call cancels the request.

        Raises UsageError for the name of the function, OverloadedError and UnavailableError if it is not accepted.
        """
        if self.is_closing:
            raise UnavailableError("the DRPC server is ending; call another")
        id = uuid4().hex
        began_s = time.monotonic()
        ends_s = began_s + min(timeout_s or self.timeout_s, self.timeout_s)
        try:
            self.requests.execute(id, function, args, ends_s)
        except UnavailableError:
            self.refused += 1
            raise
        waiting: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._waiting[id] = waiting
        self.assign(function)
        try:
            ended = await waiting
        except asyncio.CancelledError:
            self.end(self.requests.cancel(id))
            raise
        finally:
            self._waiting.pop(id, None)
        self.seconds[self._label(function)].observe(time.monotonic() - began_s)
        return ended

    def connect(self, function: str, topology_id: str, max_in_flight: int, collects: bool) -> ServingTask:
        """Add a task that serves a function. Raises UsageError for the name of the function."""
        task = ServingTask(next(self._numbers), function)
        self.requests.connect(task.number, function, topology_id, max_in_flight, collects)
        self._tasks[task.number] = task
        self.assign(function)
        return task

    def disconnect(self, task: ServingTask) -> None:
        """Remove a task; its requests are lost."""
        self._tasks.pop(task.number, None)
        self.end(*self.requests.disconnect(task.number))

    def assign(self, function: str) -> None:
        """Send queued requests of a function to tasks that have room."""
        for one in self.requests.assign(function):
            task = self._tasks[one.server]
            task.assigned.append(one)
            task.wake()

    def end(self, *ended: Ended | None) -> None:
        """Tell those who wait."""
        for one in ended:
            if one is None:
                continue
            self.ended[self._label(one.function), one.kind] += 1
            waiting = self._waiting.get(one.id)
            if waiting is not None and not waiting.done():
                waiting.set_result(one)

    def end_early(self, ended: Iterable[Ended]) -> None:
        """Tell those who wait, and the tasks that need not emit the requests any more."""
        for one in ended:
            self.end(one)
            task = self._tasks.get(one.server or 0)
            if task is not None:
                task.ended.append(one.id)
                task.wake()
            self.assign(one.function)

    async def sweep(self) -> None:
        """End the requests whose time is over, forever."""
        while True:
            await asyncio.sleep(_MAX_SWEEP_S)
            self.end_early(self.requests.expire(time.monotonic()))

    async def close(self, grace_s: float) -> None:
        """Accept no further requests, wait for those that are pending, then end the rest and the streams."""
        self.is_closing = True
        deadline_s = time.monotonic() + grace_s
        while len(self.requests) and time.monotonic() < deadline_s:
            await asyncio.sleep(_MAX_SWEEP_S / 10)
        self.end(*self.requests.end_all(Kind.SHUTDOWN, "the DRPC server has ended before the request was answered"))
        for task in self._tasks.values():
            task.is_closed = True
            task.wake()

    def _label(self, function: str) -> str:
        """Return the name of a function that is or was served; "other" for names that callers have invented."""
        known = self.requests.functions.get(function)
        return function if function in self.seconds or (known is not None and known[2]) else "other"
