"""The outcomes of trees. Pure."""

from __future__ import annotations  # pure

from enum import StrEnum
from typing import NamedTuple


class OutcomeKind(StrEnum):
    """The ends of a tree.

    ``DONE``: the tree was closed, and every child that was made is acked. ``FAILED``: a child, or the tree, was failed.
    ``TIMED_OUT``: neither in time. ``LOST``: the connection to the acker of the tree broke, the acker ended, or the
    client was closed; the work was possibly done.
    """

    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    LOST = "lost"


class Outcome(NamedTuple):
    """The end of a tree. ``reason``: why it was failed or lost; can be empty, since reasons are best effort."""

    kind: OutcomeKind
    reason: str = ""

    @property
    def is_done(self) -> bool:
        return self.kind is OutcomeKind.DONE
