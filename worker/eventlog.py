"""events.jsonl: sampled tuples and traced trees, written down by a thread of its own.

Whoever has an event puts it into a queue and goes on; it is written beside the log and rotated like it. If more comes
than can be written, what is too much is left out and counted. Where nothing is switched on there is neither thread nor
file.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import queue
import threading
import time
from typing import Any, Final

from tupletree._wire.events import encode_event

NAME: Final = "events.jsonl"
MOST_WAITING: Final = 20_000
LINGER_S: Final = 0.5  # how long the end waits for what is still to be written

Event = dict[str, Any]


class EventLog:
    """The events of one worker. ``put`` may be called from any thread."""

    def __init__(self, directory: str | None, worker: str, max_bytes: int, backups: int) -> None:
        self._directory = directory
        self._worker = worker
        self._max_bytes = max_bytes
        self._backups = backups
        self._waiting: queue.Queue[Event | None] = queue.Queue(MOST_WAITING)
        self._left_out = 0
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Begin to write. Nothing if it has begun, or if the worker has no directory for logs."""
        if self._thread is None and self._directory is not None:
            path = os.path.join(self._directory, NAME)
            self._thread = threading.Thread(target=self._write, args=(path,), name="events", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write what was put before, and end."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._waiting.put(None, timeout=LINGER_S)
            self._thread.join(LINGER_S)
            self._thread = None

    def put(self, event: Event) -> None:
        """Have an event written, or left out."""
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self._left_out += 1  # two threads at the same time may count one: it is for people

    def left_out(self, count: int) -> None:
        """Others were not even put."""
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
            while (event := self._waiting.get()) is not None:
                self._emit(handler, event)
                if self._left_out and self._waiting.empty():
                    count, self._left_out = self._left_out, 0
                    self._emit(handler, {"at": time.time(), "kind": "left_out", "count": count})

    def _emit(self, handler: logging.Handler, event: Event) -> None:
        line = encode_event({**event, "worker": self._worker})
        handler.handle(logging.makeLogRecord({"msg": line}))
