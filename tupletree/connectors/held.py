"""The message that a spout cannot decode for now, and that those behind it wait for."""

from __future__ import annotations  # pure

from typing import Generic, TypeVar

from tupletree.backoff import Backoff

M = TypeVar("M")


class Held(Generic[M]):
    """At most one message, which is tried again after growing pauses."""

    def __init__(self, pauses: Backoff) -> None:
        self.message: M | None = None
        self._pauses = pauses
        self._failures = 0
        self._until_s = 0.0

    def hold(self, message: M, now_s: float) -> None:
        """Keep a message that could not be decoded, or the same message once more."""
        self._failures += 1
        self.message = message
        self._until_s = now_s + self._pauses.pause_s(self._failures)

    def is_due(self, now_s: float) -> bool:
        """Return true if the pause is over."""
        return now_s >= self._until_s

    def clear(self) -> None:
        """Keep nothing: the message was decoded, or is another task's."""
        self.message = None
        self._failures = 0
