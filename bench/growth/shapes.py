"""The topologies whose costs are measured as one dimension of them grows."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from bench._words import DISTINCT_SENTENCES, Split, sentences, true_counts
from bench.growth.steady import Endless, Facts, Shape, Sink
from tupletree import BasicBolt, Bolt, Topology, TopologyBuilder
from tupletree.component import BasicCollector, BoltCollector, TopologyContext
from tupletree.tuples import Tuple

TEXT: Final = "some data"
PENDING_BYTES: Final = 32 * 1024**2
STRIDE: Final = 7_368_787  # has no factor in common with a power of ten
BEYOND: Final = 6_000  # trees that may be pending, beyond those that are held


class EndlessSentences(Endless):
    """Emits sentences. They are "warm" when as many are acked as may be pending."""

    outputs = ("sentence",)

    def make_rows(self) -> list[list[Any]]:
        return [[sentence] for sentence in sentences(DISTINCT_SENTENCES)]


class CountWords(Sink):
    """Counts words."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        super().prepare(conf, context)
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.counts[tup["word"]] += 1

    def report(self) -> Facts:
        return self.counts


class Constant(Endless):
    """Emits one value."""

    outputs = ("value",)

    def __init__(self, directory: str, value: Any = TEXT, warm: int = BEYOND) -> None:
        super().__init__(directory, warm)
        self.value = value

    def make_rows(self) -> list[list[Any]]:
        return [[self.value]]


class Keys(Sequence[list[str]]):
    """Rows of different keys, computed when they are emitted."""

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return self.keys

    def __getitem__(self, index: Any) -> Any:
        return [f"key{index * STRIDE % self.keys}"]


class EndlessKeys(Endless):
    """Emits each of ``keys`` keys in turn, all of them before "warm"."""

    outputs = ("word",)

    def __init__(self, directory: str, keys: int) -> None:
        super().__init__(directory, warm=keys)
        self.keys = keys

    def make_rows(self) -> Any:
        return Keys(self.keys)


class CountKeys(CountWords):
    """Counts words, and reports how many there were."""

    def report(self) -> Facts:
        return {"executed": self.counts.total(), "distinct": len(self.counts)}


class Pass(BasicBolt):
    """Passes tuples on."""

    outputs = ("value",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit(tup.values)


class Measure(Sink):
    """Adds up the lengths of values."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        super().prepare(conf, context)
        self.length = 0

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.executed += 1
        self.length += len(tup["value"])

    def report(self) -> Facts:
        return {"executed": self.executed, "length": self.length}


class Hold(Bolt):
    """Holds the last ``count`` tuples, and acks those before."""

    def __init__(self, count: int) -> None:
        self.count = count

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.collector = collector
        self.held: deque[Tuple] = deque()

    def execute(self, tup: Tuple) -> None:
        self.held.append(tup)
        if len(self.held) > self.count:
            self.collector.ack(self.held.popleft())


def word_count(tasks: int, workers: int) -> Shape:
    """sentences → split → count, with so many tasks of split and of count."""

    def build(directory: str) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("sentences", EndlessSentences(directory, BEYOND))
        builder.set_bolt("split", Split(), tasks).shuffle_grouping("sentences")
        builder.set_bolt("count", CountWords(directory), tasks).fields_grouping("split", ["word"])
        return builder.create_topology()

    words = true_counts(DISTINCT_SENTENCES).total() / DISTINCT_SENTENCES
    return Shape("word", words, build, partial(true_counts, drawn=DISTINCT_SENTENCES), workers)


def chain(components: int) -> Shape:
    """A spout and so many bolts in a row, in one worker."""

    def build(directory: str) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("source", Constant(directory, warm=BEYOND))
        before = "source"
        for number in range(1, components):
            builder.set_bolt(f"pass-{number}", Pass()).shuffle_grouping(before)
            before = f"pass-{number}"
        builder.set_bolt("end", Measure(directory)).shuffle_grouping(before)
        return builder.create_topology()

    return Shape("tuple", 1, build, partial(_measured, len(TEXT), 1), workers=1)


def fan_out(copies: int) -> Shape:
    """A spout, each of whose tuples goes to so many tasks, half of them in the other worker."""

    pending = max(100, BEYOND // copies)

    def build(directory: str) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("source", Constant(directory, warm=pending))
        builder.set_bolt("copies", Measure(directory), copies).all_grouping("source")
        return builder.create_topology()

    return Shape("arrival", copies, build, partial(_measured, len(TEXT), copies), pending=pending)


def payload(size: int) -> Shape:
    """A spout in one worker, and a bolt in the other, that gets tuples of so many bytes."""

    pending = max(32, min(BEYOND, PENDING_BYTES // size))

    def build(directory: str) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("source", Constant(directory, bytes(size), pending))
        builder.set_bolt("measure", Measure(directory)).shuffle_grouping("source")
        return builder.create_topology()

    return Shape("tuple", 1, build, partial(_measured, size, 1), pending=pending)


def distinct(keys: int) -> Shape:
    """A spout of so many keys, each as often as any other, counted by key in two workers."""

    def build(directory: str) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("keys", EndlessKeys(directory, keys))
        builder.set_bolt("count", CountKeys(directory), 2).fields_grouping("keys", ["word"])
        return builder.create_topology()

    def truth(emitted: int) -> Facts:
        return {"executed": emitted, "distinct": min(keys, emitted)}

    return Shape("tuple", 1, build, truth)


def held(trees: int) -> Shape:
    """A spout in one worker, and a bolt in the other that leaves so many trees pending."""

    def build(directory: str) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("source", Constant(directory, warm=1))
        builder.set_bolt("hold", Hold(trees)).shuffle_grouping("source")
        return builder.create_topology()

    return Shape("tuple", 1, build, None, pending=trees + BEYOND)


def _measured(length: int, copies: int, emitted: int) -> Facts:
    return {"executed": copies * emitted, "length": copies * emitted * length}
