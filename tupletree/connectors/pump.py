"""The thread that owns a queue's connection: it receives ahead, acknowledges, and keeps messages in process alive."""

from __future__ import annotations

import contextlib
import queue
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tupletree.backoff import Backoff
from tupletree.connectors.outstanding import Outstanding
from tupletree.connectors.queue_source import Delivery, QueueSource
from tupletree.connectors.source_thread import Broken, Lost, SourceThread

WAIT_S: Final = 0.02
"""The longest wait for a message: commands of the spout wait at most so long."""
MAX_RECEIVED: Final = 500
"""The maximum number of messages that are received at a time."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection stands. Deliveries that follow are of this generation."""

    generation: int


Event = Delivery | Connected | Lost | Broken


class Pump(SourceThread):
    """Drives a source. The spout's thread calls ``poll``, ``acknowledge``, ``release``, ``reject`` and ``pause``."""

    def __init__(self, source: QueueSource, prefetch: int, task_index: int, reconnect: Backoff) -> None:
        super().__init__(source, task_index, reconnect)
        self._source = source
        self._prefetch = prefetch
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._commands: queue.SimpleQueue[tuple[str, int, Any, float]] = queue.SimpleQueue()
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

    @property
    def outstanding(self) -> int:
        """The number of messages delivered and not acknowledged. Any thread."""
        return len(self._outstanding)

    # The thread's side

    def _open(self) -> None:
        self._source.open(self._prefetch, self._task_index)
        self._generation += 1
        self._outstanding = Outstanding(self._prefetch, self._source.keep_every_s, time.monotonic())
        self._events.put(Connected(self._generation))

    def _notify(self, event: Lost | Broken) -> None:
        with contextlib.suppress(queue.Empty):  # of connections that are gone: the queue delivers again
            while True:
                self._events.get_nowait()
        self._events.put(event)

    def _serve(self) -> None:
        outstanding = self._outstanding
        while not self._is_closing.is_set():
            has_answered = self._answer()
            self._measure_lag(self._source.lag)
            room = 0 if self._is_paused else min(outstanding.room, MAX_RECEIVED)
            if room <= 0:
                if not has_answered:
                    self._source.idle(WAIT_S)
                continue
            deliveries = self._source.receive(room, 0.0 if has_answered else WAIT_S)
            self._failures = 0
            for delivery in deliveries:
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

    def _carry_out(self, kind: str, handles: list[Any], delay_s: float) -> None:
        if kind == "release":
            self._source.release(handles, delay_s)
        else:
            act: Callable[[list[Any]], None] = getattr(self._source, kind)
            act(handles)
