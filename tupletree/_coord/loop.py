"""A thread that runs a step whenever it is woken, shared by presences and elections."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tupletree._log import event
from tupletree.errors import TupletreeError

logger = logging.getLogger(__name__)


class WakeLoop:
    """Runs ``step`` in its own thread after each ``wake`` (one run can serve several wakes).

    A step that raises a TupletreeError is run again after ``retry_s``, or at the next wake if that is sooner. A step
    must be level-triggered: it checks the current state and does the missing work.
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
        """Schedule a run of ``step``. Callable from any thread; never blocks."""
        self._woken.set()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Wait for the running step; no step begins afterwards."""
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
            # If the thread ended here, the daemon would look alive but do nothing.
            logger.exception("loop.failed loop=%s", self._thread.name)
            return self._retry_s
        self._last_trouble = ""
        return None
