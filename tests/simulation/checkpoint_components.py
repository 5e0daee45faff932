"""The components of the simulated stateful topology, and the spec that workers build their tasks from.

A message is the name of its spout, its task's index and a number: ``s0/1:17``. Bolts pass it on as it is, so what a
state must hold follows from the shape alone: each message as often as there are paths from its spout, and under
``TOTAL`` how many it was.

    pass      a basic bolt
    late      acks some time after it has emitted
    slow      emits and acks some time later
    count     a stateful bolt that puts at once
    gather    a stateful bolt that puts in pre_prepare what it has executed since
    tardy     a stateful bolt that puts at once and acks some time later
    write     a bolt that writes each message once to a system outside (checkpoint_sinks)
"""

from __future__ import annotations

import pickle
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from checkpoint_nouns import Shape
from checkpoint_sinks import Write

from tupletree.component import BasicBolt, Bolt, Spout, StatefulBolt
from tupletree.errors import FailedException
from tupletree.topology import TopologyBuilder
from tupletree.v1.topology_pb2 import TopologySpec

if TYPE_CHECKING:
    from checkpoint_workers import Worker

TOTAL = "*"


class Source:
    """What one task of a spout reads; it outlives the task. ``acked``: by message number, for a spout that replays."""

    def __init__(self) -> None:
        self.reached = 0
        self.acked: set[int] = set()


class Numbers(Spout):
    """Goes on from what was acked, and emits again what fails."""

    outputs = ("message",)
    worker: Worker

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.name = f"{context.component_id}/{context.task_index}"
        self.world = self.worker.world
        self.source = self.world.sources[self.name]
        self.next = 0
        self.again: deque[int] = deque()
        self.recall()

    def recall(self) -> None:
        self.next = self.source.reached
        self.again.extend(number for number in range(self.next) if number not in self.source.acked)

    def next_tuple(self) -> None:
        self.world.mishap("dies")
        if self.again:
            self.emit(self.again.popleft())
        elif self.next < self.world.available():
            self.emit(self.next)
            self.next += 1
            self.source.reached = max(self.source.reached, self.next)

    def emit(self, number: int) -> None:
        self.world.counts["emitted"] += 1
        self.collector.emit([f"{self.name}:{number}"], number)

    def ack(self, number: int) -> None:
        self.world.judge.acked(self.worker, self.name, number)
        self.source.acked.add(number)

    def fail(self, number: int) -> None:
        self.again.append(number)


class PositionedNumbers(Numbers):
    """Has no memory but the checkpoint."""

    def recall(self) -> None:
        pass

    def checkpoint_state(self) -> int:
        self.world.mishap("raises")
        return self.next

    def restore_state(self, state: int) -> None:
        self.next = state

    def fail(self, number: int) -> None:
        raise AssertionError("a positioned spout is not told of failures")


class Pass(BasicBolt):
    outputs = ("message",)
    worker: Worker

    def execute(self, tup: Any, collector: Any) -> None:
        self.worker.world.judge.executes(self.worker, self.context.task_id, tup["message"])
        self.worker.world.mishap("fails", "dies")
        collector.emit([tup["message"]])


class Late(Bolt):
    outputs = ("message",)
    worker: Worker

    def execute(self, tup: Any) -> None:
        world = self.worker.world
        world.judge.executes(self.worker, self.context.task_id, tup["message"])
        self.begin(tup)
        call_soon = self.context.call_soon
        world.at(world.rng.choice([0.0, 0.05, 0.3]), lambda: call_soon(lambda: self.finish(tup)))

    def begin(self, tup: Any) -> None:
        self.collector.emit([tup["message"]], tup)

    def finish(self, tup: Any) -> None:
        try:
            self.worker.world.mishap("fails")
        except FailedException:
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


class Slow(Late):
    def begin(self, tup: Any) -> None:
        pass

    def finish(self, tup: Any) -> None:
        self.collector.emit([tup["message"]], tup)
        super().finish(tup)


class Count(StatefulBolt):
    outputs = ("message",)
    worker: Worker

    def init_state(self, state: Any) -> None:
        self.worker.world.mishap("raises")
        self.worker.world.judge.initialises(self.worker, self.context, state)
        self.state = state

    def execute(self, tup: Any) -> None:
        self.worker.world.judge.executes(self.worker, self.context.task_id, tup["message"])
        try:
            self.worker.world.mishap("fails", "dies")
            self.take(tup["message"])
            self.collector.emit([tup["message"]], tup)
            self.worker.world.mishap("fails", "dies")
        except FailedException:
            self.collector.fail(tup)
        else:
            self.finish(tup)

    def finish(self, tup: Any) -> None:
        self.collector.ack(tup)

    def take(self, message: str, times: int = 1) -> None:
        for key in (message, TOTAL):
            self.state.put(key, self.state.get(key, 0) + times)

    def pre_prepare(self, txid: int) -> None:
        self.worker.world.mishap("raises", "dies")

    def pre_commit(self, txid: int) -> None:
        self.worker.world.mishap("raises", "dies")

    def pre_rollback(self) -> None:
        self.worker.world.mishap("raises", "dies")


class Gather(Count):
    def init_state(self, state: Any) -> None:
        super().init_state(state)
        self.fresh: Counter[str] = Counter()

    def take(self, message: str, times: int = 1) -> None:
        self.fresh[message] += times

    def pre_prepare(self, txid: int) -> None:
        super().pre_prepare(txid)
        for message, times in self.fresh.items():
            super().take(message, times)
        self.fresh.clear()


class Tardy(Count):
    def finish(self, tup: Any) -> None:
        world, call_soon = self.worker.world, self.context.call_soon
        world.at(world.rng.choice([0.0, 0.05, 0.3]), lambda: call_soon(lambda: self.collector.ack(tup)))


KINDS = {"pass": Pass, "late": Late, "slow": Slow, "count": Count, "gather": Gather, "tardy": Tardy, "write": Write}


def build(shape: Shape) -> TopologySpec:
    """The topology with its checkpoint spout. Its objects are pickled by reference: an incarnation is built at once."""
    builder = TopologyBuilder()
    for name, tasks in shape.spouts.items():
        builder.set_spout(name, PositionedNumbers() if shape.positioned else Numbers(), tasks)
    for name, bolt in shape.bolts.items():
        declarer = builder.set_bolt(name, KINDS[bolt.kind](), bolt.executors).set_num_tasks(bolt.tasks)
        for source, grouping in bolt.inputs:
            if grouping == "shuffle":
                declarer.shuffle_grouping(source)
            else:
                declarer.fields_grouping(source, ["message"])
    topology = builder.create_topology()
    spec = topology.outline()
    for component in spec.components:
        component.object = pickle.dumps(topology.components[component.id].component)
    return spec
