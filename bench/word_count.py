"""How many words a second: the tracked word count, on a real cluster of processes on this machine.

    python -m bench.word_count --workers 2 --ackers 1 --sentences 300000 --json

A spout emits sentences of about eight words, each with a message id; split emits a tuple for each word; count counts
them by a fields grouping. The sentences come from a Zipf vocabulary of 10,000 words and are generated before the clock
starts; it starts with the first emit and stops with the last ack. Statistics and back-pressure are on, as always.

``cpu_s`` is the processor time of all workers and ackers from the first emit to the last ack; ``peak_rss_mb`` the sum
of their highest resident sizes; ``p50_ms`` and ``p99_ms`` are from emit to ack under that load.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench._record import record
from tupletree import BasicBolt, Spout, Topology, TopologyBuilder
from tupletree.component import BasicCollector, SpoutCollector, TopologyContext
from tupletree.testing import DevCluster, wait_until
from tupletree.tuples import Tuple

VOCABULARY = 10_000
WORDS_A_SENTENCE = 8
DISTINCT_SENTENCES = 20_000
SEED = 20_260_101


def sentences(count: int, seed: int = SEED) -> list[str]:
    """Sentences of six to ten words, the rank of each word drawn by Zipf's law."""
    rng = random.Random(seed)
    words = [f"word{rank}" for rank in range(VOCABULARY)]
    weights = [1 / (rank + 1) for rank in range(VOCABULARY)]
    half = WORDS_A_SENTENCE - 6
    lengths = [WORDS_A_SENTENCE + rng.randint(-half, half) for _ in range(count)]
    drawn = iter(rng.choices(words, weights, k=sum(lengths)))
    return [" ".join(next(drawn) for _ in range(length)) for length in lengths]


class Sentences(Spout):
    """Emits a number of tracked sentences, then writes down how long they took."""

    outputs = ("sentence",)

    def __init__(self, count: int, directory: str) -> None:
        self.count = count
        self.directory = directory

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.sentences = sentences(min(DISTINCT_SENTENCES, self.count))
        self.lengths = [len(sentence.split()) for sentence in self.sentences]
        self.next = 0
        self.words = 0
        self.failed = 0
        self.emitted_s: dict[int, float] = {}
        self.latencies_s: list[float] = []

    def next_tuple(self) -> None:
        if self.next >= self.count:
            return
        if self.next == 0:
            self.write("started", {})
            self.started_s = time.perf_counter()
        self.emit(self.next)
        self.next += 1

    def emit(self, number: int) -> None:
        """Emit one sentence, for the first time or again."""
        self.emitted_s[number] = time.perf_counter()
        self.collector.emit([self.sentences[number % len(self.sentences)]], number)

    def ack(self, msg_id: Any) -> None:
        self.latencies_s.append(time.perf_counter() - self.emitted_s.pop(msg_id))
        self.words += self.lengths[msg_id % len(self.lengths)]
        if len(self.latencies_s) == self.count:
            elapsed_s = time.perf_counter() - self.started_s
            self.latencies_s.sort()
            self.write(
                "result",
                {
                    "sentences_per_s": round(self.count / elapsed_s),
                    "words_per_s": round(self.words / elapsed_s),
                    "acked": self.count,
                    "failed": self.failed,
                    "p50_ms": round(1000 * self.latencies_s[self.count // 2], 2),
                    "p99_ms": round(1000 * self.latencies_s[self.count * 99 // 100], 2),
                },
            )

    def fail(self, msg_id: Any) -> None:
        self.failed += 1
        self.emit(msg_id)

    def write(self, name: str, facts: Mapping[str, Any]) -> None:
        """Tell the benchmark, which waits for the file."""
        partial = Path(self.directory, f"{name}.partial")
        partial.write_text(json.dumps(facts))
        partial.rename(Path(self.directory, name))


class Split(BasicBolt):
    """A tuple for each word."""

    outputs = ("word",)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        for word in tup["sentence"].split():
            collector.emit([word])


class Count(BasicBolt):
    """Counts words."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.counts: dict[str, int] = {}

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        word = tup["word"]
        self.counts[word] = self.counts.get(word, 0) + 1


def topology(count: int, directory: str, workers: int) -> Topology:
    """Spout, split and count, the bolts once in each worker."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences(count, directory))
    builder.set_bolt("split", Split(), workers).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(), workers).fields_grouping("split", ["word"])
    return builder.create_topology()


def cpu_s(pids: list[int]) -> float:
    """Processor time that processes have used so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_rss_mb(pids: list[int]) -> float:
    """The highest resident sizes of processes, summed."""
    kilobytes = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        kilobytes += int(status.partition("VmHWM:")[2].split()[0])
    return kilobytes / 1024


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """One run on a fresh cluster."""
    conf = {
        "topology.workers": arguments.workers,
        "topology.acker.executors": arguments.ackers,
        "topology.max.spout.pending": arguments.pending,
    }
    with (
        tempfile.TemporaryDirectory() as directory,
        DevCluster(slots=max(1, arguments.workers), ackers=max(1, arguments.ackers)) as cluster,
    ):
        cluster.client.submit("word-count", topology(arguments.sentences, directory, arguments.workers), conf)
        wait_until(lambda: Path(directory, "started").exists(), 60, what="the first emit")
        pids = [process.pid for process in cluster.processes if process.role in ("worker", "acker")]
        before_s = cpu_s(pids)
        wait_until(lambda: Path(directory, "result").exists(), arguments.timeout, what="the last ack")
        used_s = cpu_s(pids) - before_s
        result: dict[str, Any] = json.loads(Path(directory, "result").read_text())
        return {**result, "cpu_s": round(used_s, 2), "peak_rss_mb": round(peak_rss_mb(pids))}


def main() -> int:
    """Measure, print, and record with ``--record``."""
    parser = argparse.ArgumentParser(description="Words a second of the tracked word count.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ackers", type=int, default=1, help="0: not tracked, and nothing to measure by")
    parser.add_argument("--sentences", type=int, default=300_000)
    parser.add_argument("--pending", type=int, default=2_000, help="topology.max.spout.pending")
    parser.add_argument("--timeout", type=float, default=300, help="seconds to give up after")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--record", action="store_true", help="keep the result in bench/results/")
    arguments = parser.parse_args()
    result = measure(arguments)
    if arguments.record:
        config = {name: getattr(arguments, name) for name in ("workers", "ackers", "sentences", "pending")}
        record("word_count", config, result)
    if arguments.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:>16}  {value:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
