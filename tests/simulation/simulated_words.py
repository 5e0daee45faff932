"""Topologies for test_simulate: a word count, and spouts and bolts with a planted fault each."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from tupletree import (
    BasicBolt,
    BasicStatefulBolt,
    Bolt,
    FailedException,
    ReliableSpout,
    Spout,
    Topology,
    TopologyBuilder,
)

TEXT = [
    f"the quick {word} jumps over the {word}"
    for word in ["fox", "dog", "cat", "cow", "hen", "pig", "ant", "bee", "elk", "owl"]
]
WORDS = Counter(word for line in TEXT for word in line.split())
DURABLE = {"topology.state.provider": "sqlite", "topology.state.provider.config": {"directory": "/nowhere"}}


class Lines(ReliableSpout):
    outputs = ("line",)

    def read(self) -> Iterator[list[str]]:
        yield from ([line] for line in TEXT)


class Split(BasicBolt):
    outputs = ("word",)

    def execute(self, tup: Any, collector: Any) -> Iterator[list[str]]:
        yield from ([word] for word in tup["line"].split())


class Count(BasicStatefulBolt):
    default_factory = int

    def execute(self, tup: Any) -> None:
        self.state[tup["word"]] += 1


class Tally(BasicBolt):
    """Counts words in a table outside of the topology."""

    def __init__(self, table: Counter[str]) -> None:
        self.table = table

    def execute(self, tup: Any, collector: Any) -> None:
        self.table[tup["word"]] += 1


class Forgets(Spout):
    """Emits each line once, and keeps none of them."""

    outputs = ("line",)

    def setup(self) -> None:
        self.lines = deque(enumerate(TEXT))

    def next_tuple(self) -> None:
        if self.lines:
            number, line = self.lines.popleft()
            self.collector.emit([line], number)


class Takes(Forgets):
    """Takes lines from a queue that outlives it, at once rather than when they are acked; replays what fails."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def setup(self) -> None:
        self.lines = self.queue
        self.taken: dict[int, str] = {}

    def next_tuple(self) -> None:
        if self.lines:
            number, line = self.lines.popleft()
            self.taken[number] = line
            self.collector.emit([line], number)

    def fail(self, msg_id: int) -> None:
        self.collector.emit([self.taken[msg_id]], msg_id)


class Endless(ReliableSpout):
    outputs = ("line",)

    def read(self) -> Iterator[list[str]]:
        while True:
            yield ["again"]
            yield from [None] * 10  # type: ignore[misc] # a row a second, as each row takes processor time


class Sink(Bolt):
    def execute(self, tup: Any) -> None:
        self.collector.ack(tup)


class Forgetful(Sink):
    def execute(self, tup: Any) -> None:
        if "owl" not in tup["line"]:
            self.collector.ack(tup)


class Picky(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        if "owl" in tup["line"]:
            raise FailedException("no owls")


class Buggy(Sink):
    def execute(self, tup: Any) -> None:
        raise ZeroDivisionError("a bug")


def words(count: Any = None) -> Topology:
    builder = TopologyBuilder()
    lines = builder.set_spout("lines", Lines())
    split = builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping(lines)
    builder.set_bolt("count", count or Count(), parallelism=2).fields_grouping(split, "word")
    return builder.create_topology()


def straight(spout: Spout, bolt: Any, *, has_letters: bool = False) -> Topology:
    builder = TopologyBuilder()
    lines = builder.set_spout("lines", spout)
    builder.set_bolt("sink", bolt).shuffle_grouping(lines)
    if has_letters:
        lines.set_dead_letters("rejected")
        builder.set_bolt("letters", Sink()).shuffle_grouping(lines, "rejected")
    return builder.create_topology()
