"""Random histories of a combiner between a spout that replays and a bolt that adds up.

Tuples and updates get lost, late and failed; a ledger or a worker is lost. A message is acked only after all that was
made of it was processed, and in the end every message is. Executors, collectors and ledgers are the real ones.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest
from hand_driven import HandDriven, apply
from local_components import Log, Shared

from tupletree import Bolt, CombinerBolt, Spout, Topology, TopologyBuilder
from tupletree.acker.ledger import Ledger
from tupletree.tuples import Origin
from tupletree.worker.control_messages import ShardsLost, WorkerLost
from tupletree.worker.core.ack_updates import AckUpdates
from tupletree.worker.core.batches import Rows

MESSAGES = 60
KEYS = 3
TIMEOUT_S = 10.0
FAULTY_STEPS = 600
CALM_STEPS = 4000


class Truth(Shared):
    """What really happened: ``processed``, for each key the messages of it that were processed."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.is_faulty = True
        self.processed: list[set[int]] = [set() for _ in range(KEYS)]
        self.acked = Log()

    def strikes(self, probability: float) -> bool:
        return self.is_faulty and self.rng.random() < probability


class Replaying(Spout):
    """Emits every message until it is acked."""

    outputs = ("message",)

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.waiting = deque(range(MESSAGES))

    def next_tuple(self) -> None:
        if self.waiting:
            message = self.waiting.popleft()
            self.collector.emit([message], message)

    def ack(self, msg_id: Any) -> None:
        assert all(msg_id in messages for messages in self.truth.processed), f"message {msg_id} is acked early"
        self.truth.acked.append(msg_id)

    def fail(self, msg_id: Any) -> None:
        self.waiting.append(msg_id)


class ByKey(CombinerBolt):
    """For each key the messages of it; every message is of every key."""

    outputs = ("key", "messages")
    held = 7
    interval_s = 1.0

    def key_values(self, tup: Any) -> Any:
        return [(key, frozenset([tup["message"]])) for key in range(KEYS)]

    def combine(self, first: Any, second: Any) -> Any:
        return first | second


class Processing(Bolt):
    """Processes a tuple, or fails it."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth

    def execute(self, tup: Any) -> None:
        if self.truth.strikes(0.05):
            self.collector.fail(tup)
            return
        self.truth.processed[tup["key"]] |= tup["messages"]
        self.collector.ack(tup)


class World(HandDriven):
    """spout -> combiner -> two sinks, a ledger, and what may happen between them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.truth = Truth(self.rng)
        self.ledger = Ledger()
        self.late: list[AckUpdates] = []
        super().__init__(self.topology(), {"topology.message.timeout.secs": TIMEOUT_S}, self.rng.getrandbits)
        self.rotated_s = 0.0

    def topology(self) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("spout", Replaying(self.truth))
        builder.set_bolt("combiner", ByKey()).shuffle_grouping("spout")
        builder.set_bolt("thesink", Processing(self.truth), 2).fields_grouping("combiner", ["key"])
        return builder.create_topology()

    def _deliver(self, origin: Origin, target: int, rows: Rows, tasks: frozenset[int]) -> None:
        if not self.truth.strikes(0.05):
            super()._deliver(origin, target, rows, tasks)
        elif self.rng.random() < 0.5:  # whoever sent it has noticed
            self.late.append(AckUpdates.of(fails={root for _, root, _ in rows}))

    def run(self) -> None:
        for step in range(FAULTY_STEPS + CALM_STEPS):
            self.truth.is_faulty = step < FAULTY_STEPS
            self.happen()
            if len(set(self.truth.acked)) == MESSAGES:
                return
        raise AssertionError(f"only {sorted(set(self.truth.acked))} were ever acked")

    def happen(self) -> None:
        """One thing out of many."""
        component, index = self.rng.choice([("spout", 0), ("combiner", 0), ("thesink", 0), ("thesink", 1)])
        self.step(component, index)
        self.late.append(self.take_updates())
        while self.late and self.rng.random() < 0.7:
            self.hear(self.late.pop(self.rng.randrange(len(self.late))))
        self.now_s += self.rng.random() / 4
        if self.now_s >= self.rotated_s + TIMEOUT_S:
            self.rotated_s = self.now_s
            self.tell_verdicts(self.ledger.rotate(self.now_s, trees_expire=True))
        if self.truth.strikes(0.01):
            self.lose_ledger()
        if self.truth.strikes(0.01):
            self.lose_worker()

    def hear(self, updates: AckUpdates) -> None:
        if not self.truth.strikes(0.05):
            verdicts = apply(self.ledger, updates, self.now_s)
            if not self.truth.strikes(0.05):
                self.tell_verdicts(verdicts)

    def lose_ledger(self) -> None:
        self.ledger = Ledger()
        for component in ("spout", "combiner"):
            self.tell(component, ShardsLost(frozenset([0]), 1))

    def lose_worker(self) -> None:
        """The one with the second sink, and what waited for it."""
        inbox = self.executor("thesink", 1).inbox
        while inbox.pop() is not None:
            pass
        inbox.done(inbox.rows)
        for component in ("spout", "combiner"):
            self.tell(component, WorkerLost(1.0))


@pytest.mark.parametrize("seed", range(60))
def test_a_message_is_acked_after_all_that_was_made_of_it_and_in_the_end_all_are(seed: int) -> None:
    World(seed).run()
