"""Rate of the tracked word count, on a real cluster of processes on this machine.

    python -m bench.word_count --workers 2 --ackers 1 --sentences 300000 --json

A spout emits sentences of about eight words, each with a message id; split emits a tuple for each word; count counts
them by a fields grouping. The sentences come from a Zipf vocabulary of 10,000 words and are generated before the clock
starts; it starts with the first emit and stops with the last ack. Statistics and back-pressure are on, as always. In
the end the counts must be those of the sentences, else the exit status is 1.

--split says how words are emitted: one by one (plain); by a generator (yield); all of a sentence by one emit_many
(many); or counted for --held sentences by a CombinerBolt before the exchange, and then emitted once per distinct word
(combined). For combined, --pending should be a few times the sentences that all combiners hold: --held 5000
--pending 30000. With pystorm, split and count are those that Storm runs in bench.peers, hosted by PystormBolt. Tracked
sentences are emitted one by one with plain, yield, pystorm and streams, otherwise sixteen at a time. Under full load
the latency of a tree is the number of pending trees divided by the rate, so --pending determines the latency.

With streams the topology is made of a program, flat_map, key_by and count, whose updates reach a function, each of
them. In streams-combined words are counted before the exchange too, for up to a thousand sentences. The counts are in
a state in both: --state aligned is the guarantee exactly_once, every other --state is at_least_once.

With --state the counts are a state in memory with a checkpoint per second, and the acks of sentences wait for the
checkpoint: --pending must be more than the sentences of a second, and --sentences several times --pending.

With --secure every connection has TLS, and every call a token.

With --ackers 0 nothing is tracked: then the clock stops when the last word is counted (precise to 50 ms), and no
latency is measured.

``cpu_s`` is the processor time of all workers and ackers from the first emit to the last ack; ``peak_rss_mb`` the sum
of their peak resident sizes; ``p50_ms`` and ``p99_ms`` are from emit to ack under full load, of every sixteenth
sentence.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bench import _cli
from bench._cli import WrongResultError
from bench._flow import Run, drive
from bench._updates import Updates
from bench._words import (
    AddCounts,
    Count,
    CountInState,
    CountWords,
    Sentences,
    Split,
    SplitMany,
    SplitYielding,
    sentences,
    true_counts,
)
from tupletree import BasicBolt, Bolt, Topology, TopologyBuilder
from tupletree.cli.main import main as cli_main
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.config import defaults
from tupletree.streams import StreamBuilder
from tupletree.testing import DevCluster

__all__ = ["measure", "sentences"]


TIMED_EVERY = 16
DIRECTORY = "bench.directory"
"""The key of the directory of reports, for components that are made without arguments."""


class TimedSentences(Sentences):
    """Sentences that also measure the time from emit to ack of each sixteenth."""

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        super().open(conf, context, collector)
        self.emitted_s: dict[int, float] = {}
        self.latencies_s: list[float] = []

    def next_tuple(self) -> None:
        number = self.next
        if number % TIMED_EVERY == 0:
            self.emitted_s[number] = time.perf_counter()
            super().next_tuple()
        elif number < self.count:
            self.next = number + 1
            self.collector.emit(self.rows[number % self.distinct], number)

    def ack(self, msg_id: Any) -> None:
        if msg_id % TIMED_EVERY == 0:
            self.latencies_s.append(time.perf_counter() - self.emitted_s.pop(msg_id))
        self.acked += 1
        if self.acked == self.count:
            self.tell_end()

    def facts(self) -> Mapping[str, Any]:
        latencies_s = sorted(self.latencies_s)
        return {
            "p50_ms": round(1000 * latencies_s[len(latencies_s) // 2], 2),
            "p99_ms": round(1000 * latencies_s[len(latencies_s) * 99 // 100], 2),
        }

    def checkpoint_state(self) -> int:
        return self.next

    def restore_state(self, state: Any) -> None:
        self.next = state


class BlocksOfSentences(TimedSentences):
    """Same as TimedSentences, but with ``TIMED_EVERY`` sentences per call."""

    def next_tuple(self) -> None:
        number, at = self.next, self.next % self.distinct
        if number % TIMED_EVERY or number == 0 or max(number - self.count, at - self.distinct) > -TIMED_EVERY:
            super().next_tuple()
            return
        self.emitted_s[number] = time.perf_counter()
        self.next = number + TIMED_EVERY
        self.collector.emit_many(self.rows[at : at + TIMED_EVERY], range(number, self.next))


def topology(arguments: argparse.Namespace, directory: str) -> Topology:
    """Return the topology of spouts, split and count. Spouts share the sentences."""
    builder, tasks = TopologyBuilder(), tasks_of(arguments)
    spout: type[Sentences] = TimedSentences if arguments.ackers else Sentences
    if arguments.ackers and arguments.split not in ("plain", "yield", "pystorm", "streams"):
        spout = BlocksOfSentences
    source = spout(directory, arguments.sentences // arguments.spouts)
    if arguments.split.startswith("streams"):
        return streams(source, arguments, directory)
    if arguments.split == "pystorm":
        from bench import _pystorm_words  # pystorm is not installed with the library

        return _pystorm_words.topology(source, arguments.spouts, tasks)
    builder.set_spout("sentences", source, arguments.spouts)
    kinds: dict[str, Callable[[], Bolt | BasicBolt]] = {
        "plain": Split,
        "yield": SplitYielding,
        "many": SplitMany,
        "combined": partial(CountWords, arguments.held),
    }
    split = builder.set_bolt("split", kinds[arguments.split](), tasks)
    # With a spout in each worker, sentences stay where they are, and only words are exchanged.
    (split.local_or_shuffle_grouping if arguments.spouts > 1 else split.shuffle_grouping)("sentences")
    count: Callable[[str], Bolt | BasicBolt] = AddCounts if arguments.split == "combined" else Count
    if arguments.state != "none":
        count = CountInState
    builder.set_bolt("count", count(directory), tasks).fields_grouping("split", ["word"])
    return builder.create_topology()


def tasks_of(arguments: argparse.Namespace) -> int:
    """Return the number of tasks of each bolt."""
    return int(arguments.tasks or arguments.workers)


def streams(spout: Sentences, arguments: argparse.Namespace, directory: str) -> Topology:
    """Return the same as a program of streams."""
    builder = StreamBuilder(parallelism=tasks_of(arguments))
    sentences = builder.source(spout, name="sentences", parallelism=arguments.spouts)
    words = sentences.flat_map(str.split).key_by(lambda word: word)
    words.count(combine=arguments.split == "streams-combined", name="count").items().peek(Updates(directory))
    return builder.topology("exactly_once" if arguments.state == "aligned" else "at_least_once")


def measure_on(cluster: DevCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a cluster with enough slots and ackers, and return the metrics.

    Raises:
        WrongResultError: the counts are not those of the sentences.
    """
    share = true_counts(arguments.sentences // arguments.spouts)
    truth = Counter({word: arguments.spouts * count for word, count in share.items()})
    conf = {
        "topology.workers": arguments.workers,
        "topology.acker.executors": arguments.ackers,
        "topology.max.spout.pending": arguments.pending,
        "topology.state.checkpoint.aligned": arguments.state == "aligned",
    }
    sinks = [f"count-{index}" for index in range(tasks_of(arguments))]
    with tempfile.TemporaryDirectory(prefix="bench-words-") as directory:
        conf |= {DIRECTORY: directory}
        flow = drive(
            cluster,
            Run(
                "word-count",
                topology(arguments, directory),
                conf,
                directory,
                arguments.spouts,
                sinks,
                truth.total(),
                arguments.ackers > 0,
                arguments.timeout,
            ),
        )
    counted: Counter[str] = Counter()
    for sink in flow.sinks:
        counted.update(sink["facts"])
    if counted != truth:
        raise WrongResultError("the word counts differ from those of the sentences")
    latencies = {name: value for name, value in flow.sources[0].items() if name.endswith("_ms")}
    return {
        "sentences_per_s": round(arguments.sentences / flow.wall_s),
        **flow.figures(truth.total(), "word"),
        "acked": arguments.sentences if arguments.ackers else 0,
        "failed": 0,
        **latencies,
    }


def secure_conf(directory: str) -> dict[str, Any]:
    """Return the configuration of TLS and tokens for a cluster, with files made in ``directory``."""
    from tupletree._security.current import daemon_keyring

    if cli_main(["certs", directory]) != 0:
        raise RuntimeError(f"no certificates could be made in {directory}")
    files = {"tls.ca": "ca.crt", "tls.cert": "cluster.crt", "tls.key": "cluster.key", "security.secret.file": "secret"}
    conf: dict[str, Any] = {key: os.path.join(directory, name) for key, name in files.items()}
    conf["security.tokens"] = True
    operator = daemon_keyring({**defaults(), **conf}).issue("bench", "user", roles=frozenset({"admin"}))
    return {**conf, "security.token": operator}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    if arguments.pure:
        os.environ["TUPLETREE_PURE"] = "1"  # for the processes of the cluster
    with tempfile.TemporaryDirectory(prefix="bench-tls-") as directory:
        conf = secure_conf(directory) if arguments.secure else {}
        with DevCluster(slots=max(1, arguments.workers), ackers=max(1, arguments.ackers), conf=conf) as cluster:
            return measure_on(cluster, arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=0, help="tasks of split and of count; 0: one per worker")
    parser.add_argument(
        "--spouts", type=int, default=1, help="spout tasks; must divide the number of sentences (%(default)s)"
    )
    parser.add_argument("--ackers", type=int, default=1, help="0: not tracked")
    parser.add_argument("--sentences", type=int, default=300_000)
    parser.add_argument("--pending", type=int, default=6_000, help="topology.max.spout.pending (%(default)s)")
    parser.add_argument(
        "--split",
        choices=("plain", "yield", "many", "combined", "pystorm", "streams", "streams-combined"),
        default="plain",
        help="how words are emitted (%(default)s)",
    )
    parser.add_argument("--held", type=int, default=200, help="sentences per combiner (%(default)s)")
    parser.add_argument("--state", choices=("none", "default", "aligned"), default="none", help="state of count")
    parser.add_argument("--secure", action="store_true", help="with TLS and tokens, as 'tupletree certs' makes them")
    parser.add_argument("--pure", action="store_true", help="plain Python, even where the hot path was compiled")
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which the run fails (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("word_count", __doc__, add_arguments, measure))
