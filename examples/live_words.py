"""English words, counted at a steady rate until the topology is killed: a topology to watch in the web UI.

tupletree submit examples/live_words.py --name live
"""

import re
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pydoc_data.topics import topics

from tupletree import BasicBolt, ReliableSpout, Topology, TopologyBuilder, Tuple
from tupletree.collector import BasicCollector


class SteadyLines(ReliableSpout):
    """Reads lines of the text at a fixed rate."""

    outputs = ["line"]

    def __init__(self, lines_per_s: float) -> None:
        self.lines_per_s = lines_per_s

    def read(self) -> Iterator[list[str] | None]:
        text = [line for topic in topics.values() for line in topic.splitlines() if line.strip()]
        began_s = time.monotonic()
        for number in count():
            while number >= (time.monotonic() - began_s) * self.lines_per_s:
                yield None
            yield [text[number % len(text)]]


class Split(BasicBolt):
    """Splits lines into words."""

    outputs = ["word"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> Iterator[list[str]]:
        for word in re.findall(r"[a-z]+", tup["line"].lower()):
            yield [word]


class Count(BasicBolt):
    """Counts words, and emits the count of each word."""

    outputs = ["word", "count"]

    def setup(self) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.counts[tup["word"]] += 1
        collector.emit([tup["word"], self.counts[tup["word"]]])


class Top(BasicBolt):
    """Reports the ten most frequent words as its status."""

    def setup(self) -> None:
        self.counts: Counter[str] = Counter()
        self.context.register_status(lambda: {"top": [word for word, _ in self.counts.most_common(10)]})

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.counts[tup["word"]] = tup["count"]


def topology(lines_per_s: int = 500) -> Topology:
    """Emit ``lines_per_s`` lines in total, from two spout tasks."""
    builder = TopologyBuilder()
    builder.set_spout("lines", SteadyLines(lines_per_s / 2), parallelism=2)
    builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping("lines")
    builder.set_bolt("count", Count(), parallelism=2).fields_grouping("split", ["word"])
    builder.set_bolt("top", Top()).global_grouping("count")
    return builder.create_topology()
