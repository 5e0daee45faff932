"""The nouns of checkpoint_world: what a seed draws, and the code that it runs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from checkpoint_sinks import SimulatedSink, Write
from transaction_nouns import Violation

from tupletree._checkpoints.spout import CheckpointSpout
from tupletree.state.memory import MemoryBackend
from tupletree.testing.simulation import timeline
from tupletree.testing.simulation.timeline import NEVER
from tupletree.testing.simulation.workers import Killed
from tupletree.worker.checkpoint.barriers import Barriers
from tupletree.worker.checkpoint.participant import Participant
from tupletree.worker.checkpoint.spout_participant import SpoutParticipant
from tupletree.worker.checkpoint.stateful_participant import StatefulParticipant

__all__ = ["ID", "NEVER", "Faults", "Killed", "Rules", "Shape", "Violation"]

ID = "simulated"
STATEFUL = ("count", "gather", "tardy")


@dataclass(frozen=True, slots=True)
class Rules:
    """The code that is simulated. Tests put in its place what breaks a rule on purpose."""

    barriers: type[Barriers] = Barriers
    participant: type[Participant] = Participant
    stateful: type[StatefulParticipant] = StatefulParticipant
    spout: type[SpoutParticipant] = SpoutParticipant
    checkpoint_spout: type[CheckpointSpout] = CheckpointSpout
    backend: type[MemoryBackend] = MemoryBackend
    write: type[Write] = Write
    sink: type[SimulatedSink] = SimulatedSink
    shape: Mapping[str, Any] = field(default_factory=dict)  # what is not to be drawn
    faults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BoltShape:
    """``kind``: "pass" and so on (checkpoint_components). ``inputs``: component and grouping."""

    kind: str
    inputs: tuple[tuple[str, str], ...]
    tasks: int
    executors: int


@dataclass(slots=True)
class Shape:
    """A topology, its source and its settings."""

    aligned: bool
    positioned: bool  # or spouts that replay what fails
    spouts: dict[str, int]  # tasks
    bolts: dict[str, BoltShape]
    workers: int
    length: int  # messages of each task of a spout
    arrival_s: float  # until the sources hold them all
    interval_ms: int
    batch_size: int
    max_pending: int | None
    cache_entries: int
    writes: bool = False  # the last stateful bolt writes to a system outside instead

    def with_writes(self) -> None:
        """Let the last stateful bolt write to a system outside."""
        name = self.stateful[-1]
        self.bolts[name] = replace(self.bolts[name], kind="write")

    @staticmethod
    def draw(rng: random.Random) -> Shape:
        aligned = rng.random() < 0.5
        spouts = {f"s{number}": rng.randint(1, 2) for number in range(rng.randint(1, 2))}
        tasks = sum(spouts.values())
        return Shape(
            aligned=aligned,
            positioned=rng.random() < 0.8,
            spouts=spouts,
            bolts=_draw_bolts(rng, list(spouts)),
            workers=rng.randint(1, 5),
            length=rng.randint(15, 60) // tasks,
            arrival_s=rng.choice([0.0, 2.0, 4.0]),
            interval_ms=rng.choice([100, 200, 400]),
            batch_size=rng.choice([1, 3, 100]),
            max_pending=rng.choice([None, 3, 10]),
            cache_entries=rng.choice([0, 5, 1000]),
        )

    def paths(self, spout: str, bolt: str) -> int:
        """How many tuples a message of the spout becomes on its way to the bolt."""
        return sum(1 if source == spout else self.paths(spout, source) if source in self.bolts else 0
                   for source, _ in self.bolts[bolt].inputs)  # fmt: skip

    @property
    def stateful(self) -> list[str]:
        return [name for name, bolt in self.bolts.items() if bolt.kind in STATEFUL]

    @property
    def writing(self) -> list[str]:
        return [name for name, bolt in self.bolts.items() if bolt.kind == "write"]


def _draw_bolts(rng: random.Random, spouts: list[str]) -> dict[str, BoltShape]:
    """A random DAG with one or two stateful bolts, in which every spout is heard."""
    kinds = [rng.choice(STATEFUL) for _ in range(rng.randint(1, 2))]
    kinds += [rng.choice(["pass", "late", "slow"]) for _ in range(rng.randint(0, 2))]
    rng.shuffle(kinds)
    is_one_sink = rng.random() < 0.7
    bolts: dict[str, BoltShape] = {}
    for number, kind in enumerate(kinds):
        known = [*spouts, *bolts]
        inputs = rng.sample(known, min(len(known), rng.choice([1, 1, 2])))
        if number == len(kinds) - 1:
            heard = {source for bolt in bolts.values() for source, _ in bolt.inputs} | set(inputs)
            inputs += [name for name in (known if is_one_sink else spouts) if name not in heard]
        tasks = rng.randint(1, 3) if kind in STATEFUL else rng.randint(1, 2)
        sources = tuple((source, rng.choice(["shuffle", "fields"])) for source in inputs)
        bolts[f"{kind}{number}"] = BoltShape(kind, sources, tasks, rng.randint(1, tasks))
    return bolts


@dataclass(slots=True)
class Faults(timeline.Faults):
    """What may go wrong, how often, until when."""

    operations: float  # at the store
    states: float  # operations of states
    mishaps: float  # in the components
    outage_every_s: float  # of the store

    @staticmethod
    def draw(rng: random.Random) -> Faults:
        return Faults(
            end_s=rng.uniform(2, 6),
            slowest_s=rng.choice([0.003, 0.03, 0.15]),
            fastest_s=0.0005,
            loss=rng.choice([0.0, 0.0, 0.003, 0.02]),
            operations=rng.choice([0.0, 0.02, 0.1]),
            states=rng.choice([0.0, 0.02, 0.1]),
            mishaps=rng.choice([0.0, 0.0, 0.003, 0.015]),
            torn=rng.choice([0.0, 0.001]),
            crash_every_s=rng.choice([NEVER, 2.0, 0.7]),
            break_every_s=rng.choice([NEVER, 1.0, 0.3]),
            outage_every_s=rng.choice([NEVER, 3.0]),
            acker_every_s=rng.choice([NEVER, NEVER, 3.0]),
        )
