"""Latency of a word at a fixed rate of sentences: end to end, tracked, across two workers.

    python -m bench.latency --rate 1000 --seconds 15 --json

The word count of bench.word_count, whose spout emits by a schedule: sentence n is due n / rate seconds after the start.
Latency counts from the due time, even if the spout emits the sentence later. So a pause of the system shows in every
sentence that was due during the pause (no coordinated omission).

``p50_ms`` to ``max_ms`` are from the due time until a word is counted, over all words; ``ack_p50_ms`` to ``ack_max_ms``
until the ack of the sentence at the spout. The first --warm seconds are left out. ``sentences_per_s`` is the actual
rate, ``cores`` the processors in use. The counts must be those of the sentences, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench import _cli
from bench._cli import WrongResultError
from bench._flow import Run, Source, Witness, drive
from bench._words import DISTINCT_SENTENCES, sentences, true_counts
from tupletree import BasicBolt, Topology, TopologyBuilder
from tupletree.component import BasicCollector, SpoutCollector, TopologyContext
from tupletree.testing import DevCluster
from tupletree.tuples import Tuple

NAME = "latency"
PERCENTS = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


class Scheduled(Source):
    """Emits sentence n at n / rate seconds after the start, with the time at which it is due."""

    outputs: ClassVar[Sequence[str]] = ("sentence", "due_s")

    def __init__(self, directory: str, count: int, rate: float) -> None:
        super().__init__(directory, count)
        self.rate = rate

    def make_rows(self) -> list[list[Any]]:
        return [[sentence] for sentence in sentences(min(DISTINCT_SENTENCES, self.count))]

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        super().open(conf, context, collector)
        self.latencies_s = array("d")

    def next_tuple(self) -> None:
        if self.next == 0 and not self.may_start():
            return
        due = min(self.count, math.ceil((time.perf_counter() - self.started_s) * self.rate))
        while self.next < due:
            self.emit(self.next)
            self.next += 1

    def emit(self, number: int) -> None:
        due_s = self.started_s + number / self.rate
        self.collector.emit([*self.rows[number % self.distinct], due_s], (number, due_s))

    def ack(self, msg_id: Any) -> None:
        self.latencies_s.append(time.perf_counter() - msg_id[1])
        super().ack(msg_id)

    def facts(self) -> Mapping[str, Any]:
        dump(self.directory, "acks", self.latencies_s)
        return {}


class Split(BasicBolt):
    """Emits a tuple for each word."""

    outputs = ("word", "due_s")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        sentence, due_s = tup.values
        for word in sentence.split():
            collector.emit([word, due_s])


class Count(BasicBolt):
    """Counts words, and records the latency of each."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.name = f"count-{context.task_index}"
        self.counts: dict[str, int] = {}
        self.latencies_s, self.due_s = array("d"), array("d")
        Witness(self.directory, self.name, lambda: len(self.latencies_s), self.facts).start()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        word, due_s = tup.values
        self.counts[word] = self.counts.get(word, 0) + 1
        self.latencies_s.append(time.perf_counter() - due_s)
        self.due_s.append(due_s)

    def facts(self) -> Mapping[str, int]:
        dump(self.directory, f"{self.name}-late", self.latencies_s)
        dump(self.directory, f"{self.name}-due", self.due_s)
        return dict(self.counts)


def dump(directory: str, name: str, values: array[float]) -> None:
    """Write numbers to a file."""
    Path(directory, name).write_bytes(values.tobytes())


def load(directory: str, name: str) -> array[float]:
    """Read numbers from a file."""
    values = array("d")
    values.frombytes(Path(directory, name).read_bytes())
    return values


def percentiles(latencies_s: Sequence[float], prefix: str = "") -> dict[str, float]:
    """Return the percentiles and the maximum, in milliseconds, by nearest rank."""
    ordered = sorted(latencies_s)
    found = {name: ordered[math.ceil(share * len(ordered)) - 1] for name, share in PERCENTS.items()}
    return {f"{prefix}{name}_ms": round(1000 * value, 2) for name, value in {**found, "max": ordered[-1]}.items()}


def topology(count: int, rate: float, workers: int, directory: str) -> Topology:
    """Return the topology of spout, split and count, with each bolt once per worker."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", Scheduled(directory, count, rate))
    builder.set_bolt("split", Split(), workers).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(directory), workers).fields_grouping("split", ["word"])
    return builder.create_topology()


def measure_on(cluster: DevCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a cluster with enough slots and ackers, and return the metrics.

    Raises:
        WrongResultError: the counts are not those of the sentences.
    """
    warm = round(arguments.warm * arguments.rate)
    count = warm + round(arguments.seconds * arguments.rate)
    truth = true_counts(count)
    conf = {"topology.workers": arguments.workers, "topology.acker.executors": arguments.ackers}
    sinks = [f"count-{index}" for index in range(arguments.workers)]
    with tempfile.TemporaryDirectory(prefix="bench-latency-") as directory:
        built = topology(count, arguments.rate, arguments.workers, directory)
        flow = drive(cluster, Run(NAME, built, conf, directory, 1, sinks, truth.total()))
        measured_from_s = flow.started_s + arguments.warm
        words = [
            late
            for sink in sinks
            for late, due in zip(load(directory, f"{sink}-late"), load(directory, f"{sink}-due"), strict=True)
            if due >= measured_from_s
        ]
        acks = load(directory, "acks")[warm:]
    counted: Counter[str] = Counter()
    for one in flow.sinks:
        counted.update(one["facts"])
    if counted != truth:
        raise WrongResultError("the word counts differ from those of the sentences")
    figures = flow.figures(truth.total(), "word")
    return {
        **percentiles(words),
        **percentiles(acks, "ack_"),
        "sentences_per_s": round(count / flow.wall_s),
        "cores": round(figures["cpu_s"] / flow.wall_s, 2),
        "peak_rss_mb": figures["peak_rss_mb"],
        "others_cores": figures["others_cores"],
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with DevCluster(slots=arguments.workers, ackers=max(1, arguments.ackers)) as cluster:
        return measure_on(cluster, arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--rate", type=float, default=1_000, help="sentences per second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=15, help="seconds of measurement (%(default)s)")
    parser.add_argument("--warm", type=float, default=3, help="seconds before the measurement (%(default)s)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ackers", type=int, default=1)


if __name__ == "__main__":
    sys.exit(_cli.run("latency", __doc__, add_arguments, measure))
