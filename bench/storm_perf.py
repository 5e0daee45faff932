"""Tuples per second, and processor time per tuple, of topologies that hardly do any work: three of Storm's perf suite.

    python -m bench.storm_perf --topology null --workers 2 --tuples 500000 --json

    const      a spout that emits the same short string; no bolt
    null       const -> a bolt that does nothing
    identity   const -> a bolt that forwards its tuples -> a bolt that does nothing

Every tuple is tracked; the clock runs from the first emit to the last ack. Each component has one task. With two
workers the tasks alternate, so that every hop leads from one worker to the other; const then has a spout in both.
The bolt that does nothing counts its tuples: it must receive every tuple once, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from bench import _cli
from bench._flow import Run, Source, Witness, drive
from tupletree import BasicBolt, Topology, TopologyBuilder
from tupletree.component import BasicCollector, TopologyContext
from tupletree.testing import DevCluster
from tupletree.tuples import Tuple

NAME = "storm-perf"
TEXT = "some data"


class Const(Source):
    """Emits a constant."""

    outputs = ("text",)

    def make_rows(self) -> list[list[Any]]:
        return [[TEXT]]


class Identity(BasicBolt):
    """Passes tuples on."""

    outputs = ("text",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit(tup.values)


class Null(BasicBolt):
    """The end of each tree."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.executed = 0

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        Witness(self.directory, "null", lambda: self.executed, lambda: None).start()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.executed += 1


def topology(name: str, spouts: int, tuples: int, directory: str) -> Topology:
    """Return one of the three topologies."""
    builder = TopologyBuilder()
    builder.set_spout("const", Const(directory, tuples // spouts), spouts)
    if name == "identity":
        builder.set_bolt("identity", Identity()).shuffle_grouping("const")
    if name != "const":
        builder.set_bolt("null", Null(directory)).shuffle_grouping("identity" if name == "identity" else "const")
    return builder.create_topology()


def measure_on(cluster: DevCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a cluster with enough slots and ackers, and return the metrics.

    Raises:
        WrongResultError: the last bolt did not get every tuple once.
    """
    conf = {
        "topology.workers": arguments.workers,
        "topology.acker.executors": arguments.ackers,
        "topology.max.spout.pending": arguments.pending,
    }
    spouts = arguments.workers if arguments.topology == "const" else 1
    tuples = arguments.tuples // spouts * spouts
    sinks = [] if arguments.topology == "const" else ["null"]
    with tempfile.TemporaryDirectory(prefix="bench-perf-") as directory:
        topology_ = topology(arguments.topology, spouts, tuples, directory)
        run = Run(NAME, topology_, conf, directory, spouts, sinks, tuples if sinks else 0)
        return drive(cluster, run).figures(tuples, "tuple")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with DevCluster(slots=arguments.workers, ackers=max(1, arguments.ackers)) as cluster:
        return measure_on(cluster, arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--topology", choices=("const", "null", "identity"), default="null")
    parser.add_argument("--workers", type=int, choices=(1, 2), default=2)
    parser.add_argument("--ackers", type=int, default=1)
    parser.add_argument("--tuples", type=int, default=500_000)
    parser.add_argument("--pending", type=int, default=5_000, help="topology.max.spout.pending (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("storm_perf", __doc__, add_arguments, measure))
