"""events.jsonl: a file of sampled tuples and traced trees, written by a thread of its own.

Callers put events into a queue and continue. The thread writes several events at once, because one write per event
would dominate the cost of an event. The file is in the log directory and rotated like the log. Events that arrive
faster than they can be written are dropped and counted. While nothing is switched on, there is neither thread nor file.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import logging.handlers
import os
import time
from collections.abc import Iterator
from typing import Any, Final

from tupletree._background_queue import BackgroundQueue
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
        self._queue = BackgroundQueue[Event]("events", MAX_WAITING, LINGER_S)

    def open(self) -> None:
        """Start writing. Does nothing if already started, or if the worker has no log directory."""
        if self._directory is not None:
            self._queue.start(functools.partial(self._write, os.path.join(self._directory, NAME)))

    def close(self) -> None:
        """Write the queued events, and stop."""
        self._queue.close()

    def put(self, event: Event) -> None:
        """Queue an event, or drop and count it if the queue is full."""
        self._queue.put(event)

    def left_out(self, count: int) -> None:
        """Count events that were dropped before ``put``."""
        self._queue.count_left_out(count)

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
                if count := self._queue.take_left_out():
                    events.append({"at": time.time(), "kind": "left_out", "count": count})
                lines = [encode_event({**event, "worker": self._worker}) for event in events if event is not None]
                for text in _joined(lines, min(_MAX_BYTES_AT_ONCE, self._max_bytes // 10)):
                    handler.handle(logging.makeLogRecord({"msg": text}))

    def _gathered(self) -> list[Event | None]:
        """Wait for an event; return it with further queued events. A None among them means the end."""
        first = self._queue.get()
        if first is None:
            return [first]
        time.sleep(GATHER_S)
        return [first, *itertools.islice(self._queue.get_more(), _MAX_AT_ONCE - 1)]


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
