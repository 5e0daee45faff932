"""The words that are counted: sentences from a Zipf vocabulary, and the components that split and count them."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bench._flow import Source, Witness
from tupletree import BasicBolt, Bolt
from tupletree.component import BasicCollector, BoltCollector, TopologyContext
from tupletree.grouping import CustomGrouping
from tupletree.tuples import Tuple

VOCABULARY = 10_000
WORDS_A_SENTENCE = 8
DISTINCT_SENTENCES = 20_000
SEED = 20_260_101


def sentences(count: int, seed: int = SEED) -> list[str]:
    """Sentences of six to ten words, the rank of each word drawn by Zipf's law."""
    rng = random.Random(seed)
    words = [f"word{rank}" for rank in range(VOCABULARY)]
    weights = [1 / (rank + 1) for rank in range(VOCABULARY)]
    half = WORDS_A_SENTENCE - 6
    lengths = [WORDS_A_SENTENCE + rng.randint(-half, half) for _ in range(count)]
    drawn = iter(rng.choices(words, weights, k=sum(lengths)))
    return [" ".join(next(drawn) for _ in range(length)) for length in lengths]


def true_counts(count: int) -> Counter[str]:
    """How often each word occurs in the first ``count`` sentences that ``Sentences`` emits."""
    distinct = sentences(min(DISTINCT_SENTENCES, count))
    rounds, rest = divmod(count, len(distinct))
    counts = Counter({word: number * rounds for word, number in _count(distinct).items()})
    return counts + _count(distinct[:rest])


def _count(lines: Sequence[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.split())


class Sentences(Source):
    """Emits a number of tracked sentences."""

    outputs = ("sentence",)

    def make_rows(self) -> list[list[Any]]:
        return [[sentence] for sentence in sentences(min(DISTINCT_SENTENCES, self.count))]


class Split(BasicBolt):
    """A tuple for each word."""

    outputs = ("word",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        for word in tup["sentence"].split():
            collector.emit([word])


class SplitMany(BasicBolt):
    """The same with one call for each sentence."""

    outputs = ("word",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit_many([[word] for word in tup["sentence"].split()])


class Count(BasicBolt):
    """Counts words."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.counts: dict[str, int] = {}
        name = f"count-{context.task_index}"
        Witness(self.directory, name, lambda: sum(self.counts.values()), lambda: self.counts).start()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        word = tup["word"]
        self.counts[word] = self.counts.get(word, 0) + 1


class Combine(Bolt):
    """Counts the words of so many sentences before they are exchanged: one tuple for each part of the vocabulary.

    A tuple of counts is anchored to every sentence that went into it, so each sentence is tracked as before. A tick
    sends what is held when the stream pauses.
    """

    outputs = ("part", "counts")

    def __init__(self, held: int, parts: int, tick_s: float = 0.05) -> None:
        self.held = held
        self.parts = parts
        self.tick_s = tick_s

    def component_configuration(self) -> Mapping[str, Any]:
        return {"topology.tick.tuple.freq.secs": self.tick_s}

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.tuples: list[Tuple] = []
        self.words: list[str] = []
        self.part_of: dict[str, int] = {}

    def execute(self, tup: Tuple) -> None:
        if tup.is_tick:
            self.send()
            self.collector.ack(tup)
            return
        self.tuples.append(tup)
        self.words += tup["sentence"].split()
        if len(self.tuples) >= self.held:
            self.send()

    def send(self) -> None:
        """Emit the counts of what is held, and ack it."""
        parts: list[dict[str, int]] = [{} for _ in range(self.parts)]
        part_of = self.part_of
        for word, count in Counter(self.words).items():
            part = part_of.get(word)
            if part is None:
                part = part_of[word] = zlib.crc32(word.encode()) % self.parts
            parts[part][word] = count
        for part, counts in enumerate(parts):
            if counts:
                self.collector.emit([part, counts], anchors=self.tuples)
        for tup in self.tuples:
            self.collector.ack(tup)
        self.tuples, self.words = [], []


class ByPart(CustomGrouping):
    """A part to a task: equal words reach the same task, as by a fields grouping."""

    def prepare(self, context: TopologyContext, stream: str, target_tasks: Sequence[int]) -> None:
        self.tasks = list(target_tasks)

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        return (self.tasks[values[0]],)


class AddCounts(Count):
    """Adds counts up."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        counts = self.counts
        for word, count in tup["counts"].items():
            counts[word] = counts.get(word, 0) + count
