"""Topologies for the browser tests to look at: small, quick to start, and with something to see."""

from __future__ import annotations

import time
from typing import Any

from tupletree import BasicBolt, BasicStatefulBolt, Bolt, KeyedProcess, Spout, Topology, TopologyBuilder
from tupletree.connectors.beanstalkd import BeanstalkSpout

TEXT = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "the", "quick", "cat"]


class Sentences(Spout):
    """Fifty sentences a second, forever, five at a time."""

    outputs = ["sentence"]

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector
        self.emitted = 0
        self.due_s = time.monotonic()

    def next_tuple(self) -> None:
        if time.monotonic() >= self.due_s:
            self.due_s = time.monotonic() + 0.1
            for _ in range(5):
                self.emitted += 1
                self.collector.emit([" ".join(TEXT)], msg_id=self.emitted)


class Split(BasicBolt):
    outputs = ["word"]

    def execute(self, tup: Any, collector: Any) -> None:
        for word in tup["sentence"].split():
            collector.emit([word])


class Count(BasicBolt):
    def prepare(self, conf: Any, context: Any) -> None:
        self.counts: dict[str, int] = {}

    def execute(self, tup: Any, collector: Any) -> None:
        self.counts[tup["word"]] = self.counts.get(tup["word"], 0) + 1


class Picky(Bolt):
    """Fails every thirtieth sentence, and reports an error whose text a page must not take for HTML."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector
        self.seen = 0

    def execute(self, tup: Any) -> None:
        self.seen += 1
        if self.seen % 30:
            self.collector.ack(tup)
            return
        self.collector.fail(tup)
        try:
            raise ValueError("<img src=x onerror=alert(1)> is no sentence")
        except ValueError as error:
            self.collector.report_error(error)


class Idle(Spout):
    outputs = ["number"]

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        pass

    def next_tuple(self) -> None:
        time.sleep(0.01)


class Pass(BasicBolt):
    outputs = ["number"]

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(tup.values)


def words() -> Topology:
    """A word count that is well."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences())
    builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(), parallelism=2).fields_grouping("split", ["word"])
    return builder.create_topology()


def ailing() -> Topology:
    """One whose bolt fails tuples and reports errors."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences())
    builder.set_bolt("picky", Picky()).shuffle_grouping("sentences")
    return builder.create_topology()


class Keep(Bolt):
    """Neither acks nor fails what it gets."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        pass

    def execute(self, tup: Any) -> None:
        pass


def holding() -> Topology:
    """One that never finishes its tuples."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences())
    builder.set_bolt("keep", Keep()).shuffle_grouping("sentences")
    return builder.create_topology()


def many(components: int) -> Topology:
    """A wide and deep one: every bolt reads the one three before it, so that there are three chains that meet."""
    builder = TopologyBuilder()
    builder.set_spout("source-000", Idle())
    for number in range(1, components):
        bolt = builder.set_bolt(f"step-{number:03}", Pass())
        before = max(0, number - 3)
        bolt.shuffle_grouping("source-000" if before == 0 else f"step-{before:03}")
        if number % 20 == 0:
            bolt.shuffle_grouping(f"step-{number - 1:03}")
    return builder.create_topology()


def orders(address: str) -> Topology:
    """Two tasks that read a queue, each at most ten messages, which are never finished."""
    builder = TopologyBuilder()
    builder.set_spout("orders", BeanstalkSpout(address, "orders", max_in_flight=10), parallelism=2)
    builder.set_bolt("keep", Keep()).shuffle_grouping("orders")
    return builder.create_topology()


class Fatal(Bolt):
    """Ends its worker with the first sentence that it gets."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        pass

    def execute(self, tup: Any) -> None:
        raise ValueError("no sentence at all")


def crashing() -> Topology:
    """One whose workers die again and again."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences())
    builder.set_bolt("fatal", Fatal()).shuffle_grouping("sentences")
    return builder.create_topology()


class Tally(BasicStatefulBolt):
    """Counts words, and knows a long number and a text that looks like HTML."""

    default_factory = int

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        self.state[word] += 1
        self.state["long"] = 2**60 + 1
        self.state["hostile"] = "<img src=x onerror=alert(1)>"
        self.state[2**60 + 1] = "a key that is a long number, with a long value"


class Seen(KeyedProcess):
    key = "word"
    default_factory = int

    def on_tuple(self, tup: Any, state: Any, timers: Any) -> None:
        state.value += 1


class Alphabet(Spout):
    """Emits a hundred words once, and is then idle."""

    outputs = ["word"]

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.left = collector, [f"word{number:02}" for number in range(100)]

    def next_tuple(self) -> None:
        if self.left:
            self.collector.emit([self.left.pop()])


def tallies() -> Topology:
    """One with states: of counts in two tasks, and of a keyed process."""
    builder = TopologyBuilder()
    builder.set_spout("alphabet", Alphabet())
    builder.set_bolt("tally", Tally(), parallelism=2).fields_grouping("alphabet", ["word"])
    builder.set_bolt("seen", Seen()).fields_grouping("alphabet", ["word"])
    return builder.create_topology()
