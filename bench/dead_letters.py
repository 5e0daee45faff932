"""Throughput beside messages that cannot be processed and leave as dead letters.

    python -m bench.dead_letters --numbers 400000 --poison-every 100 --rounds 3 --json

A ReliableSpout reads numbers, a bolt passes them on to a sink, all in one worker beside one acker. Every
--poison-every-th number fails in each of its --attempts and then leaves as a dead letter. Runs without and with such
numbers take turns; their bolts are the same, and check each number. ``numbers_per_s`` is that of the numbers which can
be processed, from the first one to the last at the sink, and ``clean_numbers_per_s`` that of the runs without others;
both are medians. ``ratio`` is the first divided by the second.

``ratio`` cannot be more than the share of numbers that can be processed. The attempts of numbers read in the last 0.3 s
are not measured.

With --orders, a number is part of an order in JSON, which the bolt parses; a text that is cut off cannot be processed.
Without, the bolt has nothing to do: the throughput of the other runs is that of the framework alone.

Each number must come to the sink, or to the dead letters if it cannot be processed, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench import _cli
from bench._cli import WrongResultError
from bench._flow import GO, Run, Witness, drive, tell
from tupletree import Backoff, BasicBolt, FailedException, ReliableSpout, Topology, TopologyBuilder
from tupletree.component import BasicCollector
from tupletree.testing import DevCluster
from tupletree.tuples import Tuple

NAME: Final = "dead_letters"
SOURCE: Final = "source-0"
REST_OF_ORDER: Final = (
    '"customer": "c-1017", "at": "2026-05-01T12:30:00Z", '
    '"lines": [{"sku": "a-17", "pieces": 2, "price": 9.95}, {"sku": "b-4", "pieces": 1, "price": 120.5}]}'
)


class Numbers(ReliableSpout):
    """Emits 0, 1, 2, … once "go" was told."""

    outputs = ("number",)

    def __init__(self, directory: str, count: int) -> None:
        self.directory = directory
        self.count = count

    def setup(self) -> None:
        tell(self.directory, f"{SOURCE}-opened", {})

    def read(self) -> Iterator[list[int | str] | None]:
        while not Path(self.directory, GO).exists():
            yield None
        tell(self.directory, SOURCE, {"started_s": time.perf_counter(), "failed": 0})
        for value in self.values():
            yield [value]

    def values(self) -> Iterable[int | str]:
        """Return the value that is emitted for each number."""
        return range(self.count)


class Orders(Numbers):
    """Emits orders in JSON. The text of every ``poison_every``-th is cut off."""

    def __init__(self, directory: str, count: int, poison_every: int) -> None:
        super().__init__(directory, count)
        self.poison_every = poison_every

    def values(self) -> Iterable[str]:
        for number in range(self.count):
            is_cut_off = (number + 1) % self.poison_every == 0
            yield f'{{"number": {number}, {REST_OF_ORDER[:-5] if is_cut_off else REST_OF_ORDER}'


class Step(BasicBolt):
    """Passes numbers on, and fails every ``poison_every``-th."""

    outputs = ("number",)

    def __init__(self, poison_every: int) -> None:
        self.poison_every = poison_every

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        number = tup["number"]
        if (number + 1) % self.poison_every == 0:
            raise FailedException("this number cannot be processed")
        collector.emit([number])


class Parse(BasicBolt):
    """Passes the numbers of orders on, and fails what is not JSON."""

    outputs = ("number",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        try:
            order = json.loads(tup["number"])
        except ValueError as error:
            raise FailedException(f"not JSON: {error}") from error
        collector.emit([order["number"]])


class Distinct(BasicBolt):
    """Counts the numbers that came at least once."""

    def __init__(self, directory: str, name: str, count: int) -> None:
        self.directory = directory
        self.name = name
        self.count = count

    def setup(self) -> None:
        self.seen = bytearray(self.count)
        self.total = 0
        Witness(self.directory, self.name, lambda: self.total, lambda: self.name).start()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        number = tup[0]
        if not self.seen[number]:
            self.seen[number] = 1
            self.total += 1


def topology(arguments: argparse.Namespace, directory: str, poison_every: int) -> Topology:
    """Return numbers → step → good, and numbers → letters."""
    count = arguments.numbers
    retry = Backoff(first_s=0.1, factor=2, max_s=1, max_attempts=arguments.attempts)
    builder = TopologyBuilder()
    spout = Orders(directory, count, poison_every) if arguments.orders else Numbers(directory, count)
    numbers = builder.set_spout("numbers", spout).set_retry(retry).set_dead_letters("rejected")
    step = builder.set_bolt("step", Parse() if arguments.orders else Step(poison_every)).shuffle_grouping(numbers)
    builder.set_bolt("good", Distinct(directory, "good", count)).shuffle_grouping(step)
    builder.set_bolt("letters", Distinct(directory, "letters", count)).shuffle_grouping(numbers, "rejected")
    return builder.create_topology()


def rate_per_s(cluster: DevCluster, arguments: argparse.Namespace, poison_every: int) -> float:
    """Run once and return the numbers per second at the sink."""
    poisoned = arguments.numbers // poison_every
    conf = {"topology.max.spout.pending": arguments.pending, "topology.acker.executors": 1}
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        sinks = ["good", "letters"] if poisoned else ["good"]
        made = topology(arguments, directory, poison_every)
        flow = drive(cluster, Run(NAME, made, conf, directory, 1, sinks, arguments.numbers, is_tracked=False))
        ends = {one["facts"]: one for one in flow.sinks}
        if poisoned and ends["letters"]["total"] != poisoned:
            raise WrongResultError(f"{ends['letters']['total']:,} dead letters, not {poisoned:,}")
        good: int = ends["good"]["total"]
        return good / float(ends["good"]["changed_s"] - flow.started_s)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run in turns on a fresh cluster and return the metrics."""
    with DevCluster(slots=1, ackers=1) as cluster:
        return measure_on(cluster, arguments)


def measure_on(cluster: DevCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run in turns on a cluster with a free slot and an acker, and return the metrics."""
    none = arguments.numbers + 1
    rates: dict[int, list[float]] = {none: [], arguments.poison_every: []}
    for _ in range(arguments.rounds):
        for poison_every, of_kind in rates.items():
            of_kind.append(rate_per_s(cluster, arguments, poison_every))
    clean_per_s, per_s = map(median, rates.values())
    return {
        "numbers_per_s": round(per_s),
        "clean_numbers_per_s": round(clean_per_s),
        "ratio": round(per_s / clean_per_s, 3),
    }


def at_least_two(text: str) -> int:
    """Parse the argument --poison-every."""
    if int(text) < 2:
        raise argparse.ArgumentTypeError("at least 2, since some numbers must come to the sink")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--numbers", type=int, default=400_000)
    parser.add_argument("--poison-every", type=at_least_two, default=100)
    parser.add_argument("--attempts", type=int, default=3)
    parser.add_argument("--pending", type=int, default=10_000)
    parser.add_argument("--orders", action="store_true", help="the bolt parses JSON")
    parser.add_argument("--rounds", type=int, default=3)


if __name__ == "__main__":
    sys.exit(_cli.run(NAME, __doc__, add_arguments, measure))
