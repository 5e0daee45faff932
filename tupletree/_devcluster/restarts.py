"""Backoff for restarts of a daemon that died. Pure; the clock is an argument.

The first restart is immediate; each further restart doubles the pause, up to a limit, so that a daemon that cannot
start (port in use, disk full) does not keep the machine busy. After a steady run, the pause is reset.
"""

from __future__ import annotations  # pure

from typing import Final

FIRST_PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 30.0
STEADY_S: Final = 30.0


class RestartSchedule:
    """The restarts of one daemon."""

    def __init__(self) -> None:
        self._pause_s = 0.0
        self._started_s = 0.0
        self._due_s: float | None = None

    def started(self, now_s: float) -> None:
        """Record a start of the process."""
        self._started_s = now_s
        self._due_s = None

    def died(self, now_s: float) -> float:
        """Record a death and return the remaining pause before the restart. Repeated calls count once until a start."""
        if self._due_s is None:
            if now_s - self._started_s >= STEADY_S:
                self._pause_s = 0.0
            self._due_s = now_s + self._pause_s
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), MAX_PAUSE_S)
        return max(0.0, self._due_s - now_s)

    @property
    def waiting(self) -> bool:
        """True if a death was recorded, and no start after the death."""
        return self._due_s is not None

    def due(self, now_s: float) -> bool:
        """True if a dead process is due for a restart."""
        return self._due_s is not None and now_s >= self._due_s
