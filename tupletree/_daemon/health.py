"""Readiness of a daemon, with reasons: the single source of /readyz and grpc.health.v1."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Readiness:
    """Named checks, each passing or failing with a reason. The daemon is ready if every check passes.

    Before it serves, a daemon sets each check to a reason ("zookeeper", "connecting"), so that it is not ready until
    every reason is cleared. Thread-safe. Callbacks run in the thread that made the change, outside the lock, and must
    do no more than wake another thread or task.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failing: dict[str, str] = {}
        self._callbacks: list[Callable[[], None]] = []

    def set(self, check: str, reason: str | None) -> None:
        """Set the ``reason`` why ``check`` fails, in a few words; None if the check passes."""
        with self._lock:
            before = dict(self._failing)
            if reason is None:
                self._failing.pop(check, None)
            else:
                self._failing[check] = reason
            callbacks = list(self._callbacks) if self._failing != before else []
        for callback in callbacks:
            callback()

    @property
    def ready(self) -> bool:
        with self._lock:
            return not self._failing

    @property
    def reasons(self) -> list[str]:
        """Return "check: reason" for each failing check, sorted by name."""
        with self._lock:
            return [f"{check}: {reason}" for check, reason in sorted(self._failing.items())]

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback()`` after every change of ``reasons``. Returns a function that removes the callback."""
        with self._lock:
            self._callbacks.append(callback)

        def cancel() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return cancel
