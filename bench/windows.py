"""Rate of a keyed sliding window in event time, on a real cluster of this machine.

    python -m bench.windows --workers 1 --sentences 300000 --json

A spout emits sentences of about eight words, each at its event time: one a millisecond. Words are counted by word in
windows of ten seconds, every two seconds, by a KeyedWindow. Every sentence is tracked; windows are in a state, with a
checkpoint per second for which acks wait, so --pending must be more than the sentences of a second, and less than those
of the message timeout. The clock runs from the first emit to the last ack. A last sentence an hour later ends all
windows. The sums of the counts of each word must be five times those of the sentences, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
from collections import Counter
from typing import Any, Final

from bench import _cli
from bench._cli import WrongResultError
from bench._flow import Run, Source, Witness, drive
from bench._words import DISTINCT_SENTENCES, sentences, true_counts
from bench.peers.programs.sliding import EVERY_S, SIZE_S, WINDOWS, event_time_ms
from tupletree import BasicBolt, KeyedWindow, Sliding, Topology, TopologyBuilder
from tupletree.component import BasicCollector
from tupletree.keyed import WindowBounds
from tupletree.testing import DevCluster
from tupletree.tuples import Tuple

AN_HOUR_MS: Final = 3_600_000


class TimedSentences(Source):
    """Emits sentences with their event times, and a last one that is an hour later."""

    outputs = ("sentence", "at")

    def make_rows(self) -> list[list[Any]]:
        return [[sentence] for sentence in sentences(min(DISTINCT_SENTENCES, self.count - 1))]

    def emit(self, number: int) -> None:
        if number == self.count - 1:
            self.collector.emit(["end", event_time_ms(number) + AN_HOUR_MS], number)
        else:
            self.collector.emit([*self.rows[number % self.distinct], event_time_ms(number)], number)


class Split(BasicBolt):
    """Emits a tuple for each word."""

    outputs = ("word", "at")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        at = tup["at"]
        for word in tup["sentence"].split():
            collector.emit([word, at])


class Counts(KeyedWindow):
    """Counts words in sliding windows, and adds up the counts."""

    key, event_time = "word", "at"
    max_lag = dt.timedelta(0)
    window = Sliding(dt.timedelta(seconds=SIZE_S), dt.timedelta(seconds=EVERY_S))

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def setup(self) -> None:
        self.sums: Counter[str] = Counter()
        name = f"counts-{self.context.task_index}"
        Witness(self.directory, name, lambda: sum(self.sums.values()), lambda: self.sums).start()

    def initial(self) -> int:
        return 0

    def add(self, value: int, tup: Tuple) -> int:
        return value + 1

    def merge(self, first: int, second: int) -> int:
        return first + second

    def on_window(self, key: str, window: WindowBounds, value: int) -> None:
        self.sums[key] += value


def topology(arguments: argparse.Namespace, directory: str) -> Topology:
    """Return the topology of a spout, split and windows, each with one task."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", TimedSentences(directory, arguments.sentences + 1))
    builder.set_bolt("split", Split()).local_or_shuffle_grouping("sentences")
    builder.set_bolt("windows", Counts(directory)).fields_grouping("split", ["word"])
    return builder.create_topology()


def measure_on(cluster: DevCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a cluster with enough slots and ackers, and return the metrics.

    Raises:
        WrongResultError: the counts of all windows are not those of the sentences.
    """
    truth = true_counts(arguments.sentences)
    conf = {
        "topology.workers": arguments.workers,
        "topology.acker.executors": arguments.ackers,
        "topology.max.spout.pending": arguments.pending,
    }
    with tempfile.TemporaryDirectory(prefix="bench-windows-") as directory:
        sinks = ["counts-0"]
        total = WINDOWS * truth.total()
        run = Run("windows", topology(arguments, directory), conf, directory, 1, sinks, total, True, arguments.timeout)
        flow = drive(cluster, run)
    counted: Counter[str] = Counter()
    for sink in flow.sinks:
        counted.update(sink["facts"])
    if counted != {word: WINDOWS * count for word, count in truth.items()}:
        raise WrongResultError("the counts of the windows differ from those of the sentences")
    return flow.figures(truth.total(), "word")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with DevCluster(slots=arguments.workers, ackers=max(1, arguments.ackers)) as cluster:
        return measure_on(cluster, arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--workers", type=int, choices=(1,), default=1)
    parser.add_argument("--ackers", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=300_000)
    parser.add_argument("--pending", type=int, default=20_000, help="topology.max.spout.pending (%(default)s)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which the run fails (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("windows", __doc__, add_arguments, measure))
