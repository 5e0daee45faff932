"""Preference of a shuffle for the tasks in its own worker, as in Storm's locality-aware shuffle.

    near    only tasks in this worker get tuples, until these wait there longer than ``higher_s`` on average
    all     all tasks do, by their loads, until tuples wait in this worker shorter than ``lower_s`` on average

The two bounds are apart, so that a steady load does not change the tasks at each look. While no task in this worker is
open, the others get the tuples.
"""

from __future__ import annotations  # pure

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

HIGHER: Final = "topology.localityaware.higher.wait.secs"
LOWER: Final = "topology.localityaware.lower.wait.secs"


@dataclass(frozen=True)
class LocalityBounds:
    """The mean waits in a worker above which its shuffles use all tasks, and below which only those in the worker."""

    higher_s: float
    lower_s: float

    @classmethod
    def of(cls, conf: Mapping[str, Any]) -> LocalityBounds | None:
        """Return the bounds of a configuration; None if shuffles prefer nobody. A lower bound is never the higher."""
        higher_s = conf[HIGHER]
        return None if higher_s is None else cls(float(higher_s), min(float(conf[LOWER]), float(higher_s)))


class Locality:
    """The present preference of one shuffle. ``near``: the positions of the tasks in this worker, at least one."""

    def __init__(self, near: Collection[int], bounds: LocalityBounds) -> None:
        self._near = frozenset(near)
        self._bounds = bounds
        self._is_wide = False

    @classmethod
    def among(
        cls, tasks: Sequence[int], local_tasks: Collection[int], bounds: LocalityBounds | None
    ) -> Locality | None:
        """Return the preference of a shuffle among some tasks; None if all or none of them are in this worker."""
        near = [at for at, task in enumerate(tasks) if task in local_tasks]
        return None if bounds is None or len(near) in (0, len(tasks)) else cls(near, bounds)

    def far(self, waits: Sequence[float], closed: Collection[int]) -> frozenset[int]:
        """Return the positions of the tasks that get no tuples now. ``closed``: positions that must get none anyway."""
        mean_s = sum(waits[at] for at in self._near) / len(self._near)
        if mean_s > self._bounds.higher_s:
            self._is_wide = True
        elif mean_s < self._bounds.lower_s:
            self._is_wide = False
        if self._is_wide or self._near.issubset(closed):
            return frozenset()
        return frozenset(range(len(waits))) - self._near
