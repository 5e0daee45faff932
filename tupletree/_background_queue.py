"""A bounded queue with a thread that takes its items: who puts one in never waits for what is done with it."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class BackgroundQueue(Generic[T]):
    """The items of one thread, which runs from ``start`` to ``close``. These two are not called at the same time.

    ``name``: of the thread. ``max_waiting``: the maximum number of items that wait; further ones are left out and
    counted. ``linger_s``: how long ``close`` waits for the remaining items.
    """

    def __init__(self, name: str, max_waiting: int, linger_s: float) -> None:
        self._name = name
        self._linger_s = linger_s
        self._waiting: queue.Queue[T | None] = queue.Queue(max_waiting)
        self._left_out = 0
        self._thread: threading.Thread | None = None

    def start(self, run: Callable[[], None]) -> None:
        """Start the thread with ``run``, which returns when the items are at their end. Does nothing if it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=run, name=self._name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Let the thread take the items that wait and end, as far as it does so in time."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._waiting.put(None, timeout=self._linger_s)
            self._thread.join(self._linger_s)
            self._thread = None

    def put(self, item: T) -> None:
        """Queue an item, or leave it out if too many wait. Any thread."""
        try:
            self._waiting.put_nowait(item)
        except queue.Full:
            self._left_out += 1  # an approximate count: concurrent increments may be lost

    def count_left_out(self, count: int) -> None:
        """Count items that were left out before ``put``. Any thread."""
        self._left_out += count

    # For the thread:

    def get(self) -> T | None:
        """Wait for the next item; None at the end."""
        return self._waiting.get()

    def get_more(self) -> Iterator[T | None]:
        """Yield the items that wait now. The last one may be None: the end."""
        with contextlib.suppress(queue.Empty):
            while True:
                item = self._waiting.get_nowait()
                yield item
                if item is None:
                    return

    def take_left_out(self) -> int:
        """Return how many items were left out since the last call. 0 while others wait: they are told of at once."""
        if not self._left_out or not self._waiting.empty():
            return 0
        count, self._left_out = self._left_out, 0
        return count
