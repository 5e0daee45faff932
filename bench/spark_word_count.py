"""A pipeline against Spark Structured Streaming: the same words of the same files into the same kind of table.

    python -m bench.spark_word_count --json

Both sides run in turn, ``--rounds`` times, on Spark with ``local[2]``, the same settings and the same bytes per batch.
Both count exactly once: the streaming query with checkpoints and a batch id in its table, the pipeline on a cluster of
nimbus, supervisor, worker, acker and ZooKeeper processes on the same cores. Two metrics of each side:

*Rows a second*: all files exist from the start. Measured from the first commit after ``--warm`` batches to the last.
*Latency*: files then arrive one at a time, every ``--interval`` seconds (default: 1.5 times the time of a batch of the
streaming query). Measured from the arrival of a file to the commit of its batch: the median and the longest.

Afterwards both tables must equal the word counts of the files, made in plain Python: else the exit status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import _cli
from bench._cli import WrongResultError
from bench.spark_words import SETTINGS, commits, count_words, counted, make_files, write_down
from tupletree.attempt import TransactionAttempt
from tupletree.spark import Pipeline
from tupletree.spark.sinks.sql import SqlState
from tupletree.spark.sources.text import TextFiles
from tupletree.testing import DevCluster, wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIMEOUT_S: Final = 300


class TimedState(SqlState):
    """SqlState that also records the time of each commit."""

    def __init__(self, directory: Path) -> None:
        super().__init__(str(directory / "counts.db"), table="counts", key=["word"], add=["count"])
        self.journal = directory / "journal"

    def commit(self, attempt: TransactionAttempt, staged: Any) -> None:
        super().commit(attempt, staged)
        write_down(self.journal, attempt.txid)


class WordCount(Pipeline):
    """The pipeline side."""

    transactional_id = "words"

    def __init__(self, directory: Path, size: int) -> None:
        self.source = TextFiles(directory / "in", size, are_complete=True)
        self.state = TimedState(directory)

    def process(self, batch: DataFrame) -> DataFrame:
        return count_words(batch)


@contextlib.contextmanager
def streaming(directory: Path, arguments: argparse.Namespace) -> Iterator[None]:
    """Run the streaming query in a process of its own."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with open(directory / "log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.spark_words", str(directory)], stdout=log, stderr=log, env=environment
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@contextlib.contextmanager
def pipeline(directory: Path, arguments: argparse.Namespace) -> Iterator[None]:
    """Run the pipeline on a cluster of its own."""
    with DevCluster(slots=1, ackers=1) as cluster:
        conf = {**SETTINGS, "topology.max.spout.pending": arguments.pending, "topology.workers": 1}
        cluster.client.submit("words", WordCount(directory, arguments.bytes).topology(), conf)
        yield
        for error in cluster.client.describe("words").errors:
            print(error.message, file=sys.stderr)
        cluster.client.kill("words", wait_secs=0)
        wait_until(lambda: not [p for p in cluster.processes if p.role == "worker"], 60, what="the worker ends")


def run(side: Any, directory: Path, arguments: argparse.Namespace, interval_s: float | None) -> dict[str, Any]:
    """Return rate and latency of one side."""
    batches = arguments.batches
    staged = make_files(directory / "staged", batches + arguments.arrivals, arguments.bytes)
    rows = [path.read_bytes().count(b"\n") for path in staged]
    truth = Counter(re.findall("[a-z]+", "".join(path.read_text() for path in staged).lower()))
    (directory / "in").mkdir()
    for path in staged[:batches]:
        _arrive(path, directory)
    journal = directory / "journal"
    with side(directory, arguments):
        wait_until(lambda: len(commits(journal)) >= batches, TIMEOUT_S, what=f"{directory.name}: {batches} commits")
        done = commits(journal)
        seconds = done[batches - 1][1] - done[arguments.warm - 1][1]
        interval_s = interval_s or 1.5 * seconds / (batches - arguments.warm)
        arrivals = _feed(staged[batches:], directory, interval_s)
        wait_until(lambda: len(commits(journal)) >= len(staged), TIMEOUT_S, what=f"{directory.name}: the arrivals")
    done = commits(journal)
    delays = [at - arrived for (_, at), arrived in zip(done[batches:], arrivals, strict=True)]
    return {
        "rows_per_s": sum(rows[arguments.warm : batches]) / seconds,
        "batch_s": seconds / (batches - arguments.warm),
        "interval_s": interval_s,
        "delays": delays,
        "in_order": [number for number, _ in done] == list(range(1, len(staged) + 1)),
        "exact": counted(directory / "counts.db") == truth,
    }


def _feed(files: Sequence[Path], directory: Path, interval_s: float) -> list[float]:
    """Let files arrive one after the other; return their arrival times."""
    arrivals = []
    due_s = time.monotonic() + interval_s
    for path in files:
        time.sleep(max(0.0, due_s - time.monotonic()))
        due_s += interval_s
        arrivals.append(time.time())
        _arrive(path, directory)
    return arrivals


def _arrive(path: Path, directory: Path) -> None:
    os.utime(path)
    path.rename(directory / "in" / path.name)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure both sides in turn.

    Raises:
        WrongResultError: a table differs from the words of the files, or was not committed in order.
    """
    sides: dict[str, list[dict[str, Any]]] = {"streaming": [], "pipeline": []}
    interval_s = arguments.interval
    for number in range(arguments.rounds):
        for name, side in (("streaming", streaming), ("pipeline", pipeline)):
            with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as directory:
                sides[name].append(run(side, Path(directory), arguments, interval_s))
            interval_s = interval_s or sides[name][0]["interval_s"]
            print(f"round {number + 1}, {name}: {sides[name][-1]['rows_per_s']:,.0f} rows/s", file=sys.stderr)
    result: dict[str, Any] = {"interval_s": round(interval_s, 3)}
    for name, runs in sides.items():
        delays = [delay for one in runs for delay in one["delays"]]
        result[f"{name}_rows_per_s"] = round(statistics.mean(one["rows_per_s"] for one in runs))
        result[f"{name}_batch_s"] = round(statistics.mean(one["batch_s"] for one in runs), 3)
        result[f"{name}_latency_p50_s"] = round(statistics.median(delays), 3)
        result[f"{name}_latency_max_s"] = round(max(delays), 3)
    result["ratio"] = round(result["pipeline_rows_per_s"] / result["streaming_rows_per_s"], 2)
    result["ratios"] = [
        round(ours["rows_per_s"] / theirs["rows_per_s"], 2)
        for theirs, ours in zip(sides["streaming"], sides["pipeline"], strict=True)
    ]
    if not all(one["exact"] and one["in_order"] for runs in sides.values() for one in runs):
        raise WrongResultError(f"a table is wrong or was committed out of order: {result}")
    result["exact"] = True
    return result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--batches", type=int, default=60, help="files that are there from the start (%(default)s)")
    parser.add_argument("--warm", type=int, default=20, help="batches before the clock starts (%(default)s)")
    parser.add_argument("--arrivals", type=int, default=40, help="files that arrive one at a time (%(default)s)")
    parser.add_argument("--bytes", type=int, default=1 << 20, help="bytes of a file, which is a batch (%(default)s)")
    parser.add_argument("--pending", type=int, default=4, help="batches of the pipeline at a time (%(default)s)")
    parser.add_argument("--interval", type=float, help="seconds between arrivals; default: 1.5 times a batch's")
    parser.add_argument("--rounds", type=int, default=2, help="how often each side runs (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("spark_word_count", __doc__, add_arguments, measure, SETTINGS))
