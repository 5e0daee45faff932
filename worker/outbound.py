"""The crossing from run loop threads to the asyncio thread: what the engine hands over goes to the links from here."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from tupletree.v1 import worker_pb2

from .ackers import Ackers
from .peers import Peers
from .service import WorkerService
from .tasks import TaskFailure
from .tracking import Updates


class Outbound:
    """The outside of a worker's engine. Its methods are called from any thread; the links live on the loop's.

    Everything handed over between two turns of the loop is taken in one go, so that a wake-up of the loop, which costs
    more than the rest, is paid for once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.failure: asyncio.Future[TaskFailure] = loop.create_future()
        self._loop = loop
        self._batches: deque[worker_pb2.Batch] = deque()
        self._updates: deque[Updates] = deque()
        self._is_scheduled = False
        self._peers: Peers | None = None
        self._ackers: Ackers | None = None
        self._service: WorkerService | None = None

    def connect(self, peers: Peers, ackers: Ackers | None, service: WorkerService) -> None:
        """Name the links. On the loop's thread, before the engine starts."""
        self._peers, self._ackers, self._service = peers, ackers, service

    def send(self, batch: worker_pb2.Batch) -> None:
        self._batches.append(batch)
        self._schedule()

    def post(self, updates: Updates) -> None:
        self._updates.append(updates)
        self._schedule()

    def fail(self, roots: Iterable[int]) -> None:
        """Fail trees whose tuples may be lost."""
        self.post(Updates(fails=set(roots)))

    def failed(self, failure: TaskFailure) -> None:
        self._loop.call_soon_threadsafe(self._settle, failure)

    def congestion_changed(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell_senders)

    def _schedule(self) -> None:
        # Cleared by the loop before it takes anything: what is appended after that schedules again.
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._is_scheduled = False
        assert self._peers is not None
        while self._batches:
            self._peers.send(self._batches.popleft())
        while self._updates:
            updates = self._updates.popleft()
            if self._ackers is not None:
                self._ackers.post(updates)

    def _settle(self, failure: TaskFailure) -> None:
        if not self.failure.done():
            self.failure.set_result(failure)

    def _tell_senders(self) -> None:
        if self._service is not None:
            self._service.congestion_changed()
