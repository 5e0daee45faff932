"""The thread that owns a queue's connection: it receives ahead, acknowledges, and keeps messages in process alive.

The spout is called only while the topology has room, and never while it is deactivated. The queue must be answered all
the same: a delivery has its time limit, a connection its heartbeats. So nothing of the connection hangs on
``next_tuple``: the spout and this thread exchange deliveries and commands through queues.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tupletree.backoff import Backoff
from tupletree.connectors.outstanding import Outstanding
from tupletree.connectors.queue_source import Delivery, QueueSource

WAIT_S: Final = 0.02
"""The longest wait for a message: commands of the spout wait at most so long."""
MAX_RECEIVED: Final = 500
"""The maximum number of messages that are received at a time."""
LAG_EVERY_S: Final = 2.0
CLOSE_S: Final = 5.0
"""How long ``close`` waits for the last acknowledgements."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection stands. Deliveries that follow are of this generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is lost, with all that was delivered on it. ``error``: why."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Broken:
    """The source raised an exception after which it is not opened again."""

    error: BaseException


Event = Delivery | Connected | Lost | Broken


class Pump(threading.Thread):
    """Drives a source. The spout's thread calls ``poll``, ``acknowledge``, ``release``, ``reject`` and ``pause``."""

    def __init__(self, source: QueueSource, prefetch: int, task_index: int, reconnect: Backoff) -> None:
        super().__init__(name=f"{source.title}-{task_index}", daemon=True)
        self.is_connected = False
        self.lag: int | None = None
        self.error = ""  # why the connection was lost last
        self._lag_at_s = 0.0
        self._source = source
        self._prefetch = prefetch
        self._task_index = task_index
        self._reconnect = reconnect
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._commands: queue.SimpleQueue[tuple[str, int, Any, float]] = queue.SimpleQueue()
        self._is_paused = False
        self._is_closing = threading.Event()
        self._generation = 0
        self._outstanding = Outstanding(prefetch, source.keep_every_s, time.monotonic())

    # The spout's side

    def poll(self) -> Event | None:
        """Return what comes next, or None."""
        with contextlib.suppress(queue.Empty):
            return self._events.get_nowait()
        return None

    def acknowledge(self, generation: int, handle: Any) -> None:
        """Acknowledge a message soon. Ignored if its connection is lost: the queue delivers it again."""
        self._commands.put(("acknowledge", generation, handle, 0.0))

    def release(self, generation: int, handle: Any, delay_s: float) -> None:
        """Return a message to the queue, after a delay."""
        self._commands.put(("release", generation, handle, delay_s))

    def reject(self, generation: int, handle: Any) -> None:
        """Give a message up."""
        self._commands.put(("reject", generation, handle, 0.0))

    def pause(self, is_paused: bool) -> None:
        """Receive nothing more, or go on. What was received is still answered for."""
        self._is_paused = is_paused

    @property
    def outstanding(self) -> int:
        """The number of messages delivered and not acknowledged. Any thread."""
        return len(self._outstanding)

    def close(self) -> None:
        """Send the last acknowledgements, disconnect, and end."""
        self._is_closing.set()
        self.join(CLOSE_S)

    # The thread's side

    def run(self) -> None:
        failures = 0
        while not self._is_closing.is_set():
            try:
                self._source.open(self._prefetch, self._task_index)
                self._begin()
                failures = 0
                self._serve()
            except self._source.lost_on as error:
                failures += 1
                self.error = f"{type(error).__name__}: {error}"
                self._events.put(Lost(error))
            except BaseException as error:
                self._events.put(Broken(error))
                return
            finally:
                self.is_connected = False
                self.lag = None
                with contextlib.suppress(Exception):  # as the contract has it, and no thread may end of it in silence
                    self._source.close()
            if not self._is_closing.is_set():
                self._is_closing.wait(self._reconnect.pause_s(max(1, failures)))

    def _begin(self) -> None:
        self._generation += 1
        self._outstanding = Outstanding(self._prefetch, self._source.keep_every_s, time.monotonic())
        self.is_connected = True
        self._lag_at_s = 0.0
        self._events.put(Connected(self._generation))

    def _serve(self) -> None:
        outstanding = self._outstanding
        while not self._is_closing.is_set():
            has_answered = self._answer()
            self._measure_lag()
            room = 0 if self._is_paused else min(outstanding.room, MAX_RECEIVED)
            if room <= 0:
                if not has_answered:
                    self._source.idle(WAIT_S)
                continue
            for delivery in self._source.receive(room, 0.0 if has_answered else WAIT_S):
                outstanding.add(delivery.handle)
                self._events.put(delivery)
        self._answer()

    def _answer(self) -> bool:
        """Carry out the commands of the spout, and what is due. Return true if there was anything."""
        now_s = time.monotonic()
        outstanding = self._outstanding
        done: defaultdict[tuple[str, float], list[Any]] = defaultdict(list)
        while True:
            try:
                kind, generation, handle, delay_s = self._commands.get_nowait()
            except queue.Empty:
                break
            if generation != self._generation:
                continue
            if kind == "release" and delay_s and not self._source.has_delays:
                outstanding.release_at(now_s + delay_s, handle)
            elif outstanding.remove(handle):
                done[kind, delay_s].append(handle)
        done["release", 0.0] += outstanding.due_releases(now_s)
        for (kind, delay_s), handles in done.items():
            if handles:
                self._carry_out(kind, handles, delay_s)
        kept = outstanding.due_keeps(now_s)
        if kept:
            self._source.keep(kept)
        return any(done.values())

    def _measure_lag(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._lag_at_s:
            self._lag_at_s = now_s + LAG_EVERY_S
            self.lag = self._source.lag()

    def _carry_out(self, kind: str, handles: list[Any], delay_s: float) -> None:
        if kind == "release":
            self._source.release(handles, delay_s)
        else:
            act: Callable[[list[Any]], None] = getattr(self._source, kind)
            act(handles)
