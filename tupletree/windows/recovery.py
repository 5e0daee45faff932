"""What a checkpoint remembers of windows, and how replays are told from tuples that are new.

The tuples in windows are not saved: they are not acked, so after a crash their spouts replay them. Saved is how far the
windows had come, and the ids of the tuples whose replays are not new:

    kept       was in a window that was evaluated, and can be in another: is put back, and evaluates nothing again
    evicted    since the checkpoint before, so that its ack may not have been told: the replay is acked, and that is all
    any other  was in no window that the state knows of: is new

A tuple's id is unique among those of its source: a task and one of its streams. Ids are remembered one by one, for
replays come in any order: of a tuple that is only older than others, nobody knows whether it was ever here.

Neither is remembered of a tuple that is here once more, to be in windows anew: it has failed since. One case is left in
which less is done than at least once: what a window emitted fails, and before the replay is here, a checkpoint is taken
that has the tuple as evicted, and the worker dies.

What was kept has to be back before the next window is evaluated. So what is new waits for it; but not for ever, since
what nobody tracks does not come back.
"""

from __future__ import annotations

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
    """What a checkpoint has of one task's windows: where they were, and names of tuples in the order of the windows."""

    place: Place
    kept: Sequence[Name] = ()
    evicted: Sequence[Name] = ()

    def encode(self) -> list[Any]:
        """As a value that a state can store."""
        return [[self.place.end_us, self.place.passed], _runs(self.kept), _runs(self.evicted)]

    @classmethod
    def decode(cls, stored: list[Any]) -> Remembered:
        """What ``encode`` made.

        Raises:
            InternalError: it is something else.
        """
        try:
            (end_us, passed), kept, evicted = stored
            return cls(Place(end_us, passed), _names(kept), _names(evicted))
        except (TypeError, ValueError) as error:
            raise InternalError(f"what is stored of windows cannot be read: {str(stored)[:200]}") from error


def _runs(names: Sequence[Name]) -> list[list[Any]]:
    """Names with one source for all that follow one another."""
    return [[*source, *(id for _, id in run)] for source, run in itertools.groupby(names, lambda name: name[0])]


def _names(runs: list[list[Any]]) -> list[Name]:
    return [((component, stream, task), id) for component, stream, task, *ids in runs for id in ids]


class Replay(enum.Enum):
    """What a tuple is after a recovery."""

    NEW = enum.auto()
    KEPT = enum.auto()
    EVICTED = enum.auto()


class Recovery(Generic[T]):
    """One recovery of one task, until whatever comes is new.

    Attributes:
        place: where windows go on.
        waiting: what is new and came before what was kept was back, as the caller adds it.
    """

    def __init__(self, remembered: Remembered, until_s: float) -> None:
        """``until_s``: when what did not come back is given up."""
        self.place = remembered.place
        self.waiting: list[T] = []
        self._until_s = until_s
        self._order = {name: at for at, name in enumerate(remembered.kept)}
        self._kept: dict[int, T] = {}  # by its place in that order
        self._evicted = dict.fromkeys(remembered.evicted)

    @property
    def kept(self) -> list[T]:
        """What is back, in the order in which it was in the last window."""
        return [self._kept[at] for at in sorted(self._kept)]

    @property
    def missing(self) -> int:
        """How many of the kept tuples are not back."""
        return len(self._order)

    @property
    def evicted(self) -> list[Name]:
        """What was evicted and did not come back, which it need not."""
        return list(self._evicted)

    def is_complete(self, now_s: float) -> bool:
        """Whether windows can be evaluated: what was kept is back, or given up."""
        return now_s >= self._until_s or not self._order

    def is_over(self, now_s: float) -> bool:
        """Whether whatever comes from now on is new."""
        return now_s >= self._until_s or not (self._order or self._evicted)

    def judge(self, name: Name, tup: T) -> Replay:
        """What a tuple is; one that was kept is put back.

        One that comes once more is new: it failed since, and what was made of it may be lost.
        """
        at = self._order.pop(name, None)
        if at is not None:
            self._kept[at] = tup
            return Replay.KEPT
        if name in self._evicted:
            del self._evicted[name]
            return Replay.EVICTED
        return Replay.NEW
