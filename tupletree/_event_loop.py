"""The event loop of all async bolts of this process, on a thread of its own; a subclass is another such loop.

The loop is never the worker's own loop: a coroutine that blocks delays other coroutines, but not heartbeats or tuples.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")


class EventLoop:
    """A running event loop. ``acquire`` starts it for the first user, ``release`` ends it after the last."""

    _name: ClassVar[str] = "async-bolts"
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _shared: ClassVar[EventLoop | None] = None

    def __init_subclass__(cls, name: str) -> None:
        """Give each subclass a loop of its own, on a thread of this name."""
        cls._name, cls._lock, cls._shared = name, threading.Lock(), None

    def __init__(self) -> None:
        self._users = 0
        self._loop = self._new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
        self._thread.start()

    @staticmethod
    def _new_loop() -> asyncio.AbstractEventLoop:
        """Return a loop of uvloop if that is installed, which takes a third less of the processor; else of asyncio."""
        try:
            uvloop: Any = importlib.import_module("uvloop")
        except ImportError:
            return asyncio.new_event_loop()
        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        return loop

    @classmethod
    def acquire(cls) -> EventLoop:
        """Return the loop of this process. Call ``release`` once for each call."""
        with cls._lock:
            shared = cls._shared = cls._shared or cls()
            shared._users += 1
            return shared

    def release(self) -> None:
        """Give the loop back. The last call waits until the loop has ended."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            type(self)._shared = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def call(self, function: Any, *arguments: Any) -> None:
        """Call a function on the loop's thread, soon. Any thread."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result. Not from the loop's own thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
