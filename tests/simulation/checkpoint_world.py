"""A stateful topology in one heap of events: the real checkpoint spout, executors, participants, states and ledger.

Everything around them is simulated and decided by one seeded generator, so a seed is a whole history: links, the way to
the acker, and workers that die or go on although they are replaced (tupletree.testing.simulation, checkpoint_workers),
requests to the store and to the states that fail half-way (transaction_stores, checkpoint_stores). What must hold is
in checkpoint_judge. docs/adr/0020-what-the-checkpoint-simulation-assumes.md says why the world may do what it does.

Faults end at ``faults.end_s``; from then on everything arrives, and within ``PATIENCE_S`` every message must be in the
committed states, and checkpoints must go on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from checkpoint_components import Source, build
from checkpoint_judge import Judge, position
from checkpoint_nouns import ID, Faults, Rules, Shape, Violation
from checkpoint_sinks import Table
from checkpoint_workers import Worker
from faulty_world import FaultyWorld

from tupletree import config
from tupletree.state.memory import Namespace
from tupletree.testing.simulation.workers import Slot
from tupletree.worker.core.task import Task

PATIENCE_S = 60.0
TIMEOUT_S = 2


class World(FaultyWorld):
    """One history. ``run`` raises Violation, with the story if the world ``is_telling``."""

    def __init__(self, seed: int, rules: Rules | None = None, *, is_telling: bool = False) -> None:
        rng = random.Random(seed)
        self.rules = rules or Rules()
        self.shape = Shape.draw(rng)
        for name, value in self.rules.shape.items():
            setattr(self.shape, name, value)
        self.shape.positioned &= self.shape.aligned
        if self.shape.writes:
            self.shape.with_writes()
        faults = Faults.draw(rng)
        for name, value in self.rules.faults.items():
            setattr(faults, name, value)
        spec = build(self.shape)
        super().__init__(rng, faults, f"{ID}-1-1", spec, self._conf(), self.shape.workers, is_telling=is_telling)
        self.sources = {name: Source() for name in self.names.values() if name.split("/")[0] in self.shape.spouts}
        self.tables = {bolt: Table() for bolt in self.shape.writing}
        with_state = [*self.shape.stateful, *self.shape.writing, *(self.shape.spouts if self.shape.positioned else ())]
        self.states = {name: Namespace() for name in self.names.values() if name.split("/")[0] in with_state}
        self.judge = Judge(self)

    def _conf(self) -> dict[str, Any]:
        return {
            **config.defaults(),
            "topology.state.checkpoint.aligned": self.shape.aligned,
            "topology.state.checkpoint.interval.ms": self.shape.interval_ms,
            "topology.message.timeout.secs": TIMEOUT_S,
            "topology.transfer.batch.size": self.shape.batch_size,
            "topology.max.spout.pending": self.shape.max_pending,
            "topology.sleep.spout.wait.strategy.time.ms": 30,
            "topology.acker.executors": 1,
            "topology.state.provider": "zookeeper",  # durable, and never opened: checkpoint_stores takes its place
        }

    def run(self) -> World:
        try:
            self.start()
            self.every(self.faults.outage_every_s, self.lose_store)
            self._run_while(
                lambda: self.is_faulty or not self.is_done(), "not every message is in the committed states"
            )
            txid = self.judge.txid
            self._run_while(lambda: self.judge.txid < txid + 3, "checkpoints do not go on")
            self.judge.check_counts({name: self.shape.length for name in self.sources}, is_exact=self.shape.positioned)
            self.judge.check_tables({name: self.shape.length for name in self.sources})
        except Violation:
            raise
        except Exception as error:
            raise self.violation(f"{type(error).__name__}: {error}") from error
        return self

    def _run_while(self, condition: Callable[[], bool], what: str) -> None:
        while condition():
            for _ in range(20):
                self.next()
            if self.now_s > max(self.faults.end_s, self.shape.arrival_s) + PATIENCE_S:
                raise self.violation(f"{what}: {self.positions() if self.shape.positioned else self.unacked()}")

    # What has been done

    def available(self) -> int:
        """How many messages each task of a spout has by now."""
        if self.now_s >= self.shape.arrival_s:
            return self.shape.length
        return int(self.shape.length * self.now_s / self.shape.arrival_s)

    def positions(self) -> dict[str, int]:
        return {name: position(self.states[name]) for name in self.sources}

    def unacked(self) -> dict[str, list[int]]:
        return {
            name: [number for number in range(self.shape.length) if number not in source.acked]
            for name, source in self.sources.items()
        }

    def is_done(self) -> bool:
        if self.shape.positioned:
            return self.judge.phase == "committed" and set(self.positions().values()) == {self.shape.length}
        return not any(self.unacked().values())

    def make_worker(self, slot: Slot, number: int) -> Worker:
        """Return a new worker for a slot."""
        return Worker(self, slot, number)

    def dress(self, worker: Worker, task: Task) -> None:
        """Give a new task what is simulated around it."""
        worker.dress(task)
