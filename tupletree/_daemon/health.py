"""Whether a daemon is fit for work, and why not: the one source of /readyz and grpc.health.v1."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Readiness:
    """Named checks, each fine or with a reason why not. Ready means that every check is fine.

    A daemon sets each of its checks to a reason before it serves ("zookeeper", "connecting"), so that it is not
    ready until it says so. Any thread may call any method; callbacks run in the thread that made the change, outside
    the lock, and must only wake somebody.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failing: dict[str, str] = {}
        self._callbacks: list[Callable[[], None]] = []

    def set(self, check: str, reason: str | None) -> None:
        """``reason`` is why ``check`` fails, in a few words; None if it is fine."""
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
        """One "check: reason" for each check that fails, by name."""
        with self._lock:
            return [f"{check}: {reason}" for check, reason in sorted(self._failing.items())]

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback()`` after every change of ``reasons``. Returns a call that ends this."""
        with self._lock:
            self._callbacks.append(callback)

        def cancel() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return cancel
