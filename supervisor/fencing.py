"""Whose commands count: the leader's of the newest epoch seen, in a command or in an assignment.

A leader that was deposed without noticing goes on commanding under its old epoch; this is where it is turned away.
"""

from __future__ import annotations

from tupletree.errors import AuthorityError

OPERATOR = 0
"""The epoch of a command from an operator's command line, which is always obeyed."""


class EpochFence:
    """The newest leader's epoch seen so far."""

    def __init__(self) -> None:
        self.epoch = 0

    def observe(self, epoch: int) -> None:
        """Something that the leader of ``epoch`` wrote was seen."""
        self.epoch = max(self.epoch, epoch)

    def admit(self, epoch: int) -> None:
        """A command of the leader of ``epoch`` came. Raises AuthorityError if there is a newer one."""
        if epoch < self.epoch:
            raise AuthorityError(f"the command is of epoch {epoch}, but epoch {self.epoch} has begun")
        self.epoch = epoch
