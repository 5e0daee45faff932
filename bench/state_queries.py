"""Questions to a state under full load: what they change in the throughput of the topology that keeps the state.

    python -m bench.state_queries --rate 100 --pairs 100 --seconds 1 --json
    python -m bench.state_queries --live --rate 100
    python -m bench.state_queries --stored --rate 100
    python -m bench.state_queries --echo --rate 100

The word count with its counts in a state runs without end. Windows of --seconds with questions and without follow each
other in pairs, in a random order within a pair; the first --settle seconds of a window are not counted. This
process asks for a word, --rate times a second, for committed values, or with --live for those of the moment, or with
--stored it reads the committed values from the store itself, SQLite files, by StoredStates. The bolt says that its keys
are those of the grouping, so a client asks the worker of the word's only task. With --echo it asks another process for
the word, by bare sockets: no question that leaves its process can cost less here.

A machine's speed changes by more than what questions cost, but not much within a second or two: ``ratio`` is the
geometric mean, over pairs of windows, of the throughput with questions to that without; 95% of the means of as many
pairs drawn again from these lie between ``ratio_low`` and ``ratio_high``. This process asks on the processors that the
workers use. What it takes from them, ``client_cpu_ms`` a question, is part of ``ratio``. It is no part of
``worker_ratio``, that of the words counted in a second of the workers' processor time. Every answer must have a value.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from statistics import mean, median
from typing import Any, Final, TypeVar

from bench import _cli
from bench._cli import WrongResultError
from bench._echo import echoed, echoing
from bench._flow import GO, Run, end, tell, told, wait_told
from bench._processes import precise_cpu_s
from bench._words import CountInState, Split
from bench.growth.shapes import BEYOND, EndlessSentences
from bench.growth.steady import ANSWER_S, START_S, Facts, Watch
from tupletree import Topology, TopologyBuilder
from tupletree.client import StateClient, StoredStates
from tupletree.component import BoltCollector, TopologyContext
from tupletree.testing import DevCluster, wait_until

NAME: Final = "questions"
ASKED_WORDS: Final = 100  # the most frequent ones: each is counted before the first window
TASKS: Final = 2
PENDING: Final = 200_000
ASKER_RATE: Final = 50  # questions a second of one thread, which waits for each answer
WARM_S: Final = 3.0
NOTE_S: Final = 0.05
RESAMPLES: Final = 2_000
LEAST: Final = 0.85  # of the questions: those that are due late in a window may be kept waiting beyond its end

Timeline = list[tuple[float, int]]
"""Times, by time.perf_counter, with the numbers of words counted until then."""
Ask = Callable[[str], bool]
"""Asks for a word; returns False if the answer has no value."""
T = TypeVar("T")


@contextmanager
def asking(conf: Mapping[str, Any], arguments: argparse.Namespace) -> Iterator[Ask]:
    """Yield what asks for a word."""
    threads = math.ceil(arguments.rate / ASKER_RATE)
    if arguments.stored:
        with ExitStack() as stack:
            stored = [stack.enter_context(StoredStates(conf)) for _ in range(threads)]
            yield _by_one_of(stored, lambda one, word: bool(one.get(NAME, "count", word).entries))
    elif arguments.echo:
        with echoing(threads) as connections:
            yield _by_one_of(connections, echoed)
    else:
        with StateClient(conf=conf) as client:
            yield lambda word: bool(client.get(NAME, "count", word, live=arguments.live).entries)


def _by_one_of(givers: Iterable[T], call: Callable[[T, str], bool]) -> Ask:
    """Return what asks by one of these, each of which is one thread's at a time."""
    free: SimpleQueue[T] = SimpleQueue()
    for one in givers:
        free.put(one)

    def ask(word: str) -> bool:
        giver = free.get()
        try:
            return call(giver, word)
        finally:
            free.put(giver)

    return ask


class Count(CountInState):
    """Counts words, and notes twenty times a second how many; tells that when it is asked for "timeline".

    Acks come with a checkpoint, all at once: they would show its times instead.
    """

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        super().prepare(conf, context, collector)
        self.name = f"timeline-{context.task_index}"
        self.timeline: Timeline = []
        Watch.when(self.directory, "timeline", self.tell_timeline)
        threading.Thread(target=self.note, daemon=True).start()

    def note(self) -> None:
        """Note how many words are counted, without end."""
        while True:
            self.timeline.append((time.perf_counter(), self.total))
            time.sleep(NOTE_S)

    def tell_timeline(self) -> Facts:
        """Tell the times with their numbers of words."""
        tell(self.directory, self.name, self.timeline)
        return {}


def topology(directory: str) -> Topology:
    """Return the word count with a state."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", EndlessSentences(directory, BEYOND))
    builder.set_bolt("split", Split(), 2).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(directory), TASKS).fields_grouping("split", ["word"])
    return builder.create_topology()


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with DevCluster(slots=2) as cluster, tempfile.TemporaryDirectory(prefix="bench-questions-") as directory:
        conf: dict[str, Any] = {
            "topology.workers": 2,
            "topology.max.spout.pending": PENDING,
            "topology.message.timeout.secs": 600,
        }
        if arguments.stored:
            stored = {"directory": f"{directory}/states"}
            conf |= {"topology.state.provider": "sqlite", "topology.state.provider.config": stored}
        run = Run(NAME, topology(directory), conf, directory, 1, (), 0)
        cluster.client.submit(run.name, run.topology, run.conf)
        wait_told(cluster, run, ["source-0-opened"], START_S)
        wait_until(lambda: len(_workers(cluster)) == 2, START_S, what="both workers run")
        tell(directory, GO, {})
        wait_told(cluster, run, ["warm"], START_S)
        time.sleep(WARM_S)
        with asking({**cluster.conf, **conf}, arguments) as ask:
            wait_until(lambda: ask("word0"), START_S, what="a checkpoint has values")
            windows = Windows(ask, _workers(cluster), arguments)
            windows.pass_all()
        names = [f"timeline-{index}" for index in range(TASKS)]
        tell(directory, "timeline", {})
        wait_told(cluster, run, names, ANSWER_S)
        timelines = [told(directory, name) for name in names]
        end(cluster, run.name)
    return windows.figures(timelines)


class Asker(threading.Thread):
    """Asks for a word at each of some times, until an end: what is kept waiting by the question before follows at once.

    Counts answers without a value. Latencies are from the times at which a question was due.
    """

    def __init__(self, ask: Ask, due_s: Sequence[float], ended_s: float) -> None:
        super().__init__(daemon=True)
        self._ask, self._due_s, self._ended_s = ask, due_s, ended_s
        self.latencies_s: list[float] = []
        self.missing = 0

    def run(self) -> None:
        for number, due_s in enumerate(self._due_s):
            time.sleep(max(0.0, due_s - time.perf_counter()))
            if time.perf_counter() > self._ended_s:
                break
            self.missing += not self._ask(f"word{number % ASKED_WORDS}")
            self.latencies_s.append(time.perf_counter() - due_s)


@dataclass(frozen=True)
class Window:
    """A window: whether questions are asked, its bounds, and the processor time of the workers between them."""

    is_asked: bool
    began_s: float
    ended_s: float
    worker_cpu_s: float


class Windows:
    """The windows of a measurement. ``workers``: the ids of their processes."""

    def __init__(self, ask: Ask, workers: Sequence[int], arguments: argparse.Namespace) -> None:
        self._ask, self._workers, self._arguments = ask, workers, arguments
        self._passed: list[Window] = []
        self._latencies_s: list[float] = []
        self._cpu_s: dict[bool, float] = {False: 0.0, True: 0.0}  # of this process, by whether questions are asked

    def pass_all(self) -> None:
        """Let all pairs of windows pass."""
        chance = random.Random(self._arguments.seed)
        for _ in range(self._arguments.pairs):
            order = [False, True]
            chance.shuffle(order)
            for is_asked in order:
                self._pass(is_asked)

    def _pass(self, is_asked: bool) -> None:
        """Let a window pass."""
        cpu_s, given = time.process_time(), self._arguments
        self._ask_for(given.settle, is_asked)
        began_s, worker_cpu_s = time.perf_counter(), precise_cpu_s(self._workers)
        self._ask_for(given.seconds - given.settle, is_asked)
        used_s = precise_cpu_s(self._workers) - worker_cpu_s
        self._passed.append(Window(is_asked, began_s, time.perf_counter(), used_s))
        self._cpu_s[is_asked] += time.process_time() - cpu_s

    def _ask_for(self, seconds: float, is_asked: bool) -> None:
        """Ask for a time, or let it pass."""
        began_s, rate = time.perf_counter(), self._arguments.rate
        number = math.ceil(rate / ASKER_RATE) if is_asked else 0
        due_s = [
            [began_s + asked / rate for asked in range(first, int(rate * seconds), number)] for first in range(number)
        ]
        askers = [Asker(self._ask, of_one, began_s + seconds) for of_one in due_s]
        for one in askers:
            one.start()
        time.sleep(max(0.0, began_s + seconds - time.perf_counter()))
        for one in askers:
            one.join()
        if any(one.missing for one in askers):
            raise WrongResultError("an answer has no value")
        self._latencies_s += [latency_s for one in askers for latency_s in one.latencies_s]

    def figures(self, timelines: Sequence[Timeline]) -> dict[str, Any]:
        """Compare the windows with questions with those without."""
        given, chance = self._arguments, random.Random(self._arguments.seed)
        latencies_s = sorted(self._latencies_s)
        if len(latencies_s) < LEAST * given.rate * given.seconds * given.pairs:
            raise WrongResultError(f"{len(latencies_s)} questions were answered in all windows: too few")
        words = [sum(_counted(timeline, window) for timeline in timelines) for window in self._passed]
        rates = [count / (window.ended_s - window.began_s) for count, window in zip(words, self._passed, strict=True)]
        per_cpu_s = [count / window.worker_cpu_s for count, window in zip(words, self._passed, strict=True)]
        is_asked = [window.is_asked for window in self._passed]
        return {
            **_ratio("", rates, is_asked, chance),
            **_ratio("worker_", per_cpu_s, is_asked, chance),
            "words_per_s": round(median(rate for rate, asked in zip(rates, is_asked, strict=True) if asked)),
            "words_per_s_without": round(
                median(rate for rate, asked in zip(rates, is_asked, strict=True) if not asked)
            ),
            "client_cpu_ms": round(1000 * (self._cpu_s[True] - self._cpu_s[False]) / len(latencies_s), 3),
            "questions": len(latencies_s),
            "p50_ms": round(1000 * latencies_s[len(latencies_s) // 2], 2),
            "p99_ms": round(1000 * latencies_s[len(latencies_s) * 99 // 100], 2),
        }


def _ratio(name: str, values: Sequence[float], is_asked: Sequence[bool], chance: random.Random) -> dict[str, float]:
    """Return the ratio of the windows with questions to those without, and the bounds of 95% of such ratios (the
    percentile bootstrap)."""
    with_questions = [value for value, asked in zip(values, is_asked, strict=True) if asked]
    without = [value for value, asked in zip(values, is_asked, strict=True) if not asked]
    logarithms = [math.log(one / other) for one, other in zip(with_questions, without, strict=True)]
    means = sorted(mean(chance.choices(logarithms, k=len(logarithms))) for _ in range(RESAMPLES))
    found = {"ratio": mean(logarithms), "ratio_low": means[RESAMPLES // 40], "ratio_high": means[-RESAMPLES // 40]}
    return {name + key: round(math.exp(value), 4) for key, value in found.items()}


def _counted(timeline: Timeline, window: Window) -> float:
    """Return the words counted in a window."""
    return _counted_at(timeline, window.ended_s) - _counted_at(timeline, window.began_s)


def _counted_at(timeline: Timeline, at_s: float) -> float:
    """Return the number of words counted until a time, as if it grew evenly between two notes."""
    after = min(bisect_left(timeline, at_s, key=lambda note: note[0]), len(timeline) - 1)
    (earlier_s, earlier), (later_s, later) = timeline[max(0, after - 1)], timeline[after]
    return earlier + (later - earlier) * (at_s - earlier_s) / max(1e-9, later_s - earlier_s)


def _workers(cluster: DevCluster) -> list[int]:
    return [one.pid for one in cluster.processes if one.role == "worker"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--rate", type=float, default=100, help="questions a second (%(default)s)")
    parser.add_argument("--pairs", type=int, default=100, help="windows with questions, and without (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1, help="of a window (%(default)s)")
    parser.add_argument("--settle", type=float, default=0.25, help="of them, not counted (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the windows (%(default)s)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--live", action="store_true", help="ask for the values of the moment")
    kind.add_argument("--stored", action="store_true", help="read the store itself")
    kind.add_argument("--echo", action="store_true", help="ask a process that sends the words back")


if __name__ == "__main__":
    sys.exit(_cli.run("state_queries", __doc__, add_arguments, measure))
