"""events.jsonl: a file of sampled tuples and traced trees, written by a thread of its own.

Callers put events into a queue and continue. The thread writes several events at once, because one write per event
would dominate the cost of an event. The file is in the log directory and rotated like the log. Events that arrive
faster than they can be written are dropped and counted. While nothing is switched on, there is neither thread nor file.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from tupletree._wire.events import encode_event

NAME: Final = "events.jsonl"
MAX_WAITING: Final = 20_000
GATHER_S: Final = 0.02  # how long an event waits for further events to share a write
_MAX_AT_ONCE: Final = 1000
_MAX_BYTES_AT_ONCE: Final = 64 * 1024
LINGER_S: Final = 0.5  # how long ``close`` waits for the remaining events

Event = dict[str, Any]


class EventLog:
    """The events of one worker. ``put`` may be called from any thread."""

    def __init__(self, directory: str | None, worker: str, max_bytes: int, backups: int) -> None:
        self._directory = directory
        self._worker = worker
        self._max_bytes = max_bytes
        self._backups = backups
        self._waiting: queue.Queue[Event | None] = queue.Queue(MAX_WAITING)
        self._left_out = 0
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Start writing. Does nothing if already started, or if the worker has no log directory."""
        if self._thread is None and self._directory is not None:
            path = os.path.join(self._directory, NAME)
            self._thread = threading.Thread(target=self._write, args=(path,), name="events", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write the queued events, and stop."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._waiting.put(None, timeout=LINGER_S)
            self._thread.join(LINGER_S)
            self._thread = None

    def put(self, event: Event) -> None:
        """Queue an event, or drop and count it if the queue is full."""
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self._left_out += 1  # an approximate count: concurrent increments may be lost

    def left_out(self, count: int) -> None:
        """Count events that were dropped before ``put``."""
        self._left_out += count

    def _write(self, path: str) -> None:
        try:
            handler = logging.handlers.RotatingFileHandler(
                path, maxBytes=self._max_bytes, backupCount=self._backups, encoding="utf-8"
            )
        except OSError as error:
            logging.getLogger(__name__).warning("events.unwritten path=%s cause=%s", path, error.strerror)
            return
        handler.setFormatter(logging.Formatter("%(message)s"))
        with contextlib.closing(handler):
            is_open = True
            while is_open:
                events = self._gathered()
                is_open = None not in events
                if self._left_out and self._waiting.empty():
                    count, self._left_out = self._left_out, 0
                    events.append({"at": time.time(), "kind": "left_out", "count": count})
                lines = [encode_event({**event, "worker": self._worker}) for event in events if event is not None]
                for text in _joined(lines, min(_MAX_BYTES_AT_ONCE, self._max_bytes // 10)):
                    handler.handle(logging.makeLogRecord({"msg": text}))

    def _gathered(self) -> list[Event | None]:
        """Wait for an event; return it with further queued events. A None among them means the end."""
        events = [self._waiting.get()]
        if events[0] is not None:
            time.sleep(GATHER_S)
        with contextlib.suppress(queue.Empty):
            while len(events) < _MAX_AT_ONCE and events[-1] is not None:
                events.append(self._waiting.get_nowait())
        return events


def _joined(lines: list[str], most: int) -> Iterator[str]:
    """Join lines into texts of about ``most`` characters, so that files are not rotated late."""
    text: list[str] = []
    length = 0
    for line in lines:
        text.append(line)
        length += len(line)
        if length >= most:
            yield "\n".join(text)
            text, length = [], 0
    if text:
        yield "\n".join(text)
