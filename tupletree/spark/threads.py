"""Threads that drive Spark.

The threads are daemons. A process waits at its end for the threads of a ThreadPoolExecutor, so a Spark that does not
answer would keep a worker from stopping.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)


class Threads:
    """Up to ``count`` threads that run submitted work, started in the order of submission."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._queue: queue.SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._is_closed = False
        self._lock = threading.Lock()

    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        """Queue the work. After ``close`` the work is ignored."""
        with self._lock:
            if self._is_closed:
                return
            if len(self._threads) < self._count:
                thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._queue.put((work, arguments))

    def close(self, timeout_s: float) -> bool:
        """Drop queued work and wait for running work. False if work still runs after ``timeout_s``."""
        with self._lock:
            self._is_closed = True
        for _ in self._threads:
            self._queue.put(None)
        deadline_s = time.monotonic() + timeout_s
        others = [thread for thread in self._threads if thread is not threading.current_thread()]
        for thread in others:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        return not any(thread.is_alive() for thread in others)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._is_closed:
                continue
            work, arguments = item
            try:
                work(*arguments)
            except BaseException:  # SystemExit too: sys.exit in user code must not end a thread of the pipeline
                log.exception("%s failed", work.__qualname__)
