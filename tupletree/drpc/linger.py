"""The wait that gathers what a stream carries into fewer messages. Pure.

A message costs each end 0.1 to 0.3 ms of processor time, whatever its size. After an idle time it is written at once;
the next one waits until ``INTERVAL_S`` after it, and takes along what has come meanwhile.
"""

from __future__ import annotations  # pure

from typing import Final

INTERVAL_S: Final = 0.003


class Linger:
    """The linger of one direction of a stream."""

    def __init__(self) -> None:
        self._due_s = 0.0

    def pause_s(self, now_s: float) -> float:
        """Return the time to wait before the next message is written; 0 or less: none."""
        return self._due_s - now_s

    def wrote(self, now_s: float) -> None:
        """Record that a message is written."""
        self._due_s = now_s + INTERVAL_S
