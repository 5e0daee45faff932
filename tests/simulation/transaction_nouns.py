"""The nouns of transaction_world: what a seed draws, and the code that it runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.testing.simulation.timeline import NEVER
from tupletree.transactional.coordinated_bolt import CoordinatedBolt
from tupletree.transactional.coordinator_spout import CoordinatorSpout
from tupletree.transactional.databases.contract import Database
from tupletree.transactional.emitter_bolt import EmitterBolt
from tupletree.transactional.maps import OpaqueMap, TransactionalMap
from tupletree.transactional.opaque import OpaqueSpoutAdapter
from tupletree.transactional.partitioned import PartitionedSpoutAdapter

ID = "numbers"
SPOUT = "spout"


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The code that is simulated. Tests put in its place what breaks a rule on purpose."""

    coordinator: type[CoordinatorSpout] = CoordinatorSpout
    emitter: type[EmitterBolt] = EmitterBolt
    bolt: type[CoordinatedBolt] = CoordinatedBolt
    partitioned: type[PartitionedSpoutAdapter] = PartitionedSpoutAdapter
    opaque: type[OpaqueSpoutAdapter] = OpaqueSpoutAdapter
    transactional_map: type[TransactionalMap] = TransactionalMap
    opaque_map: type[OpaqueMap] = OpaqueMap
    looks_inside: bool = True  # whether the coordinators' own invariants are checked, or only what comes of them
    shape: Mapping[str, Any] = field(default_factory=dict)  # what is not to be drawn
    faults: Mapping[str, Any] = field(default_factory=dict)

    def map_of(self, shape: Shape) -> Callable[[Database, str], Any]:
        """Return the function that makes the map of a committer."""
        if shape.kind == "opaque":
            return self.opaque_map
        return partial(self.transactional_map, in_groups=True) if shape.in_groups else self.transactional_map


@dataclass(slots=True)
class Shape:
    """A topology, its source and its settings."""

    kind: str  # of the spout: "generic", "partitioned", "opaque"
    form: str  # "chain", "two committers", "diagram": transaction_components draws them
    partial: str  # "batch" or "basic"
    tasks: dict[str, int]
    max_active: int
    in_groups: bool  # whether transactions commit in groups
    partitions: int
    length: int  # tuples in each partition
    largest: int  # tuples that a batch takes from one partition
    arrival_s: float  # until the source holds them all

    @staticmethod
    def draw(rng: random.Random) -> Shape:
        partitions = rng.randint(1, 3)
        kind = rng.choice(["generic", "partitioned", "opaque"])
        in_groups = kind != "opaque" and rng.random() < 0.5
        return Shape(
            kind=kind,
            form=rng.choice(["chain", "two committers", "diagram"]),
            partial=rng.choice(["batch", "basic"]),
            tasks={name: rng.randint(1, 3) for name in (SPOUT, "partial", "counts", "buckets", "pass", "through")},
            max_active=rng.randint(2, 9) if in_groups else rng.randint(1, 4),
            in_groups=in_groups,
            partitions=partitions,
            length=rng.randint(30, 90) // partitions,
            largest=rng.randint(2, 8),
            arrival_s=rng.choice([0.0, 3.0, 8.0]),
        )


@dataclass(slots=True)
class Faults:
    """What may go wrong, how often, until when."""

    end_s: float
    slowest_s: float  # of a message
    loss: float  # of a message
    copies: float  # of a message
    operations: float  # at the store
    updates: float  # of the databases
    mishaps: float  # in the components
    crash_every_s: float
    break_every_s: float  # a link
    outage_every_s: float  # of the store

    @staticmethod
    def draw(rng: random.Random) -> Faults:
        return Faults(
            end_s=rng.uniform(4, 16),
            slowest_s=rng.choice([0.005, 0.03, 0.15]),
            loss=rng.choice([0.0, 0.001, 0.004, 0.015]),
            copies=rng.choice([0.0, 0.01, 0.05]),
            operations=rng.choice([0.0, 0.03, 0.12]),
            updates=rng.choice([0.0, 0.05, 0.2]),
            mishaps=rng.choice([0.0, 0.002, 0.01]),
            crash_every_s=rng.choice([NEVER, 1.5, 0.5]),
            break_every_s=rng.choice([NEVER, 0.5]),
            outage_every_s=rng.choice([NEVER, 4.0]),
        )


@dataclass(slots=True, eq=False)
class Tree:
    """One tuple tree as it truly is. ``damage``: why it may have to wait for its timeout."""

    root: int
    owner: Any  # the incarnation of the coordinator
    msg_id: Any
    attempt: TransactionAttempt
    name: str  # "batch" or "commit"
    outstanding: set[int] = field(default_factory=set)
    verdict: str = ""
    damage: str = ""
