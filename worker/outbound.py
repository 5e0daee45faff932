"""The crossing from run loop threads to the asyncio thread: what the engine hands over goes to the links from here.

What is handed over after a silence goes to the links at once; what follows is gathered for a while if there is much of
it (pace.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from tupletree.v1 import worker_pb2

from .ackers import Ackers
from .pace import Pace
from .peers import Peers
from .service import WorkerService
from .tasks import TaskFailure
from .tracking import Updates


class Outbound:
    """The outside of a worker's engine. Its methods are called from any thread; the links live on the loop's.

    ``flush_interval_s``: nothing is gathered for longer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, flush_interval_s: float) -> None:
        self.failure: asyncio.Future[TaskFailure] = loop.create_future()
        self._loop = loop
        self._batches: deque[worker_pb2.Batch] = deque()
        self._updates: deque[Updates] = deque()
        self._flush_interval_s = flush_interval_s
        self._pace = Pace(loop.time())
        self._is_scheduled = False  # the loop is going to take what is there
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
        self.post(Updates.of(fails=roots))

    def failed(self, failure: TaskFailure) -> None:
        self._loop.call_soon_threadsafe(self._settle, failure)

    def congestion_changed(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell_senders)

    @property
    def is_idle(self) -> bool:
        """Whether everything was given to the links."""
        return not self._batches and not self._updates

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        """Give the links what is there, and come again after a pause. Without one, whoever appends next calls."""
        try:
            count = self._give()
        except Exception as error:  # a fault of ours: the worker must end, for nobody would come again
            self._settle(TaskFailure("__system", -1, error))
            raise
        self._pace.add(count, self._loop.time())
        if count and self._pace.pause_s:
            self._loop.call_later(min(self._pace.pause_s, self._flush_interval_s), self._take)
            return
        self._is_scheduled = False
        if not self.is_idle:  # appended just now, by one who saw the flag still set
            self._schedule()

    def _give(self) -> int:
        """Give the links everything; return how many tuples and updates it was."""
        assert self._peers is not None
        count = 0
        while self._batches:
            batch = self._batches.popleft()
            count += batch.rows
            self._peers.send(batch)
        while self._updates:
            updates = self._updates.popleft()
            count += len(updates)
            if self._ackers is not None:
                self._ackers.post(updates)
        return count

    def _settle(self, failure: TaskFailure) -> None:
        if not self.failure.done():
            self.failure.set_result(failure)

    def _tell_senders(self) -> None:
        if self._service is not None:
            self._service.congestion_changed()
