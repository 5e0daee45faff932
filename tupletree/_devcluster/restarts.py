"""How long to wait before a daemon that died is started again. Pure; the clock is an argument.

The first restart comes at once, each further one after twice the pause, up to a limit: a daemon that cannot start (its
port is taken, its disk is full) does not keep the machine busy. One that ran for a while starts anew.
"""

from __future__ import annotations

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
        """The process was started."""
        self._started_s = now_s
        self._due_s = None

    def died(self, now_s: float) -> float:
        """The process was found dead; returns the pause before its restart. Counts once until it is started again."""
        if self._due_s is None:
            if now_s - self._started_s >= STEADY_S:
                self._pause_s = 0.0
            self._due_s = now_s + self._pause_s
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), MAX_PAUSE_S)
        return max(0.0, self._due_s - now_s)

    @property
    def waiting(self) -> bool:
        """Whether a death was counted and no start since."""
        return self._due_s is not None

    def due(self, now_s: float) -> bool:
        """Whether a dead process is to be started now."""
        return self._due_s is not None and now_s >= self._due_s
