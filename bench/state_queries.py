"""Questions to a state under full load: what they change in the throughput of the topology that keeps the state.

    python -m bench.state_queries --rate 100 --pairs 8 --seconds 4 --json
    python -m bench.state_queries --live --rate 100
    python -m bench.state_queries --stored --rate 100

The word count with its counts in a state runs without end. Windows of --seconds with questions and without take turns,
in the order without, with, with, without. Threads of this process ask for a word each, --rate a second in all, for
committed values, or with --live for those of the moment, or with --stored they read the committed values from the store
itself, SQLite files, by StoredStates. The bolt says that its keys are those of the grouping, so a client asks the
worker of the word's only task. ``ratio`` is the median, over pairs of windows,
of the throughput with questions to that without; ``ratio_worker_cpu`` compares the processor time of the workers for a
word, without the share of client and nimbus, which on a cluster are other machines. Every answer must have a value.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from statistics import median
from typing import Any, Final

from bench import _cli
from bench._cli import WrongResultError
from bench._flow import GO, Run, Use, end, tell, wait_told
from bench._words import VOCABULARY, CountInState, Split, true_counts
from bench.growth.shapes import BEYOND, EndlessSentences
from bench.growth.steady import START_S, Facts, Watch, ask
from tupletree import Topology, TopologyBuilder
from tupletree.client import StateAnswer, StateClient, StoredStates
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.testing import DevCluster, wait_until

NAME: Final = "questions"
ASKED_WORDS: Final = 100  # the most frequent ones: each is counted before the first window
WORDS: Final = true_counts(VOCABULARY).total() / VOCABULARY  # of a sentence
ASKERS: Final = 12
PENDING: Final = 200_000
WARM_S: Final = 3.0


Ask = Callable[[str], StateAnswer]
"""Returns the answer about a word."""


@contextmanager
def asking(conf: Mapping[str, Any], arguments: argparse.Namespace) -> Iterator[Ask]:
    """Yield what asks for a word."""
    if arguments.stored:
        with ExitStack() as stack:
            free: SimpleQueue[StoredStates] = SimpleQueue()  # each is one thread's at a time
            for _ in range(ASKERS):
                free.put(stack.enter_context(StoredStates(conf)))
            yield lambda word: _by_one_of(free, word)
    else:
        with StateClient(conf=conf) as client:
            yield lambda word: client.get(NAME, "count", word, live=arguments.live)


def _by_one_of(free: SimpleQueue[StoredStates], word: str) -> StateAnswer:
    stored = free.get()
    try:
        return stored.get(NAME, "count", word)
    finally:
        free.put(stored)


class Timed(EndlessSentences):
    """Emits sentences, and answers at each of the bounds between the windows how many are acked."""

    def __init__(self, directory: str, bounds: int) -> None:
        super().__init__(directory, BEYOND)
        self.bounds = bounds

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        for bound in range(self.bounds):
            Watch.when(self.directory, f"bound-{bound}", self.so_far)
        super().open(conf, context, collector)

    def so_far(self) -> Facts:
        return {"acked": self.acked, "failed": self.failed, "at_s": time.perf_counter()}


class Asker(threading.Thread):
    """Asks for words at a fixed rate until all are stopped; counts the answers, and their latencies."""

    def __init__(self, ask: Ask, rate: float, first: int, stopped: threading.Event) -> None:
        super().__init__(daemon=True)
        self._ask, self._rate, self._first = ask, rate, first
        self._stopped = stopped
        self.latencies_s: list[float] = []
        self.missing = 0

    def run(self) -> None:
        began_s, number = time.perf_counter() + self._first / ASKERS / self._rate, 0
        while not self._stopped.wait(max(0.0, began_s + number / self._rate - time.perf_counter())):
            asked_s = time.perf_counter()
            answer = self._ask(f"word{(self._first + number) % ASKED_WORDS}")
            self.latencies_s.append(time.perf_counter() - asked_s)
            self.missing += not answer.entries
            number += 1


def topology(directory: str, bounds: int) -> Topology:
    """Return the word count with a state."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", Timed(directory, bounds))
    builder.set_bolt("split", Split(), 2).shuffle_grouping("sentences")
    builder.set_bolt("count", CountInState(directory), 2).fields_grouping("split", ["word"])
    return builder.create_topology()


def is_with(window: int) -> bool:
    """True if questions are asked in a window: without, with, with, without, and so on."""
    return window % 4 in (1, 2)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    windows = 2 * arguments.pairs
    with DevCluster(slots=2) as cluster, tempfile.TemporaryDirectory(prefix="bench-questions-") as directory:
        conf: dict[str, Any] = {
            "topology.workers": 2,
            "topology.max.spout.pending": PENDING,
            "topology.message.timeout.secs": 600,
        }
        if arguments.stored:
            stored = {"directory": f"{directory}/states"}
            conf |= {"topology.state.provider": "sqlite", "topology.state.provider.config": stored}
        run = Run(NAME, topology(directory, windows + 1), conf, directory, 1, (), 0)
        cluster.client.submit(run.name, run.topology, run.conf)
        wait_told(cluster, run, ["source-0-opened"], START_S)
        wait_until(lambda: len(_workers(cluster)) == 2, START_S, what="both workers run")
        tell(directory, GO, {})
        wait_told(cluster, run, ["warm"], START_S)
        time.sleep(WARM_S)
        with asking({**cluster.conf, **conf}, arguments) as ask:
            wait_until(lambda: ask("word0").entries, START_S, what="a checkpoint has values")
            result = Turns(cluster, directory, ask, arguments).run(windows)
        end(cluster, run.name)
    return result


class Turns:
    """The windows of a measurement."""

    def __init__(self, cluster: DevCluster, directory: str, ask: Ask, arguments: argparse.Namespace) -> None:
        self._cluster, self._directory, self._ask, self._arguments = cluster, directory, ask, arguments
        self._latencies_s: list[float] = []

    def run(self, windows: int) -> dict[str, Any]:
        """Run the windows and compare those with questions with those without."""
        rates: dict[bool, list[float]] = {False: [], True: []}
        costs: dict[bool, list[float]] = {False: [], True: []}
        [before] = ask(self._directory, "bound-0", 1)
        for window in range(windows):
            use = Use({"worker": _workers(self._cluster)})
            self._pass(is_with(window))
            [after] = ask(self._directory, f"bound-{window + 1}", 1)
            use.stop()
            words = (after["acked"] - before["acked"]) * WORDS
            if not words or after["failed"]:
                raise WrongResultError(f"{words:.0f} words were counted, and {after['failed']} sentences failed")
            rates[is_with(window)].append(words / (after["at_s"] - before["at_s"]))
            costs[is_with(window)].append(1e6 * use.cpu_s["worker"] / words)
            before = after
        latencies_s = sorted(self._latencies_s)
        return {
            "ratio": _ratio(rates),
            "ratio_worker_cpu": _ratio(costs),
            "words_per_s": round(median(rates[True])),
            "words_per_s_without": round(median(rates[False])),
            "worker_cpu_us_per_word": round(median(costs[True]), 3),
            "questions": len(latencies_s),
            "p50_ms": round(1000 * latencies_s[len(latencies_s) // 2], 2),
            "p99_ms": round(1000 * latencies_s[len(latencies_s) * 99 // 100], 2),
        }

    def _pass(self, is_asked: bool) -> None:
        """Let a window pass."""
        if not is_asked:
            time.sleep(self._arguments.seconds)
            return
        stopped, given = threading.Event(), self._arguments
        askers = [Asker(self._ask, given.rate / ASKERS, first, stopped) for first in range(ASKERS)]
        for one in askers:
            one.start()
        time.sleep(given.seconds)
        stopped.set()
        for one in askers:
            one.join()
        answers, missing = sum(len(one.latencies_s) for one in askers), sum(one.missing for one in askers)
        if missing or answers < 0.9 * given.rate * given.seconds:
            raise WrongResultError(f"{answers} answers in {given.seconds} s, {missing} of them without a value")
        self._latencies_s += [latency_s for one in askers for latency_s in one.latencies_s]


def _ratio(figures: Mapping[bool, list[float]]) -> float:
    return round(median(one / other for one, other in zip(figures[True], figures[False], strict=True)), 4)


def _workers(cluster: DevCluster) -> list[int]:
    return [one.pid for one in cluster.processes if one.role == "worker"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--rate", type=float, default=100, help="questions a second (%(default)s)")
    parser.add_argument("--pairs", type=int, default=8, help="windows with questions, and without (%(default)s)")
    parser.add_argument("--seconds", type=float, default=4, help="of a window (%(default)s)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--live", action="store_true", help="ask for the values of the moment")
    kind.add_argument("--stored", action="store_true", help="read the store itself")


if __name__ == "__main__":
    sys.exit(_cli.run("state_queries", __doc__, add_arguments, measure))
