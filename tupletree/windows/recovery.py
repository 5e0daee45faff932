"""Checkpointed window data, and the recovery that tells replays from new tuples.

The tuples in windows are not saved: they are not acked, so after a crash their spouts replay them. A checkpoint saves
the position of the windows, and the ids of the tuples whose replays are not new:

    kept       was in an evaluated window and can be in a later window: the replay is put back, nothing is reevaluated
    evicted    since the previous checkpoint, so that its ack is possibly lost: the replay is only acked
    any other  was in no window whose effect is in the state: the replay is a new tuple

A tuple's id is unique within its source: a task and one of its streams. Each id is remembered individually, because
replays come in any order: a tuple that is older than others was not necessarily seen here before.

A tuple that was replayed after a failure, and treated as new, is saved neither as kept nor as evicted. In one case
the guarantee is weaker than at-least-once: a tuple emitted by a window fails; before the replay arrives, a checkpoint
saves the window's tuple as evicted; then the worker dies.

All kept tuples must be back before the next window is evaluated. New tuples wait for them, but only for a limited time,
because an untracked tuple is never replayed.
"""

from __future__ import annotations  # pure

import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tupletree.errors import InternalError

from .spans import Place

T = TypeVar("T")

MessageId = int | str
Source = tuple[str, str, int]
"""A component, its stream, and the task."""

Name = tuple[Source, MessageId]


@dataclass(frozen=True, slots=True)
class Remembered:
    """The windows of one task in a checkpoint: their position, and the names of tuples in window order."""

    place: Place
    kept: Sequence[Name] = ()
    evicted: Sequence[Name] = ()

    def encode(self) -> list[Any]:
        """Encode as a value that a state can store."""
        return [[self.place.end_us, self.place.passed], _runs(self.kept), _runs(self.evicted)]

    @classmethod
    def decode(cls, stored: list[Any]) -> Remembered:
        """Decode a value made by ``encode``.

        Raises:
            InternalError: the value was not made by ``encode``.
        """
        try:
            (end_us, passed), kept, evicted = stored
            return cls(Place(end_us, passed), _names(kept), _names(evicted))
        except (TypeError, ValueError) as error:
            raise InternalError(f"the stored windows cannot be read: {str(stored)[:200]}") from error


def _runs(names: Sequence[Name]) -> list[list[Any]]:
    """Group consecutive names of the same source into runs: the source, then the ids."""
    return [[*source, *(id for _, id in run)] for source, run in itertools.groupby(names, lambda name: name[0])]


def _names(runs: list[list[Any]]) -> list[Name]:
    return [((component, stream, task), id) for component, stream, task, *ids in runs for id in ids]


class Replay(enum.Enum):
    """Classification of a tuple that arrives after a recovery."""

    NEW = enum.auto()
    KEPT = enum.auto()
    EVICTED = enum.auto()


class Recovery(Generic[T]):
    """One recovery of one task. The recovery ends when every further tuple is new.

    Attributes:
        place: the position from which windows continue.
        waiting: new tuples that came before all kept tuples were back. The caller adds them.
    """

    def __init__(self, remembered: Remembered, until_s: float) -> None:
        """``until_s``: the time at which missing tuples are given up."""
        self.place = remembered.place
        self.waiting: list[T] = []
        self._until_s = until_s
        self._order = {name: at for at, name in enumerate(remembered.kept)}
        self._kept: dict[int, T] = {}  # by index in remembered.kept
        self._evicted = dict.fromkeys(remembered.evicted)

    @property
    def kept(self) -> list[T]:
        """The tuples of the saved window that the spout has replayed, in the order of that window."""
        return [self._kept[at] for at in sorted(self._kept)]

    @property
    def missing(self) -> int:
        """The number of tuples of the saved window that the spout has not replayed yet."""
        return len(self._order)

    @property
    def evicted(self) -> list[Name]:
        """The names of evicted tuples that were not replayed. Their acks may have arrived: recovery does not wait."""
        return list(self._evicted)

    def is_complete(self, now_s: float) -> bool:
        """True if windows can be evaluated: all kept tuples are back or given up."""
        return now_s >= self._until_s or not self._order

    def is_over(self, now_s: float) -> bool:
        """True if every tuple from now on is new."""
        return now_s >= self._until_s or not (self._order or self._evicted)

    def judge(self, name: Name, tup: T) -> Replay:
        """Classify a tuple, and put a kept tuple back.

        A tuple that comes a second time is new: it has failed meanwhile, and its results are possibly lost.
        """
        at = self._order.pop(name, None)
        if at is not None:
            self._kept[at] = tup
            return Replay.KEPT
        if name in self._evicted:
            del self._evicted[name]
            return Replay.EVICTED
        return Replay.NEW
