"""From submit to the first tuple: the time until a word count has counted a word, and the memory of its idle workers.

    python -m bench.start --workers 2 --times 5 --json

On one cluster the same word count is submitted and killed ``--times`` times. Milliseconds from the call of ``submit``,
medians of all runs: until the call returns (``submitted_ms``), the spout is open (``opened_ms``), the first word is
counted (``first_word_ms``), the first sentence is acked (``first_ack_ms``). ``first_word_max_ms`` is the longest time
to the first word. ``failed`` counts the runs in which the first sentence failed and was emitted again. ``cpu_s`` is the
processor time of all workers until the first ack, ``idle_rss_mb`` the resident memory of one worker.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import _cli
from bench._flow import end, tell, told
from bench._processes import cpu_s, peak_rss_mb
from tupletree import BasicBolt, Spout, Topology, TopologyBuilder
from tupletree.component import BasicCollector, SpoutCollector, TopologyContext
from tupletree.testing import DevCluster, wait_until
from tupletree.tuples import Tuple

NAME = "start"
TOLD = ("opened", "first_word", "first_ack")


class OneSentence(Spout):
    """Emits a sentence, and reports the times of its opening and of the ack."""

    outputs = ("sentence",)

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.is_done = False
        tell(self.directory, "opened", time.perf_counter())

    def next_tuple(self) -> None:
        if not self.is_done:
            self.is_done = True
            self.collector.emit(["to be or not to be"], 1)

    def fail(self, msg_id: Any) -> None:
        self.is_done = False
        tell(self.directory, "failed", time.perf_counter())

    def ack(self, msg_id: Any) -> None:
        tell(self.directory, "first_ack", time.perf_counter())


class Split(BasicBolt):
    """Emits a tuple for each word."""

    outputs = ("word",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        for word in tup["sentence"].split():
            collector.emit([word])


class Count(BasicBolt):
    """Reports the time of the first word, in whichever task receives it."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        if not Path(self.directory, "first_word").exists():
            tell(self.directory, "first_word", time.perf_counter())


def topology(workers: int, directory: str) -> Topology:
    """Return the topology of spout, split and count, with each bolt once per worker."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", OneSentence(directory))
    builder.set_bolt("split", Split(), workers).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(directory), workers).fields_grouping("split", ["word"])
    return builder.create_topology()


def once(cluster: DevCluster, workers: int) -> dict[str, float]:
    """Submit the topology, wait for the first ack, and kill the topology."""
    with tempfile.TemporaryDirectory(prefix="bench-start-") as directory:
        built = topology(workers, directory)
        began_s = time.perf_counter()
        cluster.client.submit(NAME, built, {"topology.workers": workers, "topology.acker.executors": 1})
        figures = {"submitted_ms": 1000 * (time.perf_counter() - began_s)}
        wait_until(lambda: told(directory, "first_ack"), 60, what="the first ack")
        pids = [process.pid for process in cluster.processes if process.role == "worker"]
        figures["cpu_s"] = cpu_s(pids)
        figures["idle_rss_mb"] = peak_rss_mb(pids) / len(pids)
        figures["failed"] = float(Path(directory, "failed").exists())
        figures |= {f"{name}_ms": 1000 * (told(directory, name) - began_s) for name in TOLD}
        end(cluster, NAME)
    return figures


def measure_on(cluster: DevCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the medians over all times."""
    runs = [once(cluster, arguments.workers) for _ in range(arguments.times)]
    result: dict[str, Any] = {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]}
    result["failed"] = round(sum(run["failed"] for run in runs))
    return {**result, "first_word_max_ms": round(max(run["first_word_ms"] for run in runs), 2)}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all times on one fresh cluster."""
    with DevCluster(slots=arguments.workers, ackers=1) as cluster:
        return measure_on(cluster, arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", type=int, default=5, help="how often the topology is submitted (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("start", __doc__, add_arguments, measure))
