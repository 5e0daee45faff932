"""Silence of a child process, as far as this process was there to hear it."""

from __future__ import annotations  # pure

from typing import Final

MAX_STEP_S: Final = 2.0
"""The most that the time between two looks counts. A longer one means that this process was suspended or starved, as in
a container that is paused: what the child has said meanwhile is still to be read, or the child was paused as well."""


class Silence:
    """The time since a child was heard last. ``now_s``: the monotonic time when the silence begins."""

    def __init__(self, now_s: float) -> None:
        self._seen_s = now_s
        self._silent_s = 0.0

    def look(self, heard_s: float, now_s: float) -> float:
        """Return the seconds of silence. Call at least every second. ``heard_s``: when the child was heard last."""
        step_s = min(now_s - max(self._seen_s, heard_s), MAX_STEP_S)
        self._silent_s = step_s if heard_s > self._seen_s else self._silent_s + step_s
        self._seen_s = now_s
        return self._silent_s
