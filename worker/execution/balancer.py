"""The shuffles of an executor, which follow the loads of the tasks that they choose among."""

from __future__ import annotations  # pure

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from ..core.routing import Shares, Shuffled
from ..core.task import Clock, Task
from .load_shares import LoadShares
from .locality import Locality, LocalityBounds

REFRESH_S = 0.1


class KnownLoads(Protocol):
    """The loads of tasks as far as known (loads.py). ``free_s`` is another object after each change."""

    @property
    def free_s(self) -> Mapping[int, float]: ...

    def waits_s(self, now_s: float) -> Mapping[int, float]: ...


class Balancer:
    """The shares of all shuffles of an executor. The tasks of the executor share them. The owning thread only.

    ``choices``: the tasks that each shuffle chooses among.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        loads: KnownLoads,
        clock: Clock,
        local_tasks: Collection[int] = (),
        bounds: LocalityBounds | None = None,
    ) -> None:
        """``local_tasks``: those of this worker, which shuffles prefer within ``bounds``; None: they prefer nobody."""
        self._loads = loads
        self._clock = clock
        self._shares: list[LoadShares] = []
        self._closed: frozenset[int] = frozenset()
        self._free_s = loads.free_s
        self._due_s = clock()
        self.choices: list[frozenset[int]] = []
        for name, stream in tasks[0].streams.items():
            for at, (_, _, chosen) in enumerate(stream.shuffles):
                self.choices.append(frozenset(chosen))
                shares = Shares(len(chosen))
                for chooser in [task.streams[name].shuffles[at][1] for task in tasks]:
                    if isinstance(chooser, Shuffled):
                        chooser.share_by(shares)
                if len(chosen) > 1:
                    locality = Locality.among(chosen, local_tasks, bounds)
                    self._shares.append(LoadShares(chosen, shares, self._due_s, locality))

    @property
    def is_needed(self) -> bool:
        """True if a shuffle chooses among several tasks."""
        return bool(self._shares)

    def refresh(self, closed: frozenset[int]) -> None:
        """Set the shares if that is due, if other loads were told, or if other tasks are closed than before."""
        now_s = self._clock()
        free_s = self._loads.free_s
        if closed is self._closed and free_s is self._free_s and now_s < self._due_s:
            return
        self._closed, self._free_s = closed, free_s
        self._due_s = now_s + REFRESH_S
        waits_s = self._loads.waits_s(now_s)
        for shares in self._shares:
            shares.update(waits_s, closed, now_s)
