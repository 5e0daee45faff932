"""A thread that runs one step whenever it is woken: the shape that presences and elections share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tupletree._log import event
from tupletree.errors import TupletreeError

logger = logging.getLogger(__name__)


class WakeLoop:
    """Runs ``step`` in a thread of its own, after each ``wake`` (several may be served by one run).

    A step that raises a TupletreeError is run again ``retry_s`` later, or as soon as somebody wakes it. A step must be
    level-triggered: it looks, and does what is missing.
    """

    def __init__(self, name: str, step: Callable[[], None], retry_s: float = 1.0) -> None:
        self._step = step
        self._retry_s = retry_s
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._last_trouble = ""

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Have ``step`` run soon. Callable from any thread; never blocks."""
        self._woken.set()

    def stop(self, timeout_s: float = 5.0) -> None:
        """No step begins after this; waits for the running one."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        delay_s: float | None = None
        while True:
            self._woken.wait(delay_s)
            self._woken.clear()
            if self._stopping.is_set():
                return
            delay_s = self._attempt()

    def _attempt(self) -> float | None:
        try:
            self._step()
        except TupletreeError as error:
            trouble = str(error)
            if trouble != self._last_trouble:
                event(logger, "loop.failed", level=logging.WARNING, loop=self._thread.name, cause=trouble)
            self._last_trouble = trouble
            return self._retry_s
        except Exception:
            # A thread that ended here would leave a daemon that looks alive and takes part in nothing.
            logger.exception("loop.failed loop=%s", self._thread.name)
            return self._retry_s
        self._last_trouble = ""
        return None
