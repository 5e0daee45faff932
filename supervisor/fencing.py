"""Fencing of stale leaders: a command is rejected if an earlier command or an assignment had a newer epoch.

A leader that was deposed without noticing keeps sending commands under its old epoch. These commands are rejected.
"""

from __future__ import annotations  # pure

from tupletree.errors import AuthorityError

OPERATOR = 0
"""The epoch of a command from an operator's command line, which is always accepted."""


class EpochFence:
    """The newest leader epoch seen so far."""

    def __init__(self) -> None:
        self.epoch = 0

    def observe(self, epoch: int) -> None:
        """Record the epoch of data written by a leader."""
        self.epoch = max(self.epoch, epoch)

    def admit(self, epoch: int) -> None:
        """Accept a command of the leader of ``epoch``. Raises AuthorityError if a newer epoch was seen."""
        if epoch < self.epoch:
            raise AuthorityError(f"the command has epoch {epoch}, but epoch {self.epoch} has begun")
        self.epoch = epoch
