"""The words to count: sentences from a Zipf vocabulary, and the components that split and count them."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from bench._flow import Source, Witness
from tupletree import BasicBolt, Bolt, CombinerBolt, StatefulBolt
from tupletree.component import BasicCollector, BoltCollector, TopologyContext
from tupletree.state import KeyValueState
from tupletree.tuples import Tuple

VOCABULARY = 10_000
WORDS_A_SENTENCE = 8
DISTINCT_SENTENCES = 20_000
SEED = 20_260_101


def sentences(count: int, seed: int = SEED) -> list[str]:
    """Return sentences of six to ten words. The rank of each word is drawn by Zipf's law."""
    rng = random.Random(seed)
    words = [f"word{rank}" for rank in range(VOCABULARY)]
    weights = [1 / (rank + 1) for rank in range(VOCABULARY)]
    half = WORDS_A_SENTENCE - 6
    lengths = [WORDS_A_SENTENCE + rng.randint(-half, half) for _ in range(count)]
    drawn = iter(rng.choices(words, weights, k=sum(lengths)))
    return [" ".join(next(drawn) for _ in range(length)) for length in lengths]


def true_counts(count: int, drawn: int = 0) -> Counter[str]:
    """Return the count of each word in the first ``count`` sentences that ``Sentences`` emits.

    ``drawn`` is the number of distinct sentences that are emitted in turn; 0: as many as ``Sentences`` draws.
    """
    distinct = sentences(drawn or min(DISTINCT_SENTENCES, count))
    rounds, rest = divmod(count, len(distinct))
    counts = Counter({word: number * rounds for word, number in _count(distinct).items()})
    return counts + _count(distinct[:rest])


def _count(lines: Sequence[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.split())


class Sentences(Source):
    """Emits ``count`` tracked sentences."""

    outputs = ("sentence",)

    def make_rows(self) -> list[list[Any]]:
        return [[sentence] for sentence in sentences(min(DISTINCT_SENTENCES, self.count))]

    def next_tuple(self) -> None:
        number = self.next
        if 0 < number < self.count:  # saves one call
            self.next = number + 1
            self.collector.emit(self.rows[number % self.distinct], number)
        else:
            super().next_tuple()


class Split(BasicBolt):
    """Emits a tuple for each word."""

    outputs = ("word",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        for word in tup["sentence"].split():
            collector.emit([word])


class SplitYielding(BasicBolt):
    """Same as Split, as a generator."""

    outputs = ("word",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> Iterator[list[str]]:
        for word in tup["sentence"].split():
            yield [word]


class SplitMany(BasicBolt):
    """Same as Split, with one emit call per sentence."""

    outputs = ("word",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit_many(zip(tup["sentence"].split()))


class Count(BasicBolt):
    """Counts words."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.counts: defaultdict[str, int] = defaultdict(int)
        name = f"count-{context.task_index}"
        Witness(self.directory, name, lambda: sum(self.counts.values()), lambda: self.counts).start()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.counts[tup["word"]] += 1


class CountInState(StatefulBolt):
    """Counts words in a state, whose keys are those of the grouping."""

    is_divisible = True

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.total = 0
        name = f"count-{context.task_index}"
        Witness(self.directory, name, lambda: self.total, lambda: dict(self.counts.items())).start()

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.counts = state

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        self.counts.put(word, (self.counts.get(word) or 0) + 1)
        self.total += 1
        self.collector.ack(tup)


class CountWords(CombinerBolt):
    """Counts the words of ``held`` sentences before the exchange, and emits one tuple per distinct word."""

    outputs = ("word", "count")

    def __init__(self, held: int) -> None:
        self.held = held

    def empty(self) -> Counter[str]:
        return Counter()

    def add(self, partials: dict[str, int], tuples: Sequence[Tuple]) -> None:
        partials.update(chain.from_iterable([tup["sentence"].split() for tup in tuples]))


class AddCounts(Bolt):
    """Adds up counts, a batch at a time."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.counts: dict[str, int] = {}
        name = f"count-{context.task_index}"
        Witness(self.directory, name, lambda: sum(self.counts.values()), lambda: self.counts).start()

    def execute_batch(self, tuples: list[Tuple]) -> None:
        counts = self.counts
        for tup in tuples:
            word = tup["word"]
            counts[word] = counts.get(word, 0) + tup["count"]
        self.collector.ack_many(tuples)
