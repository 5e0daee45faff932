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
from checkpoint_nouns import ID, Faults, Killed, Rules, Shape, Violation
from checkpoint_sinks import Table
from checkpoint_workers import Worker
from transaction_stores import Outside

from tupletree import config
from tupletree._stores.memory_nodes import MemoryStore
from tupletree.errors import FailedException
from tupletree.state.memory import Namespace
from tupletree.testing.simulation.deployment import SimulatedTopology
from tupletree.testing.simulation.workers import Slot
from tupletree.worker.core.task import Task

PATIENCE_S = 60.0
TIMEOUT_S = 2
DEEPEST = 3  # pauses within pauses
OFTENER = 5  # times as many mishaps where a component is asked once a checkpoint or once a life


class World(SimulatedTopology):
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
        self.network = self  # where the requests to the outside are counted
        self.found: Violation | None = (
            None  # raised again at the end of the step: a task takes it for an error of its own
        )
        self.sources = {name: Source() for name in self.names.values() if name.split("/")[0] in self.shape.spouts}
        self.tables = {bolt: Table() for bolt in self.shape.writing}
        with_state = [*self.shape.stateful, *self.shape.writing, *(self.shape.spouts if self.shape.positioned else ())]
        self.states = {name: Namespace() for name in self.names.values() if name.split("/")[0] in with_state}
        self.store = MemoryStore()
        self.store_back_s = 0.0
        self.outside: Any = Outside(self)  # type: ignore[arg-type]
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

    def next(self) -> None:
        """Let the next event happen."""
        super().next()
        if self.found is not None:
            raise self.found

    def pause(self, worker: Worker) -> None:
        """In the middle of a step of this worker the rest of the world goes on for a while."""
        if len(self.running) < DEEPEST:
            then_s = self.now_s + self.rng.choice([0.01, 0.1, 1.0])
            while self._events and self._events[0][0] <= then_s:
                self.next()
            self.now_s = then_s
            self.tell(f"{worker} goes on")
        if not worker.alive:
            raise Killed

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

    def violation(self, what: str) -> Violation:
        error = Violation("\n".join([f"at {self.now_s:.4f} s, {self.shape}: {what}", *self.story]))
        self.found = self.found or error
        return error

    def make_worker(self, slot: Slot, number: int) -> Worker:
        """Return a new worker for a slot."""
        return Worker(self, slot, number)

    def dress(self, worker: Worker, task: Task) -> None:
        """Give a new task what is simulated around it."""
        worker.dress(task)

    # Faults

    def mishap(self, *fates: str) -> None:
        """Something may go wrong in a user's component; rather where it may raise, for it is called there seldom."""
        odds = self.faults.mishaps * (OFTENER if "raises" in fates else 1)
        if odds and self.is_faulty and self.rng.random() < odds:
            worker, fate = self.running[-1], self.rng.choice(fates)
            self.counts[f"component {fate}"] += 1
            self.tell(f"{worker}: a component {fate}")
            if fate == "fails":
                raise FailedException("a mishap")
            if fate == "raises":
                raise RuntimeError("a mishap")
            worker.kill("in a component")
            raise Killed

    def lose_store(self) -> None:
        self.store_back_s = min(self.faults.end_s, self.now_s + self.rng.uniform(0.1, 1.0))
        self.tell(f"the store is away until {self.store_back_s:.4f}")
