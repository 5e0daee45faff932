"""Measures a topology while it runs steadily, for as long as the bench wants: its cost does not depend on its start.

    bench                                    spout                              sinks
      | -- submit -------------------------> | opens
      |    reads processor times of idle workers
      | -- "go" ---------------------------> | emits without end
      | <----------------- "warm" ---------- | enough trees are acked
      | -- "begin" ------------------------> | tells how many are acked
      |    reads processor times
      | -- "end" --------------------------> | tells how many are acked, and latencies between
      |    reads processor times
      | -- "stop" -------------------------> | emits no more
      | <----------------- its end --------- | all are acked
      | -- "report" ------------------------------------------------------------> | tell what they counted
      |    compares that with the truth

They communicate by files in one directory, as in bench._flow. One thread per process looks for the questions, so that
hundreds of tasks in a process cost no more than one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from bench._cli import WrongResultError
from bench._flow import GO, Flow, Run, Source, Use, end, tell, told, wait_told
from bench._processes import peak_rss_mb
from tupletree import BasicBolt, Topology
from tupletree.component import BasicCollector, SpoutCollector, TopologyContext
from tupletree.testing import DevCluster, wait_until
from tupletree.tuples import Tuple

TIMED_EVERY: Final = 16
LOOK_S: Final = 0.05
TICK_NS: Final = 1_000_000_000  # changes within one tick of the file system have the same time
START_S: Final = 120.0
ANSWER_S: Final = 60.0
Facts = Mapping[str, float]


class Watch(threading.Thread):
    """Answers the questions of the bench in one process: the sum of the answers of its tasks, once per question."""

    of_directory: ClassVar[dict[str, Watch]] = {}

    def __init__(self, directory: str) -> None:
        super().__init__(daemon=True)
        self.directory = directory
        self.answers: dict[str, list[Callable[[], Facts]]] = {}

    @classmethod
    def when(cls, directory: str, question: str, answer: Callable[[], Facts]) -> None:
        """Let a task answer a question. Call it before the bench may ask."""
        watch = cls.of_directory.get(directory)
        if watch is None:
            watch = cls.of_directory[directory] = cls(directory)
            watch.answers[question] = [answer]
            watch.start()
        else:
            watch.answers.setdefault(question, []).append(answer)

    def run(self) -> None:
        done: set[str] = set()
        seen_ns = 0
        while True:
            time.sleep(LOOK_S)
            changed_ns = os.stat(self.directory).st_mtime_ns  # one call, as each interrupts the run loop
            if changed_ns == seen_ns and time.time_ns() - changed_ns > TICK_NS:
                continue
            seen_ns = changed_ns
            for question, answers in list(self.answers.items()):
                if question not in done and Path(self.directory, question).exists():
                    done.add(question)
                    total: Counter[str] = Counter()
                    for answer in answers:
                        total.update(answer())
                    tell(self.directory, f"{question}-{os.getpid()}", total)


class Endless(Source):
    """Emits tracked rows from "go" until "stop". Tells "warm" once ``warm`` trees are acked."""

    def __init__(self, directory: str, warm: int) -> None:
        super().__init__(directory, sys.maxsize)
        self.warm = warm

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.emitted_s: dict[int, float] = {}
        self.latencies_s: list[float] = []
        self.is_warm = self.is_stopping = False
        for question, answer in (("begin", self.begin), ("end", self.measured), ("stop", self.stop)):
            Watch.when(self.directory, question, answer)
        super().open(conf, context, collector)

    def next_tuple(self) -> None:
        number = self.next
        if number % TIMED_EVERY == 0:
            if self.is_stopping:
                self.finish(number)
            if number == self.count or (number == 0 and not self.may_start()):
                return
            self.emitted_s[number] = time.perf_counter()
        self.next = number + 1
        self.collector.emit(self.rows[number % self.distinct], number)

    def ack(self, msg_id: Any) -> None:
        self.acked += 1
        if msg_id % TIMED_EVERY == 0:
            self.latencies_s.append(time.perf_counter() - self.emitted_s.pop(msg_id))
            if not self.is_warm and self.acked >= self.warm:
                self.is_warm = True
                tell(self.directory, "warm", {})
        if self.acked == self.count:
            self.tell_end()

    def finish(self, number: int) -> None:
        """Emit ``number`` tuples in all."""
        if self.count == sys.maxsize:
            self.count = number
            if self.acked == number:
                self.tell_end()

    def facts(self) -> Mapping[str, Any]:
        return {"emitted": self.next}

    def begin(self) -> Facts:
        """Begin to measure."""
        self.latencies_s.clear()
        return {"acked": self.acked, "at_s": time.perf_counter()}

    def measured(self) -> Facts:
        """Return where the measurement ends, and the latencies since its begin."""
        acked, at_s, latencies_s = self.acked, time.perf_counter(), sorted(self.latencies_s)
        ranks = {"p50_ms": 50, "p99_ms": 99} if latencies_s else {}
        shares = {name: round(1000 * latencies_s[len(latencies_s) * rank // 100], 2) for name, rank in ranks.items()}
        return {"acked": acked, "at_s": at_s, "failed": self.failed, **shares}

    def stop(self) -> Facts:
        """Emit no more."""
        self.is_stopping = True
        return {}


class Sink(BasicBolt):
    """Counts tuples. Subclasses report what else they find."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.executed = 0
        Watch.when(self.directory, "report", self.report)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.executed += 1

    def report(self) -> Facts:
        """Return what this task counted, to be added to what others did."""
        return {"executed": self.executed}


@dataclass(frozen=True)
class Shape:
    """A topology to measure: how it is built in a directory, where it runs, and what is right.

    ``items`` is the number of items of a tuple of the spout, such as the words of a sentence. ``truth`` returns what
    the sinks must have counted of a number of tuples; None: the tuples that they still hold are not waited for.
    """

    item: str
    items: float
    build: Callable[[str], Topology]
    truth: Callable[[int], Facts] | None
    workers: int = 2
    pending: int = 6_000
    conf: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Times:
    """The seconds to look at idle workers, to run before the measurement, and to measure; the limit of other steps."""

    idle_s: float = 1.0
    warm_s: float = 2.0
    seconds: float = 5.0
    timeout_s: float = 300.0


def measure(cluster: DevCluster, shape: Shape, times: Times) -> dict[str, Any]:
    """Run a topology once and return its figures.

    Raises:
        WrongResultError: tuples failed, or the sinks counted wrong.
        TimeoutError: a step did not end.
    """
    conf = {
        "topology.workers": shape.workers,
        "topology.acker.executors": 1,
        "topology.max.spout.pending": shape.pending,
        "topology.message.timeout.secs": 600,
        **shape.conf,
    }
    with tempfile.TemporaryDirectory(prefix="bench-growth-") as directory:
        run = Run("growth", shape.build(directory), conf, directory, 1, (), 0)
        cluster.client.submit(run.name, run.topology, run.conf)
        try:
            flow, before, after = _measured(cluster, run, shape, times)
            if shape.truth is not None:
                tell(directory, "stop", {})
                wait_told(cluster, run, ["source-0"], times.timeout_s)
                check(directory, shape.truth(told(directory, "source-0")["emitted"]), times.timeout_s)
            errors = [error.message for error in cluster.client.describe(run.name).errors]
        finally:
            end(cluster, run.name)
    if after["failed"] or errors:
        raise WrongResultError(f"{after['failed']} tuples failed; errors: {errors}")
    items = round((after["acked"] - before["acked"]) * shape.items)
    if not items:
        raise WrongResultError(f"no tuple was acked in {flow.wall_s:.1f} s")
    also = {name: after[name] for name in ("idle_cores", "p50_ms", "p99_ms") if name in after}
    return {**flow.figures(items, shape.item), **also}


def _measured(cluster: DevCluster, run: Run, shape: Shape, times: Times) -> tuple[Flow, Facts, Facts]:
    """Let the topology run, and return what was used, and the source's facts, between "begin" and "end"."""
    pids: dict[str, Sequence[int]] = {}

    def all_run() -> bool:
        found = cluster.processes
        pids.update({role: [one.pid for one in found if one.role == role] for role in ("worker", "acker")})
        return len(pids["worker"]) == shape.workers

    wait_told(cluster, run, ["source-0-opened"], START_S)
    wait_until(all_run, START_S, what="all workers run")
    idle = Use(pids)
    time.sleep(times.idle_s)
    idle.stop()
    tell(run.directory, GO, {})
    wait_told(cluster, run, ["warm"], times.timeout_s)
    time.sleep(times.warm_s)
    [before] = ask(run.directory, "begin", 1)
    use = Use(pids)
    time.sleep(times.seconds)
    [after] = ask(run.directory, "end", 1)
    use.stop()
    sizes = {role: peak_rss_mb(of_role) for role, of_role in pids.items()}
    flow = Flow(before["at_s"], after["at_s"], (), (), use.cpu_s, sizes, use.others_cores)
    return flow, before, {**after, "idle_cores": round(sum(idle.cpu_s.values()) / times.idle_s, 2)}


def ask(directory: str, question: str, answers: int) -> list[Facts]:
    """Ask, and return the answers of so many processes."""
    tell(directory, question, {})
    wait_until(lambda: len(_answers(directory, question)) >= answers, ANSWER_S, what=f"{question} is answered")
    return _answers(directory, question)


def check(directory: str, truth: Facts, timeout_s: float) -> None:
    """Compare what the sinks counted with the truth.

    Raises:
        WrongResultError: they counted something else.
    """
    tell(directory, "report", {})
    counted: Counter[str] = Counter()

    def is_right() -> bool:
        counted.clear()
        for answer in _answers(directory, "report"):
            counted.update(answer)
        return counted == truth

    try:
        wait_until(is_right, timeout_s, what="the sinks have counted all")
    except TimeoutError:
        wrong = sorted(name for name in {*counted, *truth} if counted[name] != truth.get(name, 0))
        told_of = ", ".join(f"{name} {counted[name]:,}, not {truth.get(name, 0):,}" for name in wrong[:3])
        raise WrongResultError(f"the sinks counted {told_of}") from None


def _answers(directory: str, question: str) -> list[Facts]:
    paths = [path for path in Path(directory).glob(f"{question}-*") if path.suffix != ".partial"]
    return [json.loads(path.read_text()) for path in paths]
