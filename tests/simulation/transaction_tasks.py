"""Tasks of the simulated topology: incarnations, each with its own copy of the component, and their collectors.

An incarnation takes one event after the other. What a step emits, acks and fails leaves when the step is over; if the
incarnation is killed within the step, a part of it leaves. Beside the incarnation that everybody will soon send to
there may be older ones that are cut off, and go on.
"""

from __future__ import annotations

import copy
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from transaction_nouns import Tree

from tupletree._definition import Definition
from tupletree.attempt import TransactionAttempt
from tupletree.component import BoltCollector, SpoutCollector, TopologyContext
from tupletree.grouping import grouping_name
from tupletree.testing.simulation.workers import Killed
from tupletree.topology import Topology
from tupletree.transactional.streams import COMMIT_STREAM, attempts_of
from tupletree.tuples import Origin, Tuple
from tupletree.v1.topology_pb2 import ComponentKind

if TYPE_CHECKING:
    from transaction_network import Link
    from transaction_world import World


class Place:
    """A task of the topology: who runs it now."""

    def __init__(self, task: int, definition: Definition, topology: Topology) -> None:
        self.task = task
        self.definition = definition
        self.is_spout = definition.kind == ComponentKind.COMPONENT_KIND_SPOUT
        self.subscribers = {
            stream: [
                (other.id, grouping_name(item.grouping), item.fields)
                for other in topology.components.values()
                for item in other.inputs
                if item.source == definition.id and item.stream == stream
            ]
            for stream in definition.outputs
        }
        self.origins = {
            name: Origin(definition.id, task, name, stream.fields) for name, stream in definition.outputs.items()
        }
        self.current: Incarnation

    def context(self, tasks: dict[str, list[int]], conf: dict[str, Any]) -> TopologyContext:
        return TopologyContext(
            topology_id="simulated",
            component_id=self.definition.id,
            task_id=self.task,
            tasks=tasks,
            sources={(item.source, item.stream): grouping_name(item.grouping) for item in self.definition.inputs},
            targets={
                stream: {name: kind for name, kind, _ in subscribers}
                for stream, subscribers in self.subscribers.items()
            },
            conf=conf,
        )


class Incarnation:
    """One life of a task."""

    def __init__(self, world: World, place: Place, number: int) -> None:
        self.world = world
        self.place = place
        self.number = number
        self.alive = True
        self.cut_off = False
        self.component: Any = copy.deepcopy(place.definition.component)
        self.view: dict[int, Incarnation] = {}  # which incarnation of each task it sends to
        self.links: dict[Incarnation, Link] = {}
        self.pending: dict[int, Tree] = {}  # the spout's trees
        self.holding: dict[int, Tree] = {}  # control tuples on their way to it or in its hands
        self._events: deque[Callable[[], None]] = deque()
        self._is_busy = False
        self._outbox: list[tuple[int, Tuple, Tree | None]] = []
        self._acks: list[int] = []
        self._fails: list[Tree] = []

    def __repr__(self) -> str:
        return f"{self.place.definition.id}:{self.place.task}/{self.number}"

    def start(self) -> None:
        context = self.place.context(self.world.tasks, self.world.conf)
        self.collector = Collector(self)
        self.component.collector = self.collector
        self.component.context = context
        begin = self.component.open if self.place.is_spout else self.component.prepare
        self.step(lambda: begin(self.world.conf, context, self.collector))

    def step(self, event: Callable[[], None]) -> None:
        """Take an event, after those that came before."""
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        self.world.running.append(self)
        try:
            while self._events and self.alive:
                with suppress(Killed):
                    self._events.popleft()()
                if self._outbox or self._acks or self._fails:
                    self._leave(is_whole=self.alive)
        finally:
            self.world.running.pop()
            self._is_busy = False

    def kill(self, why: str) -> None:
        """Its memory is gone, with all that is on its way to it."""
        if self.alive:
            self.alive = False
            self._events.clear()
            self.world.died(self, why)

    def _leave(self, is_whole: bool) -> None:
        """Send what the step has to say: all of it, or a part that it may have sent before it died."""
        outbox, self._outbox = self._outbox, []
        acks, self._acks = self._acks, []
        fails, self._fails = self._fails, []
        if not is_whole:
            kept = self.world.rng.randint(0, len(outbox))
            for _, tup, tree in outbox[kept:]:
                self.world.network.lose(tup, tree, "never sent: its sender was killed")
            outbox = outbox[:kept]
            acks = [copy_id for copy_id in acks if self.world.rng.random() < 0.5]
            fails = [tree for tree in fails if self.world.rng.random() < 0.5]
        for target, tup, tree in outbox:
            self.world.network.send(self, target, tup, tree)
        if acks:
            self.world.trees.send_acks(self, acks)
        for tree in fails:
            self.world.trees.send_fail(tree)

    # What the collector says

    def put(self, target: int, values: list[Any], stream: str, tree: Tree | None) -> None:
        copy_id = self.world.trees.grow(tree) if tree is not None else 0
        tup = Tuple(values, tree.root if tree is not None else 0, copy_id, self.place.origins[stream])
        self._outbox.append((target, tup, tree))

    def ack(self, tup: Tuple) -> None:
        if tup._root:
            self.world.trees.settled.add(tup._edge)
            self._acks.append(tup._edge)

    def fail(self, tup: Tuple) -> None:
        if tup._root:
            self.world.trees.settled.add(tup._edge)
            self._fails.append(self.world.trees.by_root[tup._root])


class Collector(BoltCollector, SpoutCollector):  # type: ignore[misc]
    """The collector of an incarnation, of a spout or a bolt."""

    def __init__(self, incarnation: Incarnation) -> None:
        self._incarnation = incarnation
        self._place = incarnation.place
        self._world = incarnation.world
        self._turns: dict[str, int] = {}

    def emit(self, values: Sequence[Any], anchor: Any = None, stream: str = "default") -> tuple[int, ...]:
        """``anchor``: a tuple if this is a bolt, a message id if it is a spout."""
        tree = self._tree(anchor, values, stream)
        targets = [task for subscriber in self._place.subscribers[stream] for task in self._choose(subscriber, values)]
        for task in targets:
            self._incarnation.put(task, list(values), stream, tree)
        return tuple(targets)

    def emit_direct(self, task: int, values: Sequence[Any], anchor: Any = None, stream: str = "default") -> None:
        if stream == "$report":
            self._world.judge.reports(self._incarnation, values[0])
        self._incarnation.put(task, list(values), stream, self._tree(anchor, values, stream))

    def ack(self, tup: Tuple) -> None:
        self._incarnation.ack(tup)

    def fail(self, tup: Tuple) -> None:
        if tup._root:
            self._world.tell(tup.values[0].txid, f"{self._incarnation} fails {tup.source_stream} of {tup.values[0]}")
        self._incarnation.fail(tup)

    def report_error(self, error: BaseException) -> None:
        self._world.tell(None, f"{self._incarnation}: {error}")

    def _tree(self, anchor: Any, values: Sequence[Any], stream: str) -> Tree | None:
        if anchor is None:
            return None
        if isinstance(anchor, Tuple):
            return self._world.trees.of_anchor(anchor)
        attempts = attempts_of(values) if stream == COMMIT_STREAM else values[:1]
        return self._world.trees.begin(self._incarnation, anchor, attempts, stream)

    def _choose(self, subscriber: tuple[str, str, Sequence[str]], values: Sequence[Any]) -> Sequence[int]:
        component, kind, fields = subscriber
        tasks = self._world.tasks[component]
        if kind == "all":
            return tasks
        if kind == "shuffle":
            turn = self._turns[component] = self._turns.get(component, self._place.task) + 1
            return [tasks[turn % len(tasks)]]
        assert kind == "fields", kind
        index = self._place.origins["default"].index
        return [tasks[zlib.crc32(repr([values[index[name]] for name in fields]).encode()) % len(tasks)]]


def decoded(values: list[Any]) -> list[Any]:
    """Values as they arrive in another process: equal, but not the same objects."""
    return [TransactionAttempt(*values[0]), *values[1:]]


def executing(receiver: Incarnation, tup: Tuple) -> Callable[[], None]:
    return partial(receiver.component.execute, tup)
