"""Pipelines over a real Spark Connect server: nothing of Spark runs in the process of the pipeline's task."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from spark_servers import Process, children_of, command_of, connect_server, program, table

from tupletree.testing.wait import wait_until

pytest.importorskip("grpc_status", reason="Spark Connect wants pip install 'tupletree[connect]'")
pytest.importorskip("zstandard", reason="Spark Connect wants pip install 'tupletree[connect]'")
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TRUTH = {key: sum(number for number in range(2000) if number % 7 == key) for key in range(7)}

SUMS = """
import os
from pathlib import Path
from time import sleep
from pyspark.sql import functions as F
from tupletree.spark import MemorySource, ParquetDirectory, Pipeline, SqlState

ROWS = [[[number % 7, number] for number in range(start, 2000, 2)] for start in range(2)]

def weighed(number, here):
    if number == 600 and Path(here, "faulty").exists():
        Path(here, "failed").touch()
        raise ValueError("no weight for 600")
    if number == 1000 and not Path(here, "open").exists():
        Path(here, "waiting").write_text(str(os.getpid()))
        Path(here, "waiting").rename(Path(here, "waits"))     # until it is cancelled, or let go
        while not Path(here, "open").exists():
            sleep(0.05)
    return number

class Sums(Pipeline):
    outputs = ["key", "total"]

    def __init__(self, here):
        self.source = MemorySource(ROWS, "key BIGINT, number BIGINT", 250)
        self.state = SqlState(here / "sums.db", table="sums", key="key", add="total")
        self.sinks = [ParquetDirectory(here / "sums")]
        self.here = str(here)

    def process(self, batch):
        here = self.here
        weigh = F.udf(lambda number: weighed(number, here), "BIGINT")
        return batch.groupBy("key").agg(F.sum(weigh("number")).alias("total"))
"""

RUN = """
from tupletree import BasicBolt
from tupletree.testing import LocalCluster
from sums import Sums

class Totals(BasicBolt):
    def execute(self, tup, collector):
        with (HERE / "emitted").open("a") as file:
            file.write(f"{tup['key']} {tup['total']}\\n")

builder = Sums(HERE).builder()
builder.set_bolt("totals", Totals()).shuffle_grouping("pipeline")
with LocalCluster() as cluster:
    cluster.submit("sums", builder.create_topology(), CONF)
    try:
        cluster.wait_until(lambda: (HERE / "enough").exists(), timeout=200)
    finally:
        for component, error in cluster.errors("sums"):
            print("reported:", type(error).__name__, error, *getattr(error, "__notes__", []), flush=True)
print("closed", flush=True)
"""

CONF = {"topology.max.spout.pending": 4, "pipeline.retry.pause.secs": 0.2}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Process]]:
    with connect_server(tmp_path_factory.mktemp("server")) as started:
        yield started


def sums(here: Path) -> dict[int, int]:
    return dict(table(here / "sums.db", "SELECT key, total FROM sums"))


@pytest.mark.nightly
def test_a_batch_that_fails_and_one_that_is_cancelled_leave_the_truth(
    server: tuple[str, Process], tmp_path: Path
) -> None:
    (tmp_path / "sums.py").write_text(SUMS)
    (tmp_path / "faulty").touch()
    with program(tmp_path, {**CONF, "spark.remote": server[0]}, RUN) as run:
        run.wait_until(lambda: (tmp_path / "waits").exists() and (tmp_path / "failed").exists(), 90, "batch 2 fails")
        # Batch 3 hangs in a job, which is cancelled with the failure of batch 2; then it is processed anew.
        hanging = int((tmp_path / "waits").read_text())
        wait_until(lambda: not command_of(hanging), 60, what="the Python worker of the cancelled job is gone")
        (tmp_path / "faulty").unlink()
        (tmp_path / "open").touch()
        run.wait_until(lambda: sums(tmp_path) == TRUTH, 90, "the table holds the truth")
        (tmp_path / "enough").touch()
        assert run.wait(60) == 0, run.text
    emitted = [tuple(map(int, line.split())) for line in (tmp_path / "emitted").read_text().splitlines()]
    assert {key: sum(total for other, total in emitted if other == key) for key in range(7)} == TRUTH
    assert "closed" in run.text
    assert "transaction 2 (attempt" in run.text and "ValueError: no weight for 600" in run.text
    assert "in weighed" in run.text, "the traceback is that of the user's code"
    assert "scala" not in run.text and "site-packages" not in run.text


@pytest.mark.nightly
def test_a_server_that_is_killed_ends_the_worker_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SUMS)
    with connect_server(tmp_path) as (url, server), program(tmp_path, {**CONF, "spark.remote": url}, RUN) as run:
        run.wait_until((tmp_path / "waits").exists, 90, "batches are processed")
        for pid in children_of(server.pid, "SparkConnectServer"):
            os.kill(pid, signal.SIGKILL)
        # (PySpark's own threads hold this program for minutes; a worker ends without them.)
        run.wait_for("SparkLostError: the Spark session is gone: no Spark Connect server answers at sc://", 60)


CANCELLED = """
import threading
from time import sleep
from tupletree.attempt import TransactionAttempt
from tupletree.spark import Pipeline, Source
from tupletree.spark.driver import Driver
from tupletree.spark.jobs import Job

class Told:
    def ready(self):
        print("ready", flush=True)
    def broken(self, error):
        print("broken by", error, flush=True)

reads = threading.Event()

class Reads(Source):
    def dataframe(self, spark, splits):
        reads.set()
        spark.range(1).collect()      # is tried for minutes
        return spark.range(1)

class Reading(Pipeline):
    source = Reads()

driver = Driver("reading", Reading(), False, CONF, 2, Told())
while not (HERE / "killed").exists():
    sleep(0.05)
driver.start(Job(TransactionAttempt(1, 1), [], 0.0, None))
reads.wait()
driver.cancel(TransactionAttempt(1, 1))
while True:
    driver.refresh()
    sleep(0.5)
"""


@pytest.mark.nightly
def test_a_cancellation_does_not_keep_the_loss_of_the_server_from_being_found_out(tmp_path: Path) -> None:
    with connect_server(tmp_path) as (url, server), program(tmp_path, {"spark.remote": url}, CANCELLED) as run:
        run.wait_for("ready", 90)
        for pid in children_of(server.pid, "SparkConnectServer"):
            os.kill(pid, signal.SIGKILL)
        (tmp_path / "killed").touch()
        run.wait_for("broken by the Spark session is gone: no Spark Connect server answers at sc://", 60)


@pytest.mark.nightly
def test_a_server_that_is_away_is_reported_and_waited_for(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SUMS)
    (tmp_path / "enough").touch()
    body = RUN.replace("lambda: (HERE", "lambda: cluster.errors('sums') and (HERE")
    with program(tmp_path, {**CONF, "spark.remote": "sc://127.0.0.1:1"}, body) as run:
        assert run.wait(60) == 0, run.text
    assert "UnavailableError no Spark Connect server answers at sc://127.0.0.1:1: " in run.text
