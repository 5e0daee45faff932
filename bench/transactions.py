"""Rate of transactions on a real cluster of processes on this machine: pipelining, large batches, tiny batches.

    python -m bench.transactions --json

*Pipelining*: one tuple per batch, and a bolt of eight tasks that takes 100 ms per tuple; once with
``topology.max.spout.pending`` 8 and once with 1, on the same cluster. The committer must commit each transaction once,
in order. *Tiny*: one tuple per batch and no work, which leaves the fixed cost of a batch. *Grouped*: the same with a
GroupCommitter and ``--grouped-pending`` batches at a time. Both with the processor time per batch, by process, and the
processors that everything else on the machine took.
*Large*: batches of ``--words`` words, counted by two tasks and added up in an SQLite file by a committer.

All rates are from the first commit to the last, by the times that the committer recorded.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench import _cli
from bench._cli import WrongResultError
from bench._processes import busy_s, cpu_s
from bench._words import sentences
from tupletree import Topology, TopologyContext
from tupletree.attempt import TransactionAttempt
from tupletree.testing import DevCluster, wait_until
from tupletree.transactional import (
    BatchBolt,
    BatchCollector,
    Committer,
    GroupCommitter,
    SqliteDatabase,
    TransactionalMap,
    TransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionCoordinator,
    TransactionEmitter,
)
from tupletree.tuples import Tuple

PENDING: Final = 8
PROCESSING_S: Final = 0.1
DISTINCT_SENTENCES: Final = 2_000
TIMEOUT_S: Final = 300
MEASURED: Final = ("worker", "acker", "zookeeper")


class Numbers(TransactionCoordinator):
    """Begins ``batches`` transactions."""

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.begun = 0

    def is_ready(self) -> bool:
        return self.begun < self.batches

    def initialize_transaction(self, txid: int, previous: Any) -> Any:
        self.begun = txid


class Emitter(TransactionEmitter):
    """Emits the same words in each batch."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
        for word in self.words:
            collector.emit([word])


class Batches(TransactionalSpout):
    """``batches`` batches of ``words`` words, in equal shares from each emitter."""

    outputs = ("word",)

    def __init__(self, batches: int, words: int) -> None:
        self.batches = batches
        self.words = words

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> Numbers:
        return Numbers(self.batches)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> Emitter:
        drawn = [word for sentence in sentences(DISTINCT_SENTENCES) for word in sentence.split()]
        words = (drawn * (self.words // len(drawn) + 1))[: self.words]
        return Emitter(words[context.task_index :: len(context.component_tasks(context.component_id))])


class Slow(BatchBolt):
    """Sleeps for each tuple, and passes it on."""

    outputs = ("word",)
    blocking = True

    def execute(self, tup: Tuple) -> None:
        time.sleep(PROCESSING_S)
        self.collector.emit([tup["word"]])


class PartialCount(BatchBolt):
    """Counts the words of a batch."""

    outputs = ("word", "count")

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: BatchCollector, batch_id: TransactionAttempt
    ) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Tuple) -> None:
        self.counts[tup["word"]] += 1

    def finish_batch(self) -> None:
        self.collector.emit_many(self.counts.items())


class Commits(BatchBolt, Committer):
    """Records each commit, and adds the counts to ``totals`` if there are totals."""

    def __init__(self, path: Path, totals: TransactionalMap | None = None) -> None:
        self.path = path
        self.totals = totals

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: BatchCollector, batch_id: TransactionAttempt
    ) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Tuple) -> None:
        if self.totals is not None:
            self.counts[tup["word"]] += tup["count"]

    def finish_batch(self) -> None:
        if self.totals is not None:
            self.totals.add(self.batch_id, self.counts)
        out = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(out, f"{self.batch_id.txid} {time.time()}\n".encode())
        finally:
            os.close(out)


class GroupedCommits(Commits, GroupCommitter):
    """The same for transactions that commit in groups."""


def slow(batches: int, path: Path) -> Topology:
    """spout → slow → commits."""
    builder = TransactionalTopologyBuilder(path.name, "spout", Batches(batches, 1))
    builder.set_bolt("slow", Slow(), PENDING).shuffle_grouping("spout")
    builder.set_bolt("commits", Commits(path)).global_grouping("slow")
    return builder.create_topology()


def tiny(batches: int, commits: Commits) -> Topology:
    """spout → commits."""
    builder = TransactionalTopologyBuilder(commits.path.name, "spout", Batches(batches, 1))
    builder.set_bolt("commits", commits).global_grouping("spout")
    return builder.create_topology()


def large(batches: int, words: int, path: Path) -> Topology:
    """spout → partial → commits, with two emitters and two counting tasks."""
    builder = TransactionalTopologyBuilder(path.name, "spout", Batches(batches, words), 2)
    builder.set_bolt("partial", PartialCount(), 2).fields_grouping("spout", ["word"])
    totals = TransactionalMap(SqliteDatabase(path.with_suffix(".db")), "totals")
    builder.set_bolt("commits", Commits(path, totals)).global_grouping("partial")
    return builder.create_topology()


def run(cluster: DevCluster, topology: Topology, path: Path, batches: int, pending: int) -> dict[str, Any]:
    """Run a topology until it has committed all its batches; return the metrics of its commits."""
    conf = {"topology.max.spout.pending": pending, "topology.workers": 1}
    cluster.client.submit(path.name, topology, conf)
    wait_until(lambda: count(path) > 0, TIMEOUT_S, what=f"{path.name}: a commit")
    use = Use(cluster, count(path))
    wait_until(lambda: count(path) >= batches, TIMEOUT_S, what=f"{path.name}: {batches} commits")
    costs = use.per_batch(batches)
    written = commits(path)
    cluster.client.kill(path.name, wait_secs=0)
    wait_until(lambda: not [p for p in cluster.processes if p.role == "worker"], 60, what="the worker ends")
    return {
        "batches_per_s": (batches - 1) / (written[-1][1] - written[0][1]),
        "costs": costs,
        "in_order": [txid for txid, _ in written] == list(range(1, batches + 1)),
    }


class Use:
    """The processor time that a run takes from now on. ``begun``: number of batches committed so far."""

    def __init__(self, cluster: DevCluster, begun: int) -> None:
        self._begun = begun
        self._pids = {role: [one.pid for one in cluster.processes if one.role == role] for role in MEASURED}
        self._used_s = {role: cpu_s(pids) for role, pids in self._pids.items()}
        self._busy_s, self._at_s = busy_s(), time.perf_counter()

    def per_batch(self, batches: int) -> dict[str, float]:
        """Return milliseconds per batch of each role, and the processors that everything else took."""
        used_s = {role: cpu_s(pids) - self._used_s[role] for role, pids in self._pids.items()}
        others_s = busy_s() - self._busy_s - sum(used_s.values())
        return {
            **{f"cpu_{role}_ms": 1e3 * seconds / max(1, batches - self._begun) for role, seconds in used_s.items()},
            "others_cores": others_s / (time.perf_counter() - self._at_s),
        }


def count(path: Path) -> int:
    """Return the number of commits so far."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def commits(path: Path) -> list[tuple[int, float]]:
    """Return the transaction and the time of each commit so far."""
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [(int(txid), float(at)) for txid, at in map(str.split, whole.splitlines())]


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure everything on one fresh cluster.

    Raises:
        WrongResultError: commits were out of order.
    """
    with (
        tempfile.TemporaryDirectory() as name,
        DevCluster(slots=1, ackers=1) as cluster,
    ):
        directory = Path(name)
        runs: dict[str, dict[str, Any]] = {}
        for pending in (PENDING, 1):
            path, batches = directory / f"pending-{pending}", arguments.batches * pending // PENDING
            runs[path.name] = run(cluster, slow(batches, path), path, batches, pending)
        path = directory / "tiny"
        runs[path.name] = run(cluster, tiny(arguments.tiny, Commits(path)), path, arguments.tiny, arguments.pending)
        path, batches = directory / "grouped", arguments.grouped
        topology = tiny(batches, GroupedCommits(path))
        runs[path.name] = run(cluster, topology, path, batches, arguments.grouped_pending)
        path = directory / "large"
        topology = large(arguments.large, arguments.words, path)
        runs[path.name] = run(cluster, topology, path, arguments.large, arguments.pending)
    if not all(figures["in_order"] for figures in runs.values()):
        raise WrongResultError("transactions were not committed in order, each exactly once")
    eight, one = runs["pending-8"]["batches_per_s"], runs["pending-1"]["batches_per_s"]
    return {
        "pending_8_batches_per_s": round(eight, 1),
        "pending_1_batches_per_s": round(one, 1),
        "pipelining": round(eight / one, 2),
        "commits_in_order": True,
        "tiny_batches_per_s": round(runs["tiny"]["batches_per_s"]),
        **{f"tiny_{name}": round(value, 3) for name, value in runs["tiny"]["costs"].items()},
        "grouped_batches_per_s": round(runs["grouped"]["batches_per_s"]),
        **{f"grouped_{name}": round(value, 3) for name, value in runs["grouped"]["costs"].items()},
        "large_batches_per_s": round(runs["large"]["batches_per_s"], 1),
        "large_words_per_s": round(runs["large"]["batches_per_s"] * arguments.words),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--batches", type=int, default=400, help="batches of the pipelining run (%(default)s)")
    parser.add_argument("--tiny", type=int, default=3_000, help="batches of one tuple (%(default)s)")
    parser.add_argument("--grouped", type=int, default=20_000, help="the same for the grouped run (%(default)s)")
    parser.add_argument("--large", type=int, default=60, help="large batches (%(default)s)")
    parser.add_argument("--words", type=int, default=20_000, help="words in a large batch (%(default)s)")
    parser.add_argument("--grouped-pending", type=int, default=64, help="grouped batches at a time (%(default)s)")
    parser.add_argument("--pending", type=int, default=8, help="tiny or large batches at a time (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("transactions", __doc__, add_arguments, measure, {"processing_s": PROCESSING_S}))
