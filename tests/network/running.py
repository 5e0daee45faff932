"""Two topologies that run through partitions, each spread over both supervisors' machines and judged against the truth.

    Counted    numbers -> double -> sink; each number must be acked, and reach the sink at least once
    Committed  lines -> count -> update-words -> bucketize -> update-buckets; both databases must be exact

The files of both are on the one disk that all these machines share, so whoever is cut off can still do damage.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import spread_cluster
from numbers_topology import History, numbers_topology
from spread_cluster import SpreadCluster

from bench.crashes.feed import Feed
from examples.demo.exactly_once import judge
from examples.transactional_words import Bucketize, Count, UpdateBuckets, UpdateWords, bucket, tables
from tupletree import Topology
from tupletree.testing import wait_until
from tupletree.transactional import FilePartitionSpout, TransactionalTopologyBuilder

START_S = 60
END_S = 60
NUMBERS_PER_S = 100
LINES_PER_S = 100
CONF = {"topology.workers": 2, "topology.acker.executors": 2, "topology.message.timeout.secs": 10}
LINES = [line for line in Path(re.__file__).read_text().splitlines() if re.search("[a-z]", line)]


def words_topology(identity: str, lines: str, databases: str) -> Topology:
    """The example's topology under an identity of its own, so that it begins anew."""
    words, buckets = tables(databases)
    builder = TransactionalTopologyBuilder(identity, "lines", FilePartitionSpout(lines, 2048), 2)
    builder.set_bolt("count", Count(), 2).shuffle_grouping("lines")
    builder.set_bolt("update-words", UpdateWords(words), 2).fields_grouping("count", ["word"])
    builder.set_bolt("bucketize", Bucketize(), 2).shuffle_grouping("update-words")
    builder.set_bolt("update-buckets", UpdateBuckets(buckets), 2).fields_grouping("bucketize", ["bucket"])
    return builder.create_topology()


class Counted:
    """At least once. Progress is an ack."""

    def __init__(self, cluster: SpreadCluster, directory: Path) -> None:
        directory.mkdir()
        self.name = "counted"
        self.history = History(directory)
        conf = {**CONF, "topology.max.spout.pending": 100}
        cluster.ask(spread_cluster.submit, self.name, numbers_topology, (str(directory), NUMBERS_PER_S), conf)

    def progress_s(self) -> list[float]:
        """When there was progress, in unix seconds, ascending."""
        return [at for _, at in self.history.events("ack")]

    def finish(self) -> None:
        """Let it come to its end, and judge.

        A worker that was cut off may have gone a little further than its successor, which is given time to get there.
        """
        emitted = self.history.emitted()
        wait_until(lambda: emitted <= self.history.acked(), END_S, what="every number so far is acked")
        self.history.stop()
        wait_until(self.history.is_complete, END_S, what="every number is acked")
        self.history.check()


class Committed:
    """Exactly once. Progress is a commit, seen from outside."""

    def __init__(self, cluster: SpreadCluster, directory: Path) -> None:
        self.name = "committed"
        self._lines, self._databases = directory / "lines", directory / "databases"
        self._feed = Feed(self._lines, LINES, files=2, rate=LINES_PER_S, seed=1)
        self._seen: list[float] = []
        self._total = 0
        self._stop = threading.Event()
        self._watch = threading.Thread(target=self._look)
        how = (uuid.uuid4().hex, str(self._lines), str(self._databases))
        cluster.ask(spread_cluster.submit, self.name, words_topology, how, CONF)
        self._feed.start()
        self._watch.start()

    def _look(self) -> None:
        while not self._stop.wait(0.1):
            total = sum(self._stored("words").values())
            if total != self._total:
                self._total = total
                self._seen.append(time.time())

    def _stored(self, table: str) -> dict[str, int]:
        """What a database holds, read past everything that is under test."""
        file = self._databases / f"{table}.db"
        if not file.exists():
            return {}
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            try:
                return {key: int(value) for key, value in connection.execute(f"SELECT key, value FROM {table}")}
            except sqlite3.OperationalError:
                return {}  # no table yet

    def progress_s(self) -> list[float]:
        """When there was progress, in unix seconds, ascending."""
        return list(self._seen)

    def finish(self) -> None:
        """Let it come to its end, and judge."""
        self._feed.stop()
        lines = [line for file in self._lines.iterdir() for line in file.read_text().splitlines()]
        words = sum(len(re.findall("[a-z]+", line.lower())) for line in lines)
        wait_until(lambda: self._total >= words, END_S, what="every word is counted")

        def faults() -> Any:
            split = lambda line: re.findall("[a-z]+", line.lower())  # noqa: E731
            return judge(lines, split, bucket, self._stored("words"), self._stored("buckets")).faults

        wait_until(lambda: not faults(), END_S, what="the buckets follow")
        assert faults() == ()

    def close(self) -> None:
        """Stop feeding and watching. Idempotent."""
        self._feed.stop()
        self._stop.set()
        self._watch.join()


class Pair:
    """Both, on one cluster."""

    def __init__(self, cluster: SpreadCluster, counted: Counted, committed: Committed) -> None:
        self._cluster = cluster
        self.counted, self.committed = counted, committed

    @property
    def both(self) -> tuple[Counted, Committed]:
        return self.counted, self.committed

    def flows_since(self, moment_s: float, times: int = 3) -> bool:
        """True if both made progress so often after a moment."""
        return all(len([at for at in one.progress_s() if at > moment_s]) >= times for one in self.both)

    def wait_flows(self, timeout_s: float) -> None:
        """Wait until both make progress from now on."""
        now_s = time.time()
        wait_until(lambda: self.flows_since(now_s), timeout_s, what="both topologies flow", pause_s=0.1)

    def finish(self) -> None:
        """Let both come to their ends, and judge."""
        for one in self.both:
            one.finish()


@contextmanager
def two_topologies(cluster: SpreadCluster, directory: Path) -> Iterator[Pair]:
    """Both topologies, flowing, each with a worker on each supervisor's machine. They end with the block."""
    counted = Counted(cluster, directory / "counted")
    committed = Committed(cluster, directory / "committed")
    try:
        pair = Pair(cluster, counted, committed)
        pair.wait_flows(START_S)
        for one in pair.both:
            homes: Counter[str] = Counter()
            for names in cluster.homes(one.name).values():
                homes.update(names)
            assert len(homes) == 2, f"{one.name} runs on {', '.join(homes)} alone"
        yield pair
    finally:
        committed.close()
        for one in (counted, committed):
            cluster.ask(spread_cluster.kill, one.name)
        wait_until(
            lambda: not [*cluster.workers("supervisor-0"), *cluster.workers("supervisor-1")],
            END_S,
            what="the workers end",
        )
