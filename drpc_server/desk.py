"""The requests with those who wait for them: callers, and the streams of the tasks that serve.

Everything runs in the event loop of the daemon. ``Requests`` makes the decisions.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol
from uuid import uuid4

from tupletree._security.current import current
from tupletree._security.rights import Principal
from tupletree._wire.latency import BOUNDS_S
from tupletree.drpc.linger import Linger
from tupletree.drpc.lingering import lingered
from tupletree.drpc.requests import DEFAULT_MAX_BYTES, Assigned, Ended, Kind, Requests, check_function
from tupletree.errors import ForbiddenError, UnavailableError, UsageError
from tupletree.metrics import Histogram

from .function_rights import FunctionRights

_MAX_SWEEP_S: Final = 0.25
MAX_BATCH: Final = 1000
_MAX_BATCH_BYTES: Final = 8 * 1024 * 1024


class Caller(Protocol):
    """A stream of calls."""

    def retire(self) -> None:
        """Begin no further calls."""


class ServingTask:
    """A connected task of a DRPCSpout: what is to be sent to it."""

    def __init__(self, number: int, function: str) -> None:
        self.number = number
        self.function = function
        self.assigned: deque[Assigned] = deque()
        self.ended: list[str] = []
        self.is_closed = False
        self._has_news = asyncio.Event()
        self._linger = Linger()

    def close(self) -> None:
        """Have ``next`` return None once all is written."""
        self.is_closed = True
        self.wake()

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
        await lingered(self._linger)
        ended, self.ended = self.ended, []
        batch: list[Assigned] = []
        size = 0
        while self.assigned and len(batch) < MAX_BATCH and size < _MAX_BATCH_BYTES:
            one = self.assigned.popleft()
            size += len(one.args)
            batch.append(one)
        self._linger.wrote(len(batch) + len(ended), time.monotonic())
        return batch, ended


class Desk:
    """Accepts requests and answers each once."""

    def __init__(
        self, max_pending: int, timeout_s: float, rights: FunctionRights, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> None:
        self.requests = Requests(max_pending, max_bytes)
        self.rights = rights
        self.timeout_s = timeout_s
        self.is_closing = False
        self.ended: Counter[tuple[str, Kind]] = Counter()
        self.refused = 0
        self.seconds: dict[str, Histogram] = defaultdict(lambda: Histogram(BOUNDS_S))
        self._waiting: dict[str, tuple[float, Callable[[Ended], None]]] = {}
        self._tasks: dict[int, ServingTask] = {}
        self._streams: set[Caller] = set()
        self._numbers = itertools.count(1)

    def begin(
        self, who: Principal | None, function: str, args: str, timeout_s: float, on_end: Callable[[Ended], None]
    ) -> str:
        """Accept a request of ``who`` and return its id; ``on_end`` is called once, with its end.

        Raises UsageError for the name of the function or the time, ForbiddenError if ``who`` may not call it,
        OverloadedError and UnavailableError if it is not accepted.
        """
        if self.is_closing:
            raise UnavailableError("the DRPC server is ending; call another")
        if not 0 <= timeout_s < math.inf:
            raise UsageError(f"timeout_s is {timeout_s}, expected a number of seconds")
        if (why := self.rights.call_refusal(who, check_function(function), current().admins)) is not None:
            raise ForbiddenError(why)
        id = uuid4().hex
        began_s = time.monotonic()
        ends_s = began_s + min(timeout_s or self.timeout_s, self.timeout_s)
        try:
            self.requests.execute(id, function, args, ends_s)
        except UnavailableError:
            self.refused += 1
            raise
        self._waiting[id] = (began_s, on_end)
        self.assign(function)
        return id

    def cancel(self, id: str) -> None:
        """End a request that nobody waits for any longer, if it has not ended."""
        ended = self.requests.cancel(id)
        if ended is not None:
            self.end_early([ended])

    async def execute(self, who: Principal | None, function: str, args: str, timeout_s: float = 0.0) -> Ended:
        """Return the end of a request. Cancelling this call cancels the request. Raises as ``begin``."""
        waiting: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        id = self.begin(who, function, args, timeout_s, functools.partial(_set, waiting))
        try:
            return await waiting
        except asyncio.CancelledError:
            self.cancel(id)
            raise

    def connect(
        self, function: str, topology_id: str, max_in_flight: int, collects: bool, is_paused: bool = False
    ) -> ServingTask:
        """Add a task that serves a function. Raises UsageError for the name of the function."""
        task = ServingTask(next(self._numbers), function)
        self.requests.connect(task.number, function, topology_id, max_in_flight, collects, is_paused)
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

    def add_result(self, topology_id: str, id: str, value: str) -> None:
        """Keep a result of a request, or end the request if there is no room for the result."""
        ended = self.requests.add_result(topology_id, id, value)
        if ended is not None:
            self.end_early([ended])

    def end(self, *ended: Ended | None) -> None:
        """Tell those who wait."""
        for one in ended:
            if one is None:
                continue
            label = self._label(one.function)
            self.ended[label, one.kind] += 1
            waiting = self._waiting.pop(one.id, None)
            if waiting is None:
                continue
            began_s, on_end = waiting
            if one.kind is not Kind.CANCELLED:
                self.seconds[label].observe(time.monotonic() - began_s)
            on_end(one)

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
        """Accept no further requests, wait for those that are pending, then end the rest and the streams of tasks."""
        self.is_closing = True
        for stream in list(self._streams):
            stream.retire()
        deadline_s = time.monotonic() + grace_s
        while len(self.requests) and time.monotonic() < deadline_s:
            await asyncio.sleep(_MAX_SWEEP_S / 10)
        self.end(*self.requests.end_all(Kind.SHUTDOWN, "the DRPC server has ended before the request was answered"))
        for task in self._tasks.values():
            task.close()

    def add_stream(self, stream: Caller) -> None:
        """Retire a stream of a caller when the server ends."""
        self._streams.add(stream)

    def remove_stream(self, stream: Caller) -> None:
        """Forget a stream of a caller."""
        self._streams.discard(stream)

    def _label(self, function: str) -> str:
        """Return the name of a function that is or was served; "other" for names that callers have invented."""
        known = self.requests.functions.get(function)
        return function if function in self.seconds or (known is not None and known[2]) else "other"


def _set(waiting: asyncio.Future[Ended], ended: Ended) -> None:
    if not waiting.done():
        waiting.set_result(ended)
