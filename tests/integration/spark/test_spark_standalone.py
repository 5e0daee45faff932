"""A pipeline on a real Spark cluster of PySpark's own jars: its executors have never seen the code of the user."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from local_spark import SHORT_LIVED
from spark_servers import Process, children_of, program, standalone_cluster, table

from tupletree.testing.wait import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(400)]

LINES = [f"{('to', 'be', 'or', 'not')[number % 4]} word{number}" for number in range(2000)]
TRUTH = Counter(word for line in LINES for word in line.split())

WORDS = """
from pathlib import Path
from time import sleep
from pyspark.sql import functions as F
from tupletree.spark import ParquetDirectory, Pipeline, SqlState, TextFiles

def words(line, gate):
    if gate and "word1000" in line:       # a task in the middle of the input stays until it is let go
        Path(gate, "waits").touch()
        while not Path(gate, "open").exists():
            sleep(0.05)
    return [word.lower() for word in line.split()]

class Words(Pipeline):
    def __init__(self, here, gate=""):
        self.source = TextFiles(here / "text", max_bytes_per_batch="4KB", are_complete=True)
        self.state = SqlState(here / "words.db", table="words", key="word", add="count")
        self.sinks = [ParquetDirectory(here / "words")]
        self.gate = str(gate)

    def process(self, batch):
        gate = self.gate
        split = F.udf(lambda line: words(line, gate), "ARRAY<STRING>")
        return batch.select(F.explode(split("value")).alias("word")).groupBy("word").count()
"""

RUN = """
from tupletree.testing import LocalCluster
from words import Words

with LocalCluster() as cluster:
    cluster.submit("words", Words(HERE, HERE if (HERE / "gated").exists() else "").topology(), CONF)
    cluster.wait_until(lambda: (HERE / "enough").exists(), timeout=300)
    for component, error in cluster.errors("words"):
        print("reported:", error, flush=True)
print("closed", flush=True)
"""

CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": False,
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.sql.shuffle.partitions": 2,
    "topology.max.spout.pending": 3,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, Process]]:
    with standalone_cluster(tmp_path) as started:
        yield started


def written(here: Path) -> tuple[Counter[str], Counter[str]]:
    """What the table and the directory hold."""
    rows = table(here / "words.db", "SELECT word, count FROM words")
    files: Counter[str] = Counter()
    for path in (here / "words").glob("txid=*/*.parquet"):
        for row in pq.ParquetFile(path).read().to_pylist():
            files[row["word"]] += row["count"]
    return Counter(dict(rows)), files


def prepare(here: Path) -> None:
    (here / "text").mkdir()
    (here / "text" / "lines.txt").write_text("\n".join(LINES) + "\n")
    (here / "words.py").write_text(WORDS)


def end(run: Process, here: Path) -> str:
    (here / "enough").touch()
    assert run.wait(60) == 0, run.text
    assert "closed" in run.text
    return run.text


def test_executors_that_lose_one_of_them_write_the_truth(cluster: tuple[str, Process], tmp_path: Path) -> None:
    url, worker = cluster
    here = tmp_path / "user"
    here.mkdir()
    prepare(here)
    (here / "gated").touch()
    with program(here, {**CONF, "spark.master": url}, RUN) as run:
        wait_until((here / "waits").exists, 120, what="a task is in the middle of the input")
        (executor,) = children_of(worker.pid, "CoarseGrainedExecutorBackend")
        os.kill(executor, signal.SIGKILL)
        (here / "open").touch()
        wait_until(lambda: written(here) == (TRUTH, TRUTH), 120, what="table and directory hold every word once")
        assert executor not in children_of(worker.pid, "CoarseGrainedExecutorBackend"), "another one has taken over"
        output = end(run, here)
    assert "Traceback" not in output and "\tat " not in output
    wait_until(lambda: not children_of(worker.pid, "CoarseGrainedExecutorBackend"), 30, what="the executors are gone")
    assert not children_of(worker.pid, "pyspark.daemon")
