"""The wait that gathers what a stream carries into fewer messages. Pure.

A message costs each end 0.1 to 0.3 ms of processor time, whatever its size. After an idle time it is written at once;
the next one waits, and takes along what comes meanwhile. The more a message has carried, the longer the wait after it:
3.5 ms at few calls per second, 6 ms at a thousand, 10 ms at most.
"""

from __future__ import annotations  # pure

from typing import Final

MIN_S: Final = 0.003
MAX_S: Final = 0.010
EACH_S: Final = 0.0005


class Linger:
    """The linger of one direction of a stream."""

    def __init__(self) -> None:
        self._due_s = 0.0

    def pause_s(self, now_s: float) -> float:
        """Return the time to wait before the next message is written; 0 or less: none."""
        return self._due_s - now_s

    def wrote(self, count: int, now_s: float) -> None:
        """Record that a message with ``count`` items is written."""
        self._due_s = now_s + min(MAX_S, MIN_S + count * EACH_S)
