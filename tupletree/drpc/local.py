"""LocalDRPC: a DRPC server in this process, for topologies in a LocalCluster."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, ClassVar, Self
from uuid import uuid4
from weakref import WeakValueDictionary

from tupletree._limits import check_timeout
from tupletree.drpc.intake import Arrival, Serving
from tupletree.drpc.outcomes import value_of
from tupletree.drpc.requests import Ended, Kind, Requests
from tupletree.drpc.values import encoded
from tupletree.errors import UnavailableError

LOCAL = "local:"


class LocalDRPC:
    """Answers calls from topologies of a LocalCluster in this process.

        with LocalDRPC() as drpc, LocalCluster() as cluster:
            builder.set_spout("requests", DRPCSpout("double", drpc=drpc))
            ...
            cluster.submit("double", builder.create_topology())
            assert drpc.execute("double", 21) == 42

    Close it after the cluster. Thread-safe.
    """

    _all: ClassVar[WeakValueDictionary[str, LocalDRPC]] = WeakValueDictionary()

    def __init__(self, max_pending: int = 10_000) -> None:
        self.id = uuid4().hex[:12]
        self._lock = threading.RLock()
        self._requests = Requests(max_pending)
        self._waiting: dict[str, Future[Ended]] = {}
        self._intakes: dict[int, LocalIntake] = {}
        self._failures: dict[str, str] = {}  # by function, until a topology that serves it is submitted again
        self._numbers = itertools.count(1)
        self._all[self.id] = self

    def __reduce__(self) -> Any:
        return find, (self.id,)  # a copy of a component uses the same server

    def execute(self, function: str, args: Any = None, *, timeout_s: float = 600.0) -> Any:
        """Call a function and wait for its answer. Raises as ``DRPCClient.execute``."""
        id, waiting = self._begin(function, args, timeout_s)
        try:
            ended = waiting.result(timeout_s)
        except TimeoutError:
            self._expire()
            ended = waiting.result()
        finally:
            self._forget(id)
        return value_of(ended.kind, ended.text)

    async def execute_async(self, function: str, args: Any = None, *, timeout_s: float = 600.0) -> Any:
        """Call a function and await its answer. Cancelling the call cancels the request."""
        id, waiting = self._begin(function, args, timeout_s)
        told = asyncio.wrap_future(waiting)
        try:
            await asyncio.wait({told}, timeout=timeout_s)
            if not told.done():
                self._expire()
            ended = await told
        finally:
            self._forget(id)
        return value_of(ended.kind, ended.text)

    def close(self) -> None:
        """End all requests."""
        with self._lock:
            self._end(
                *self._requests.end_all(Kind.SHUTDOWN, "the LocalDRPC was closed before the request was answered")
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def serve(self, serving: Serving, rouse: Callable[[], None]) -> LocalIntake:
        """Add a task of a DRPCSpout."""
        with self._lock:
            number = next(self._numbers)
            intake = self._intakes[number] = LocalIntake(self, number, serving.function, rouse)
            self._requests.connect(
                number, serving.function, serving.topology_id, serving.max_in_flight, serving.collects
            )
            self._assign(serving.function)
            return intake

    def expect(self, function: str) -> None:
        """Let calls of a function wait for its topology, which starts."""
        with self._lock:
            self._failures.pop(function, None)

    def fail(self, function: str, intakes: Iterable[LocalIntake], why: str) -> None:
        """End the requests of a topology that has failed, and calls of a function that no other topology serves."""
        with self._lock:
            self._failures[function] = why
            for intake in intakes:
                intake.close()
            self._end_unserved(function)

    def add_result(self, topology_id: str, id: str, value: str) -> None:
        """Keep a result."""
        with self._lock:
            ended = self._requests.add_result(topology_id, id, value)
            if ended is not None:
                self._end(ended)
                self._assign(ended.function)

    def _begin(self, function: str, args: Any, timeout_s: float) -> tuple[str, Future[Ended]]:
        check_timeout(timeout_s)
        text = encoded(args, f"the arguments of {function!r}")
        id = uuid4().hex
        with self._lock:
            self._requests.execute(id, function, text, time.monotonic() + timeout_s)
            waiting = self._waiting[id] = Future()
            self._assign(function)
            self._end_unserved(function)
        return id, waiting

    def _assign(self, function: str) -> None:
        for one in self._requests.assign(function):
            self._intakes[one.server].arrive(Arrival(one.id, one.args, LOCAL + self.id))

    def _end_unserved(self, function: str) -> None:
        if function in self._failures:
            self._end(*self._requests.end_unserved(function, Kind.LOST, self._failures[function]))

    def _expire(self) -> None:
        with self._lock:
            self._end(*self._requests.expire(time.monotonic() + 0.01))

    def _forget(self, id: str) -> None:
        with self._lock:
            self._end(self._requests.cancel(id))
            self._waiting.pop(id, None)

    def _end(self, *ended: Ended | None) -> None:
        for one in ended:
            waiting = self._waiting.get(one.id) if one is not None else None
            if one is not None and waiting is not None and not waiting.done():
                waiting.set_result(one)


class LocalIntake:
    """The requests of one task of a DRPCSpout."""

    def __init__(self, drpc: LocalDRPC, number: int, function: str, rouse: Callable[[], None]) -> None:
        self.is_connected = True
        self._drpc = drpc
        self._number = number
        self._function = function
        self._rouse = rouse
        self._arrivals: deque[Arrival] = deque()

    def arrive(self, arrival: Arrival) -> None:
        self._arrivals.append(arrival)
        self._rouse()

    def next(self) -> Arrival | None:
        return self._arrivals.popleft() if self._arrivals else None

    def completed(self, id: str) -> None:
        with self._drpc._lock:
            if self.is_connected:
                self._drpc._end(self._drpc._requests.complete(self._number, id))
                self._drpc._assign(self._function)

    def failed(self, id: str, kind: Kind, why: str) -> None:
        with self._drpc._lock:
            if self.is_connected:
                self._drpc._end(self._drpc._requests.fail(self._number, id, kind, why))
                self._drpc._assign(self._function)

    def set_paused(self, is_paused: bool) -> None:
        with self._drpc._lock:
            if not self.is_connected:
                return
            unemitted = [one.id for one in self._arrivals] if is_paused else []
            if is_paused:
                self._arrivals.clear()
            self._drpc._requests.give_back(self._number, unemitted)
            self._drpc._requests.pause(self._number, is_paused)
            self._drpc._assign(self._function)

    def close(self) -> None:
        """End the requests that were taken. The task may go on for a moment, and ends none of them."""
        drpc = self._drpc
        with drpc._lock:
            if not self.is_connected:
                return
            self.is_connected = False
            self._arrivals.clear()
            del drpc._intakes[self._number]
            drpc._end(*drpc._requests.disconnect(self._number, drpc._failures.get(self._function, "")))
            drpc._end_unserved(self._function)


def find(id: str) -> LocalDRPC:
    """Return the LocalDRPC of this process that has this id. Raises UnavailableError."""
    found = LocalDRPC._all.get(id)
    if found is None:
        raise UnavailableError("a LocalDRPC works in the process that has created it, with a LocalCluster")
    return found
