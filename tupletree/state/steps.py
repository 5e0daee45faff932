"""The steps of a checkpoint, as tuples of the stream ``$checkpoint`` carry them.

Every step has a round: a number that rises with each step that a checkpoint spout ever sends, across its restarts. So
whoever has seen a round knows that everything of an earlier one is over.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tupletree.errors import ProtocolError
from tupletree.outputs import CHECKPOINT_STREAM, Stream

CHECKPOINT_SPOUT = "$checkpointspout"
"""The component that the builder adds to a stateful topology."""

STREAM = Stream(CHECKPOINT_STREAM, ("round", "action", "txid", "fresh", "sent"), direct=True)

ROUNDS_PER_EPOCH = 1 << 32


class Action(enum.IntEnum):
    """What a task is asked to do with its state."""

    PREPARE = 1
    COMMIT = 2
    ROLLBACK = 3
    INITSTATE = 4


_ACTIONS = frozenset(Action)


@dataclass(frozen=True, slots=True)
class Step:
    """One action for all tasks of a topology.

    ``txid``: the checkpoint that PREPARE, COMMIT and ROLLBACK are about; with INITSTATE the last that was committed.
    ``fresh``: the components that are not in the stored checkpoint: they have nothing to commit, and begin empty.
    """

    round: int
    action: Action
    txid: int
    fresh: tuple[str, ...] = ()

    def row(self, sent: int) -> list[Any]:
        """As a tuple for one task, which was sent so many rows before in the present generation."""
        return [self.round, int(self.action), self.txid, list(self.fresh), sent]

    @staticmethod
    def of(values: Sequence[Any]) -> tuple[Step, int]:
        """The step that a tuple carries, and how many rows its sender has sent. Raises ProtocolError if it is none."""
        match values:
            case [int(round_), int(action), int(txid), list(fresh), int(sent)] if action in _ACTIONS:
                return Step(round_, Action(action), txid, tuple(fresh)), sent
        raise ProtocolError(f"{values!r} is no step of a checkpoint")

    def __str__(self) -> str:
        return f"{self.action.name.lower()} {self.txid} (round {self.round})"


def first_round(epoch: int) -> int:
    """The first round of a checkpoint spout: higher than all of those before it."""
    return epoch * ROUNDS_PER_EPOCH
