"""The end of threads that work beside a task: when its state is closed, or when the process ends."""

from __future__ import annotations

import threading


class StoppedError(Exception):
    """The thread has to end."""


class Stopping:
    """Asked by a thread now and then.

    The interpreter waits at its end for threads that are no daemons, after its main thread has ended. A daemon could
    be in the middle of RocksDB when the interpreter goes, which aborts the process.
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask the thread to end."""
        self._event.set()

    def check(self, pause_s: float = 0.0) -> None:
        """Pause. Raises StoppedError if the thread has to end."""
        if self._event.wait(pause_s) or not threading.main_thread().is_alive():
            raise StoppedError
