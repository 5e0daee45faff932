"""The nouns of moving_world: what a seed draws, and the code that it runs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from checkpoint_nouns import NEVER, Faults

from tupletree._wire.value_hash import hash_values
from tupletree.state.memory import MemoryBackend

ID = "moving"
NAME = "moving"
TASKS = (1, 2, 3, 6)
PARTITIONS = 3
KEYS = [f"k{number}" for number in range(5)]
ENDS = ["end2", "end6", "end0", "end5", "end12", "end4"]
"""Keys of which each of up to six tasks has one: see ``Log``."""
KEYED = ("count", "timers", "tumbling", "sessions")
EXTRA = "extra"
BUCKET_MS, SIZE_MS, GAP_MS = 70, 100, 25


def owner(key: Any, tasks: int) -> int:
    """The index of the task that a key belongs to."""
    return hash_values([key], "", ["key"]) % tasks


assert all({owner(key, tasks) for key in ENDS} == set(range(tasks)) for tasks in TASKS)


@dataclass(frozen=True, slots=True)
class Rules:
    """The code that is simulated. Tests put in its place what breaks a rule on purpose.

    ``places``: what takes the place of a name of a module or class.
    """

    places: Mapping[tuple[Any, str], Any] = field(default_factory=dict)
    backend: type[MemoryBackend] = MemoryBackend
    shape: Mapping[str, Any] = field(default_factory=dict)  # what is not to be drawn
    faults: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[str, ...] = ()  # the kinds of the operator's steps; empty: drawn from all

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Run with the rules broken."""
        before = {place: getattr(*place) for place in self.places}
        try:
            for (where, name), broken in self.places.items():
                setattr(where, name, broken)
            yield
        finally:
            for (where, name), whole in before.items():
                setattr(where, name, whole)


@dataclass(frozen=True, slots=True)
class Event:
    """A message of the log. ``id``: partition and number."""

    id: str
    key: str
    at: int


class Log:
    """Partitions whose events ascend in time, over all partitions.

    ``ends``: the last events of each partition. They are there when nothing is changed any more, and bring every task
    of a bolt to the end of time, whichever task reads the partition: so every timer fires, and every window is over.
    """

    def __init__(self, rng: random.Random, length: int) -> None:
        self.partitions: list[list[Event]] = [[] for _ in range(PARTITIONS)]
        at = 0
        for _ in range(length):
            at += rng.choice([1, 5, 10, 40])
            self._append(rng.randrange(PARTITIONS), rng.choice(KEYS), at)
        self.events = [event for one in self.partitions for event in one]
        self.end_ms = at
        self.lengths = [len(one) for one in self.partitions]
        for partition in range(PARTITIONS):
            for number, key in enumerate(ENDS):
                self._append(partition, key, at + 10_000 + number)

    def _append(self, partition: int, key: str, at: int) -> None:
        events = self.partitions[partition]
        events.append(Event(f"{partition}:{len(events)}", key, at))

    def before(self, positions: Mapping[int, int]) -> list[Event]:
        """The events before the positions of the partitions."""
        return [event for partition, position in positions.items() for event in self.partitions[partition][:position]]


@dataclass(frozen=True, slots=True)
class Code:
    """A version of the topology's code. ``versions``: the ``state_version`` of bolts, where it is not 1."""

    number: int
    tasks: Mapping[str, int]
    versions: Mapping[str, int]
    has_extra: bool
    starts: bool = True
    batch_size: int = 3


@dataclass(slots=True)
class Shape:
    """A topology, its log, its settings, and how its operator goes on."""

    bolts: tuple[str, ...]
    spout_tasks: int
    tasks: int  # of each bolt at first
    workers: int
    machines: int
    length: int  # events
    arrival_s: float  # until the log holds them all
    lags_s: tuple[float, ...]  # by which each partition is late
    interval_ms: int
    batch_size: int
    cache_entries: int
    steps: int  # of the operator
    pause_s: float  # the longest between two steps
    haste: float  # the probability that a step does not wait for the one before
    wait_s: float  # the longest of a rebalance
    has_extra: bool  # from the beginning

    @staticmethod
    def draw(rng: random.Random) -> Shape:
        bolts = tuple(name for name in KEYED if rng.random() < 0.5) or (rng.choice(KEYED),)
        return Shape(
            bolts=bolts,
            spout_tasks=rng.choice([1, 2, 3]),
            tasks=rng.choice([1, 2, 3]),
            workers=rng.randint(1, 4),
            machines=rng.randint(1, 3),
            length=rng.randint(20, 80),
            arrival_s=rng.choice([2.0, 6.0, 12.0]),
            lags_s=tuple(rng.choice([0.0, 0.0, 0.3, 2.0]) for _ in range(PARTITIONS)),
            interval_ms=rng.choice([100, 200, 400]),
            batch_size=rng.choice([1, 3, 100]),
            cache_entries=rng.choice([0, 5, 1000]),
            steps=rng.randint(2, 8),
            pause_s=rng.choice([0.1, 0.5, 2.0]),
            haste=rng.choice([0.1, 0.5, 1.0]),
            wait_s=rng.choice([0.0, 0.5, 2.0]),
            has_extra=rng.random() < 0.3,
        )


def draw_faults(rng: random.Random) -> Faults:
    """The faults of checkpoint_world, for longer and less often: a move takes many requests, which must succeed."""
    faults = Faults.draw(rng)
    faults.end_s = rng.uniform(5, 12)
    faults.slowest_s = rng.choice([0.003, 0.03])
    faults.operations, faults.states = rng.choice([0.0, 0.01, 0.05]), rng.choice([0.0, 0.01, 0.05])
    faults.crash_every_s = rng.choice([NEVER, 3.0, 1.0])
    faults.break_every_s = rng.choice([NEVER, 2.0, 0.5])
    return faults
