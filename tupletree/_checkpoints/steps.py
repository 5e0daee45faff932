"""Steps of a checkpoint, carried by tuples of the stream ``$checkpoint``.

Every step has a round number, which increases with each step that a checkpoint spout sends, also across restarts. So a
task that has seen a round knows that all earlier rounds are over.
"""

from __future__ import annotations  # pure

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
    """The action that a task must perform on its state."""

    PREPARE = 1
    COMMIT = 2
    ROLLBACK = 3
    INITSTATE = 4


_ACTIONS = frozenset(Action)


@dataclass(frozen=True, slots=True)
class Step:
    """One action for all tasks of a topology.

    ``txid``: the checkpoint to which PREPARE, COMMIT or ROLLBACK applies; for INITSTATE the last committed checkpoint.
    ``fresh``: the components that are not in the stored checkpoint. They have nothing to commit, and begin empty.
    ``older``: the components whose states an earlier ``state_version`` of them has stored, each with that version.
    """

    round: int
    action: Action
    txid: int
    fresh: tuple[str, ...] = ()
    older: tuple[tuple[str, int], ...] = ()

    def row(self, sent: int) -> list[Any]:
        """Return the values of a tuple for one task. ``sent``: rows sent to this task before in this generation."""
        unlike = [*self.fresh, *(list(one) for one in self.older)]  # one field: workers of before know no other
        return [self.round, int(self.action), self.txid, unlike, sent]

    @staticmethod
    def of(values: Sequence[Any]) -> tuple[Step, int]:
        """Return the step in a tuple, and the number of rows sent before. Raises ProtocolError for any other tuple."""
        match values:
            case [int(round_), int(action), int(txid), list(unlike), int(sent)] if action in _ACTIONS:
                fresh = tuple(one for one in unlike if isinstance(one, str))
                older = tuple((one[0], one[1]) for one in unlike if _is_older(one))
                if len(fresh) + len(older) == len(unlike):
                    return Step(round_, Action(action), txid, fresh, older), sent
        raise ProtocolError(f"{values!r} is not a step of a checkpoint")

    def __str__(self) -> str:
        return f"{self.action.name.lower()} {self.txid} (round {self.round})"


def _is_older(entry: object) -> bool:
    return isinstance(entry, list) and [type(one) for one in entry] == [str, int]


def first_round(epoch: int) -> int:
    """Return the first round of an epoch: higher than all rounds of earlier epochs."""
    return epoch * ROUNDS_PER_EPOCH
