"""What a positioned spout knows of the messages that it gives up, with aligned checkpoints.

A failed tuple then takes the whole topology back to its last checkpoint, and a spout emits everything since again: the
message that failed comes as a new one, under the same key. Its attempts are counted on the spout's task, which outlives
that. After the last one the spout gives the message up when it comes again, instead of emitting it: what it emits
then, a dead letter, is part of the next checkpoint, as the message would have been.

Attempts are in memory: after a crash of its worker, a message has all of them again.
"""

from __future__ import annotations  # pure

from collections.abc import Hashable
from typing import Final

from tupletree._wire.fail_reasons import FailReason
from tupletree.backoff import Backoff

MAX_KNOWN: Final = 100_000
"""The number of messages whose attempts are known. Those that failed least recently are forgotten first."""

class Attempts:
    """Failed attempts by the key of their message.

    Attributes:
        resume_s: the time before which nothing is emitted: the end of the pause behind the newest failure.
    """

    def __init__(self, retry: Backoff) -> None:
        self.resume_s = 0.0
        self._retry = retry
        self._failed: dict[Hashable, tuple[int, FailReason]] = {}
        self._over: dict[Hashable, tuple[int, FailReason]] = {}
        self._came: list[Hashable] = []  # keys of ``_over`` that came again since the last checkpoint began
        self._in_checkpoint: list[Hashable] = []  # before: in a checkpoint that is not known to be committed

    def failed(self, key: Hashable, reason: FailReason, now_s: float) -> None:
        """Count a failed attempt at a message."""
        attempts = self._failed.pop(key, (0, reason))[0] + 1
        is_last = not reason.retry or self._retry.is_last(attempts)
        if not is_last:
            self.resume_s = max(self.resume_s, now_s + self._retry.pause_s(attempts))
        known = self._over if is_last else self._failed
        known[key] = attempts, reason
        if len(known) > MAX_KNOWN:
            del known[next(iter(known))]

    @property
    def is_any_over(self) -> bool:
        """True if a message is to be given up when it comes again."""
        return bool(self._over)

    def over(self, key: Hashable) -> tuple[int, FailReason] | None:
        """Return the attempts at a message that is to be given up, and the last reason; None if it is to be emitted."""
        return self._over.get(key)

    def came(self, key: Hashable) -> None:
        """Record that a message came again, and is given up."""
        self._came.append(key)

    def begin_checkpoint(self) -> None:
        """Record that a checkpoint begins, and the one before is committed: what is given up in it comes no more."""
        for key in self._in_checkpoint:
            self._over.pop(key, None)
        self._in_checkpoint, self._came = self._came, []

    def go_back(self) -> None:
        """Record that the newest checkpoint is gone back to: what came since then comes again."""
        self._in_checkpoint, self._came = [], []
