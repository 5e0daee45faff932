"""Watches the progress of a transactional topology in ZooKeeper."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tupletree._stores.zookeeper_nodes import open_store
from tupletree.attempt import first_attempt
from tupletree.errors import NotFoundError, UnavailableError
from tupletree.transactional.status import Status, load_status

PAUSE_S = 0.1


class Watch:
    """Watches the progress in a thread of its own. Times are on the monotonic clock.

    Attributes:
        committed: the last transaction seen as committed.
        is_idle: True if, at the last look, every transaction begun was committed.
        longest_s: the longest time between two looks at which ``committed`` had grown.
    """

    def __init__(self, conf: Mapping[str, Any], transactional_id: str) -> None:
        self.committed = 0
        self.is_idle = True
        self.longest_s = 0.0
        self._grew_s = time.monotonic()
        self._emitted: dict[int, int] = {}  # epoch -> batches emitted, up to the last one seen committing
        self._abandoned = 0  # batches in progress when their coordinator ended
        self._last: Status | None = None
        self._store = open_store(conf)
        self._id = transactional_id
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    @property
    def replays(self) -> int:
        """Approximate number of replayed batches, computed from looks at the progress."""
        return max(0, sum(self._emitted.values()) - self.committed) + self._abandoned

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._thread.join()
        self._store.close()

    def _run(self) -> None:
        while not self._stopped.wait(PAUSE_S):
            with suppress(NotFoundError, UnavailableError):
                self._saw(load_status(self._store, self._id))

    def _saw(self, status: Status) -> None:
        if status.committed > self.committed:
            now_s = time.monotonic()
            if self.committed:
                self.longest_s = max(self.longest_s, now_s - self._grew_s)
            self._grew_s = now_s
        if self._last is not None and status.epoch > self._last.epoch:
            self._abandoned += self._last.begun - self._last.committed
        self._last = status
        self.committed, self.is_idle = status.committed, status.committed == status.begun
        if status.committing is not None:
            epoch, attempt = status.committing.epoch, status.committing.attempt
            self._emitted[epoch] = max(attempt - first_attempt(epoch) + 1, self._emitted.get(epoch, 0))
