"""events.jsonl: sampled tuples and traced trees, written down by a thread of its own.

Whoever has an event puts it into a queue and goes on; it is written beside the log and rotated like it, with what came
soon after it: a write for each event would cost more than all else about it. If more comes than can be written, what is
too much is left out and counted. Where nothing is switched on there is neither thread nor
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
from collections.abc import Iterator
from typing import Any, Final

from tupletree._wire.events import encode_event

NAME: Final = "events.jsonl"
MAX_WAITING: Final = 20_000
GATHER_S: Final = 0.02  # how long an event waits for others to be written with
_MAX_AT_ONCE: Final = 1000
_MAX_BYTES_AT_ONCE: Final = 64 * 1024
LINGER_S: Final = 0.5  # how long the end waits for what is still to be written

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
        """The next events, once there is one; None among them is the end."""
        events = [self._waiting.get()]
        if events[0] is not None:
            time.sleep(GATHER_S)
        with contextlib.suppress(queue.Empty):
            while len(events) < _MAX_AT_ONCE and events[-1] is not None:
                events.append(self._waiting.get_nowait())
        return events


def _joined(lines: list[str], most: int) -> Iterator[str]:
    """The lines in texts of about that length, so that files are not rotated late."""
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
