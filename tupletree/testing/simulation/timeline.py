"""Simulated time: a heap of events, and one seeded generator that decides everything that may happen."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NEVER = 1e9


@dataclass(slots=True)
class Faults:
    """The faults of one history: their rates, and the simulated second at which they end.

    A period of ``NEVER`` switches a fault off. Updates are messages from workers to the acker, and its verdicts.
    """

    end_s: float
    slowest_s: float  # the longest delay of a batch or an update
    fastest_s: float  # the shortest; where they are equal, nothing overtakes
    loss: float  # the probability that an update is lost
    torn: float  # the probability that a worker dies while it hands over a batch
    crash_every_s: float  # workers
    break_every_s: float  # links between workers
    acker_every_s: float


class Timeline:
    """Events in the order of their times, with the faults that are under way and the story that is told of them."""

    def __init__(self, rng: random.Random, faults: Faults, *, is_telling: bool = False) -> None:
        self.rng = rng
        self.faults = faults
        self.is_telling = is_telling
        self.now_s = 0.0
        self.steps = 0
        self.counts: Counter[str] = Counter()
        self.story: list[str] = []
        self._events: list[tuple[float, int, Callable[[], Any]]] = []
        self._numbers = 0

    @property
    def is_faulty(self) -> bool:
        """True until the faults end."""
        return self.now_s < self.faults.end_s

    def at(self, delay_s: float, action: Callable[[], Any]) -> None:
        """Do something after a delay. Events of the same time happen in the order in which they were added."""
        self._numbers += 1
        heapq.heappush(self._events, (self.now_s + delay_s, self._numbers, action))

    def every(self, period_s: float, action: Callable[[], Any], *, always: bool = False) -> None:
        """Do something about once per period, until the faults end or ``always``."""

        def again() -> None:
            if always or self.is_faulty:
                action()
                self.at(self.rng.uniform(0.5, 1.5) * period_s, again)

        self.at(self.rng.uniform(0.1, 1.0) * period_s, again)

    def next(self) -> None:
        """Let the next event happen."""
        self.now_s, _, action = heapq.heappop(self._events)
        action()
        self.steps += 1

    def delay_s(self, is_slow: bool = False) -> float:
        """Draw the delay of a message. ``is_slow``: its sender is cut off."""
        if not self.is_faulty:
            return self.rng.uniform(0.0005, 0.003)
        return self.rng.uniform(self.faults.fastest_s, 1.0 if is_slow else self.faults.slowest_s)

    def tell(self, *told: object) -> None:
        """Add the last argument to the story, if the story is told."""
        if self.is_telling:
            self.story.append(f"{self.now_s:.4f} {told[-1]}")
