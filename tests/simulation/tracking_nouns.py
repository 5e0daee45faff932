"""The nouns of the simulated cluster in tracking_world: tuples, updates, ackers, workers, and the rules they follow."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tupletree.acker.ledger import Ledger


class Violation(AssertionError):
    """An invariant does not hold."""


class Rules:
    """Rules of tracking that tests break on purpose."""

    ledger: Callable[[], Ledger] = Ledger

    def edges(self, rng: random.Random, count: int) -> list[int]:
        """Ids for the copies of one emitted tuple: each its own."""
        return [rng.getrandbits(64) for _ in range(count)]

    def ack_values(self, edge: int, children: int) -> list[int]:
        """What an ack sends for one root: parent and children in one update."""
        return [edge ^ children]


@dataclass(slots=True)
class SimTuple:
    """A tuple on its way or in a bolt's hands. ``children``: xor of the edges that were anchored to it."""

    number: int
    stage: int
    edges: dict[int, int]  # root -> edge
    children: int = 0


@dataclass(slots=True)
class Updates:
    """What one message to one acker's shard says."""

    inits: list[tuple[int, int]] = field(default_factory=list)
    acks: list[tuple[int, int]] = field(default_factory=list)
    fails: list[int] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)

    def roots(self) -> set[int]:
        return {root for root, _ in [*self.inits, *self.acks]} | set(self.fails) | set(self.resets)


class Acker:
    """One incarnation: ledgers that live as long as it."""

    def __init__(self, name: int, ledger: Callable[[], Ledger]) -> None:
        self.name = name
        self.alive = True
        self.ledgers: defaultdict[int, Ledger] = defaultdict(ledger)


class BoltWorker:
    """One incarnation of a worker: the tuples its bolts hold, and updates not yet flushed."""

    def __init__(self) -> None:
        self.alive = True
        self.held: list[SimTuple] = []
        self.acks: dict[int, int] = {}
        self.flushing = False
