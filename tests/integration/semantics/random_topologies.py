"""Random topologies, and a model without tasks, threads or batches that says what must arrive where.

A tuple is [n, path, hops]: the number of its message, the components it came through, and how many more it may pass.
Every bolt hands a tuple on as long as it has hops left, so cycles end.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from local_components import Log, Shared

from tupletree import BasicBolt, Bolt, FailedException, Spout, Topology, TopologyBuilder, Tuple
from tupletree.grouping import CustomGrouping

FIELDS = ["n", "path", "hops"]
MAX_TUPLES = 1_500
GROUPINGS = ["shuffle", "fields", "all", "global", "none", "local_or_shuffle", "partial_key", "custom"]


class Queue(Shared, deque[Any]):
    """The messages that wait to be emitted, by any task."""


class Replaying(Spout):
    """Emits the messages of a queue and replays what fails."""

    outputs = FIELDS

    def __init__(self, queue: Queue, acked: Log, hops: int, blocking: bool) -> None:
        self.queue, self.acked, self.hops, self.blocking = queue, acked, hops, blocking

    def next_tuple(self) -> None:
        try:
            n = self.queue.popleft()
        except IndexError:
            return
        self.collector.emit([n, self.context.component_id, self.hops], n)

    def ack(self, msg_id: Any) -> None:
        self.acked.append(msg_id)

    def fail(self, msg_id: Any) -> None:
        self.queue.append(msg_id)


@dataclass
class Part:
    """A bolt: what it does with a tuple, and whom it listens to as (source, grouping)."""

    name: str
    kind: str  # basic, by hand, joining
    copies: int
    fails: frozenset[int]
    sleeps: frozenset[int]
    tasks: int
    executors: int
    blocking: bool
    inputs: list[tuple[str, str]] = field(default_factory=list)


def handed_on(part: Part, n: int, path: str, hops: int) -> list[list[Any]]:
    """What a bolt emits for a tuple."""
    return [[n, f"{path}/{part.name}", hops - 1]] * (part.copies if hops > 0 else 0)


class Basic(BasicBolt):
    """Hands on at once; fails some numbers the first time that this task meets them."""

    outputs = FIELDS

    def __init__(self, part: Part, log: Log) -> None:
        self.part, self.log, self.blocking = part, log, part.blocking
        self.failed: set[int] = set()

    def execute(self, tup: Tuple, collector: Any) -> None:
        n, path, hops = tup.values
        if n in self.part.sleeps:
            time.sleep(0.001)
        collector.emit_many(handed_on(self.part, n, path, hops))
        if n in self.part.fails - self.failed:
            self.failed.add(n)
            raise FailedException
        self.log.append((self.part.name, n, path))


class ByHand(Bolt):
    """As Basic, anchoring and acking by hand; sometimes anchors to the input twice, sometimes acks twice."""

    outputs = FIELDS

    def __init__(self, part: Part, log: Log) -> None:
        self.part, self.log, self.blocking = part, log, part.blocking
        self.failed: set[int] = set()

    def execute(self, tup: Tuple) -> None:
        n, path, hops = tup.values
        if n in self.part.fails - self.failed:
            self.failed.add(n)
            self.collector.fail(tup)
            return
        for row in handed_on(self.part, n, path, hops):
            self.collector.emit(row, anchors=[tup, tup] if n % 3 == 0 else tup)
        self.log.append((self.part.name, n, path))
        for _ in range(1 + n % 2):
            self.collector.ack(tup)


class Joining(Bolt):
    """Holds its inputs until a tick; then hands each on anchored to itself and the two before it, and acks them."""

    outputs = FIELDS

    def __init__(self, part: Part, log: Log) -> None:
        self.part, self.log, self.blocking = part, log, part.blocking
        self.held: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        if not tup.is_tick:
            self.log.append((self.part.name, tup["n"], tup["path"]))
            self.held.append(tup)
            return
        held, self.held = self.held, []
        for number, one in enumerate(held):
            for row in handed_on(self.part, *one.values):
                self.collector.emit(row, anchors=held[max(0, number - 2) : number + 1])
        for one in held:
            self.collector.ack(one)


class SomeTasks(CustomGrouping):
    """No task, one or two, by the number of the message."""

    def prepare(self, context: Any, stream: str, target_tasks: Sequence[int]) -> None:
        self.targets = list(target_tasks)

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        return self.targets[: values[0] % 3]


KINDS = {"basic": Basic, "by hand": ByHand, "joining": Joining}


class RandomTopology:
    """What ``seed`` makes: a topology, its configuration, and what must happen in it.

    Attributes:
        expected: how often each bolt must meet each (bolt, n, path), if nothing fails.
        has_failures: some tuples are failed once, so that bolts may meet them more often.
    """

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.acked, self.met = Log(), Log()
        self.has_failures = rng.random() < 0.3
        self.queues = {f"spout{number}": Queue() for number in range(rng.randint(1, 2))}
        self.spouts = list(self.queues)
        self.messages = list(range(rng.randint(1, 40)))
        self.parts = self._parts(rng)
        self.hops = rng.randint(1, 5)
        self.expected = self._expected()
        while sum(self.expected.values()) > MAX_TUPLES:
            if self.hops > 1:
                self.hops -= 1
            else:
                self.messages = self.messages[: len(self.messages) // 2]
            self.expected = self._expected()
        self.has_joins = any(part.kind == "joining" for part in self.parts)
        self.conf = self._conf(rng)
        self.topology = self._topology(rng)
        for n in self.messages:
            self.queues[self._spout_of(n)].append(n)

    def _spout_of(self, n: int) -> str:
        return self.spouts[n % len(self.spouts)]

    def _parts(self, rng: random.Random) -> list[Part]:
        parts: list[Part] = []
        for number in range(rng.randint(1, 5)):
            tasks = rng.randint(1, 4)
            fails = rng.sample(range(40), 4) if self.has_failures else []
            part = Part(
                name=f"{rng.choice('abc')}{number}",
                kind=rng.choice(list(KINDS)),
                copies=rng.choice([0, 1, 1, 1, 2]),
                fails=frozenset(fails),
                sleeps=frozenset(rng.sample(range(40), 2) if rng.random() < 0.3 else []),
                tasks=tasks,
                executors=rng.randint(1, tasks),
                blocking=rng.random() < 0.3,
            )
            parts.append(part)
            sources = [*self.spouts, *(one.name for one in parts)]  # its own name among them: a cycle
            for source in rng.sample(sources, rng.randint(1, min(2, len(sources)))):
                part.inputs.append((source, rng.choice(GROUPINGS)))
            if not any(source in self.spouts for source, _ in part.inputs) and rng.random() < 0.5:
                part.inputs.append((rng.choice(self.spouts), "shuffle"))
        if len(parts) > 1 and rng.random() < 0.4:
            source = parts[-1].name
            if all(name != source for name, _ in parts[0].inputs):
                parts[0].inputs.append((source, rng.choice(GROUPINGS)))
        return parts

    def _expected(self) -> Counter[tuple[str, int, str]]:
        met: Counter[tuple[str, int, str]] = Counter()
        for n in self.messages:
            spout = self._spout_of(n)
            self._follow(met, spout, [n, spout, self.hops], 1)
        return met

    def _follow(self, met: Counter[tuple[str, int, str]], source: str, row: list[Any], times: int) -> None:
        if sum(met.values()) > 20 * MAX_TUPLES:
            return
        for part in self.parts:
            for name, grouping in part.inputs:
                if name == source:
                    copies = {"all": part.tasks, "custom": min(row[0] % 3, part.tasks)}.get(grouping, 1) * times
                    if copies:
                        met[(part.name, row[0], row[1])] += copies
                        out = handed_on(part, *row)
                        if out:
                            self._follow(met, part.name, out[0], copies * len(out))

    def _conf(self, rng: random.Random) -> dict[str, Any]:
        return {
            "topology.executor.receive.buffer.size": rng.choice([1, 2, 10, 32768]),
            "topology.transfer.batch.size": rng.choice([1, 3, 20, 1000]),
            "topology.flush.interval.ms": rng.choice([1, 5, 100]),
            "topology.acker.executors": rng.choice([0, 1, 1, 2, 3]) if not self.has_failures else rng.randint(1, 3),
            "topology.max.spout.pending": None if self.has_joins else rng.choice([None, 1, 5]),
            "topology.message.timeout.secs": 1_000_000,
            "topology.testing.always.try.serialize": rng.random() < 0.2,
        }

    def _topology(self, rng: random.Random) -> Topology:
        builder = TopologyBuilder()
        for name, queue in self.queues.items():
            spout = Replaying(queue, self.acked, self.hops, blocking=rng.random() < 0.2)
            builder.set_spout(name, spout, rng.randint(1, 3))
        for part in self.parts:
            bolt = builder.set_bolt(part.name, KINDS[part.kind](part, self.met), part.executors)
            bolt.set_num_tasks(part.tasks)
            if part.kind == "joining":
                bolt.add_configuration("topology.tick.tuple.freq.secs", 1)
            for source, grouping in part.inputs:
                match grouping:
                    case "fields" | "partial_key":
                        getattr(bolt, f"{grouping}_grouping")(source, ["n"])
                    case "custom":
                        bolt.custom_grouping(source, SomeTasks())
                    case _:
                        getattr(bolt, f"{grouping}_grouping")(source)
        return builder.create_topology()
