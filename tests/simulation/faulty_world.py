"""A topology whose workers are paused and killed at their requests to the outside: the base of worlds with states."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from transaction_nouns import Violation
from transaction_stores import Outside

from tupletree._stores.memory_nodes import MemoryStore
from tupletree.errors import FailedException
from tupletree.testing.simulation.deployment import SimulatedTopology
from tupletree.testing.simulation.timeline import Faults
from tupletree.testing.simulation.workers import Killed
from tupletree.v1 import topology_pb2

DEEPEST = 3  # pauses within pauses
OFTENER = 5  # times as many mishaps where a component is asked once a checkpoint or once a life


class FaultyWorld(SimulatedTopology):
    """``shape``: what the seed has drawn, as a violation names it."""

    shape: Any
    faults: Any  # also of requests to the store and to states, and of components

    def __init__(
        self,
        rng: random.Random,
        faults: Faults,
        topology_id: str,
        spec: topology_pb2.TopologySpec,
        conf: Mapping[str, Any],
        workers: int,
        *,
        is_telling: bool = False,
    ) -> None:
        super().__init__(rng, faults, topology_id, spec, conf, workers, is_telling=is_telling)
        self.network = self  # where the requests to the outside are counted
        self.found: Violation | None = (
            None  # raised again at the end of the step: a task takes it for an error of its own
        )
        self.store = MemoryStore()
        self.store_back_s = 0.0
        self.outside: Any = Outside(self)  # type: ignore[arg-type]

    def next(self) -> None:
        """Let the next event happen."""
        super().next()
        if self.found is not None:
            raise self.found

    def pause(self, worker: Any) -> None:
        """In the middle of a step of this worker the rest of the world goes on for a while."""
        if len(self.running) < DEEPEST:
            then_s = self.now_s + self.rng.choice([0.01, 0.1, 1.0])
            while self._events and self._events[0][0] <= then_s:
                self.next()
            self.now_s = then_s
            self.tell(f"{worker} goes on")
        if not worker.alive:
            raise Killed

    def violation(self, what: str) -> Violation:
        error = Violation("\n".join([f"at {self.now_s:.4f} s, {self.shape}: {what}", *self.story]))
        self.found = self.found or error
        return error

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
