"""The crossing from run loop threads to the asyncio thread, which passes the engine's output to the links.

After an idle period, output goes to the links at once. At high rates, and among many workers on busy processors,
further output is gathered for a short pause (linger.py). If the asyncio loop falls behind and too much output waits,
the target tasks are closed at the gate.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable

from tupletree.errors import TaskFailedError

from ..core.ack_updates import AckUpdates
from ..core.batches import EncodedBatch, bytes_of
from ..execution.inbox import Gate, not_reached
from .acker_links import AckerLinks
from .linger import Linger
from .peer_links import PeerLinks

MAX_BYTES = 4 * 1024 * 1024
"""While more bytes than this wait for the loop, the target tasks are closed at the gate."""


class Transfer:
    """The outside of a worker's engine. Methods may be called from any thread; the links live on the loop's thread.

    ``flush_interval_s``: the longest time for which output is gathered, unless the loop is late (linger.py).
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, flush_interval_s: float) -> None:
        self.failure: asyncio.Future[TaskFailedError] = loop.create_future()
        self._loop = loop
        self._batches: deque[tuple[EncodedBatch, frozenset[int], int]] = deque()  # with the tasks and bytes of each
        self._handed_bytes = 0  # since the start, counted by the senders, under the lock
        self._taken_bytes = 0  # since the start, counted by the loop without the lock
        self._lock = threading.Lock()
        self._is_holding = False  # tasks are closed at the gate
        self._gate: Gate | None = None
        self._updates: deque[AckUpdates] = deque()
        self._linger = Linger(loop.time(), flush_interval_s)
        self._due_s = 0.0  # when the scheduled ``_flush`` should run
        self._is_scheduled = False  # ``_flush`` will run on the loop
        self._peers: PeerLinks | None = None
        self._ackers: AckerLinks | None = None
        self._tell_congestion: Callable[[], None] | None = None

    def connect(
        self, gate: Gate, peers: PeerLinks, ackers: AckerLinks | None, tell_congestion: Callable[[], None]
    ) -> None:
        """Set the gate, the links, and the function that tells other workers of a change of the congested tasks.

        Call on the loop's thread, before the engine starts.
        """
        self._gate, self._peers, self._ackers, self._tell_congestion = gate, peers, ackers, tell_congestion

    def send(self, batch: EncodedBatch, tasks: frozenset[int]) -> None:
        size = bytes_of(batch)
        with self._lock:
            self._handed_bytes += size
            if self._handed_bytes - self._taken_bytes > MAX_BYTES and self._gate is not None:
                self._is_holding = True
                self._gate.set(self, self._gate.closed_by(self) | not_reached(tasks))
        self._batches.append((batch, tasks, size))  # after the flag: a loop that takes this batch must see the flag
        self._schedule()

    def post(self, updates: AckUpdates) -> None:
        self._updates.append(updates)
        self._schedule()

    def fail(self, roots: Iterable[int]) -> None:
        """Fail trees whose tuples may be lost."""
        self.post(AckUpdates.of(fails=roots))

    def failed(self, failure: TaskFailedError) -> None:
        self._loop.call_soon_threadsafe(self._set_failure, failure)

    def congestion_changed(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify_senders)

    @property
    def is_idle(self) -> bool:
        """True if everything was passed to the links."""
        return not self._batches and not self._updates

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._due_s = self._loop.time()
            self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        """Pass waiting output to the links. Run again after the pause; without a pause, at the next ``_schedule``."""
        assert self._peers is not None
        now_s = self._loop.time()
        try:
            count = self._give(self._peers)
        except Exception as error:  # a bug: the worker must end, because ``_flush`` is not scheduled again
            self._set_failure(TaskFailedError("__system", -1, error))
            raise
        self._linger.add(count, now_s - self._due_s, len(self._peers), now_s)
        if count and self._linger.pause_s:
            self._due_s = now_s + self._linger.pause_s
            self._loop.call_at(self._due_s, self._flush)
            return
        self._is_scheduled = False
        if not self.is_idle:  # appended just now, by a thread that still saw the flag set
            self._schedule()

    def _give(self, peers: PeerLinks) -> int:
        """Pass everything to the links; return the number of tuples and updates."""
        count = 0
        while self._batches:
            batch, tasks, size = self._batches.popleft()
            self._taken_bytes += size
            count += batch.rows
            peers.send(batch, tasks)
        if self._is_holding:
            self._release()
        while self._updates:
            updates = self._updates.popleft()
            count += len(updates)
            if self._ackers is not None:
                self._ackers.post(updates)
        return count

    def _release(self) -> None:
        """Open the closed tasks again, unless too much waits again."""
        with self._lock:
            if self._handed_bytes - self._taken_bytes <= MAX_BYTES and self._gate is not None:
                self._is_holding = False
                self._gate.set(self, ())

    def _set_failure(self, failure: TaskFailedError) -> None:
        if not self.failure.done():
            self.failure.set_result(failure)

    def _notify_senders(self) -> None:
        if self._tell_congestion is not None:
            self._tell_congestion()
