"""Rate of map → filter → map on words, as three bolts and fused by streams, on a real cluster of this machine.

    python -m bench.chain --way streams --workers 1 --sentences 300000 --json

The words are those of ``bench.word_count``. The first function takes the length of a word, the second keeps odd
lengths, the third halves them. What is left is counted and added up where it comes out, and must be right, else the
exit status is 1. Every message is tracked; the clock runs from the first emit to the last ack.

--way says how: three bolts, one after the other in the same worker (bolts); or a program of streams (streams).

--message says what a message of the spout is: one word (word), or a sentence of about eight, which the first bolt
splits as well, or a flat_map of the program (sentence).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from bench import _cli
from bench._cli import WrongResultError
from bench._flow import Run, drive
from bench._updates import Tally
from bench._words import DISTINCT_SENTENCES, sentences, true_counts
from bench.peers.programs.chain import half, is_odd
from bench.word_count import BlocksOfSentences
from tupletree import BasicBolt, Topology, TopologyBuilder
from tupletree.component import BasicCollector
from tupletree.streams import StreamBuilder
from tupletree.testing import DevCluster
from tupletree.tuples import Tuple


class Words(BlocksOfSentences):
    """Emits the words of sentences, each as a tracked tuple, sixteen at a time."""

    outputs = ("word",)

    def __init__(self, directory: str, count: int, of_sentences: int) -> None:
        super().__init__(directory, count)
        self.of_sentences = of_sentences

    def make_rows(self) -> list[list[Any]]:
        lines = sentences(min(DISTINCT_SENTENCES, self.of_sentences))
        return [[word] for line in lines for word in line.split()]


class Length(BasicBolt):
    """Emits the length of a word."""

    outputs = ("length",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit([len(tup["word"])])


class LengthOfEach(BasicBolt):
    """Emits the length of each word of a sentence."""

    outputs = ("length",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        for word in tup["sentence"].split():
            collector.emit([len(word)])


class Odd(BasicBolt):
    """Emits the odd ones of the lengths."""

    outputs = ("length",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        length = tup["length"]
        if is_odd(length):
            collector.emit([length])


class Half(BasicBolt):
    """Halves lengths, counts them and adds them up."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.tally(half(tup["length"]))


def bolts(spout: BlocksOfSentences, arguments: argparse.Namespace, directory: str) -> Topology:
    """Return the topology of three bolts."""
    builder, workers = TopologyBuilder(), arguments.workers
    builder.set_spout("source", spout, workers)
    first = LengthOfEach() if arguments.message == "sentence" else Length()
    builder.set_bolt("length", first, workers).local_or_shuffle_grouping("source")
    builder.set_bolt("odd", Odd(), workers).local_or_shuffle_grouping("length")
    builder.set_bolt("half", Half(Tally(directory)), workers).local_or_shuffle_grouping("odd")
    return builder.create_topology()


def streams(spout: BlocksOfSentences, arguments: argparse.Namespace, directory: str) -> Topology:
    """Return the same as a program of streams."""
    builder = StreamBuilder(parallelism=arguments.workers)
    words = builder.source(spout, name="source", parallelism=arguments.workers)
    if arguments.message == "sentence":
        words = words.flat_map(str.split)
    words.map(len).filter(is_odd).map(half).peek(Tally(directory))
    return builder.topology()


def truth(arguments: argparse.Namespace) -> tuple[int, int, int]:
    """Return the number of words, of those that are kept, and the sum of their halves."""
    counts = true_counts(arguments.sentences // arguments.workers)
    kept = {word: count for word, count in counts.items() if is_odd(len(word))}
    total = sum(half(len(word)) * count for word, count in kept.items())
    return arguments.workers * counts.total(), arguments.workers * sum(kept.values()), arguments.workers * total


def measure_on(cluster: DevCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a cluster with enough slots and ackers, and return the metrics.

    Raises:
        WrongResultError: a length is missing, or another came.
    """
    words, kept, total = truth(arguments)
    conf: Mapping[str, Any] = {
        "topology.workers": arguments.workers,
        "topology.acker.executors": arguments.ackers,
        "topology.max.spout.pending": arguments.pending,
    }
    share = arguments.sentences // arguments.workers
    with tempfile.TemporaryDirectory(prefix="bench-chain-") as directory:
        spout = BlocksOfSentences(directory, share)
        if arguments.message == "word":
            spout = Words(directory, words // arguments.workers, share)
        topology = (streams if arguments.way == "streams" else bolts)(spout, arguments, directory)
        sinks = [f"count-{index}" for index in range(arguments.workers)]
        flow = drive(
            cluster,
            Run("chain", topology, conf, directory, arguments.workers, sinks, kept, True, arguments.timeout),
        )
    if sum(sink["facts"] for sink in flow.sinks) != total:
        raise WrongResultError("the sum of the lengths differs from that of the words")
    return flow.figures(words, "word")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with DevCluster(slots=arguments.workers, ackers=max(1, arguments.ackers)) as cluster:
        return measure_on(cluster, arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--way", choices=("bolts", "streams"), default="streams", help="what runs (%(default)s)")
    parser.add_argument("--message", choices=("word", "sentence"), default="word", help="of the spout (%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="with a spout in each (%(default)s)")
    parser.add_argument("--ackers", type=int, default=1)
    parser.add_argument(
        "--sentences", type=int, default=300_000, help="must be a multiple of the workers (%(default)s)"
    )
    parser.add_argument("--pending", type=int, default=6_000, help="topology.max.spout.pending (%(default)s)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which the run fails (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("chain", __doc__, add_arguments, measure))
