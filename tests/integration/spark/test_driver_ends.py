"""How a pipeline ends: in order, with its worker killed, and with its Spark killed. Each in a program of its own."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from local_spark import LOCAL
from spark_servers import Process, children_of, command_of, program, session_of, table

from tests.variants import at_night_but
from tupletree.testing.wait import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

COUNTS = """
import os
from pathlib import Path
from time import sleep
from pyspark.sql import functions as F
from tupletree.spark import MemorySource, Pipeline, Sink, SqlState
from tupletree.testing import LocalCluster

ROWS = [[[number] for number in range(400)]]

def held(number):
    if number == 250 and (HERE / "gated").exists():
        (HERE / "waits").touch()
        while not (HERE / "open").exists():
            sleep(0.05)
    return number

class Slow(Sink):
    def commit(self, attempt, staged):
        if attempt.txid == 2 and (HERE / "slow-commit").exists():
            (HERE / "commits").touch()
            sleep(2)
    def stage(self, attempt, result):
        return None

class Counts(Pipeline):
    def __init__(self):
        self.source = MemorySource(ROWS, "number BIGINT", 100)
        self.state = SqlState(HERE / "counts.db", table="counts", key="digit", add="count")
        self.sinks = [Slow()]
    def process(self, batch):
        return batch.select((F.udf(held, "BIGINT")("number") % 2).alias("digit")).groupBy("digit").count()

def run(until, timeout=120):
    with LocalCluster() as cluster:
        cluster.submit("counts", Counts().topology(), CONF)
        cluster.wait_until(lambda: until(cluster), timeout)
    print("closed", flush=True)
"""

CONF = {**LOCAL, "topology.max.spout.pending": 2}

UNTIL_THERE = "run(lambda cluster: (HERE / {name!r}).exists())"
FOREVER = "run(lambda cluster: False)"
TRUTH = [(0, 200), (1, 200)]


def counts(here: Path) -> list[tuple[int, int]]:
    return sorted(table(here / "counts.db", "SELECT digit, count FROM counts"))


def ended_cleanly(run: Process) -> str:
    assert run.wait(60) == 0, run.text
    assert "closed" in run.text
    assert "Traceback" not in run.text and "\tat " not in run.text and "Exception" not in run.text
    wait_until(lambda: session_of(run.pid) == [], 30, what="neither a JVM nor a Python worker is left")
    return run.text


@pytest.mark.nightly
def test_a_clean_run_prints_nothing_of_spark_or_pandas(tmp_path: Path) -> None:
    with program(tmp_path, CONF, COUNTS + UNTIL_THERE.format(name="enough")) as run:
        wait_until(lambda: counts(tmp_path) == TRUTH, 120, what="the table holds the truth")
        (tmp_path / "enough").touch()
        lines = ended_cleanly(run).splitlines()
    # The first is of the JVM itself and of Spark's own options.
    assert lines == ["WARNING: Using incubator modules: jdk.incubator.vector", "closed"]


@pytest.mark.parametrize("name", at_night_but(["commits"], ["waits", "commits"]))
def test_an_end_in_the_middle_of_a_job_or_of_a_commit_is_clean(tmp_path: Path, name: str) -> None:
    (tmp_path / ("gated" if name == "waits" else "slow-commit")).touch()
    with program(tmp_path, CONF, COUNTS + UNTIL_THERE.format(name=name)) as run:
        wait_until((tmp_path / name).exists, 120, what=f"the pipeline {name}")
        ended_cleanly(run)


def test_an_end_while_the_session_starts_does_not_wait_for_it(tmp_path: Path) -> None:
    with program(tmp_path, CONF, COUNTS + UNTIL_THERE.format(name="enough")) as run:
        wait_until(lambda: children_of(run.pid, "org.apache.spark.deploy.SparkSubmit"), 60, what="the JVM starts")
        (tmp_path / "enough").touch()
        ended_cleanly(run)
    assert counts(tmp_path) == []


def test_a_worker_that_is_killed_leaves_no_spark_behind(tmp_path: Path) -> None:
    (tmp_path / "gated").touch()
    with program(tmp_path, CONF, COUNTS + FOREVER) as run:
        wait_until((tmp_path / "waits").exists, 120, what="a job runs")
        started = [pid for pid in session_of(run.pid) if pid != run.pid]
        assert any("java" in command_of(pid) for pid in started)
        assert any("pyspark.daemon" in command_of(pid) for pid in started)
        os.kill(run.pid, signal.SIGKILL)
        run.wait(10)
        (tmp_path / "open").touch()  # what loops in user code in a Python worker ends with its next row, not before
        wait_until(lambda: not any(map(command_of, started)), 60, what="JVM and Python workers are gone")


def test_a_spark_that_is_killed_ends_the_task_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "gated").touch()
    with program(tmp_path, CONF, COUNTS + FOREVER) as run:
        wait_until((tmp_path / "waits").exists, 120, what="a job runs")
        (jvm,) = children_of(run.pid, "org.apache.spark.deploy.SparkSubmit")
        os.kill(jvm, signal.SIGKILL)
        assert run.wait(60) != 0
        last = run.text.rstrip().splitlines()[-1]
        assert re.search(r"task \d+ of component 'pipeline' failed: SparkLostError: the Spark session is gone", last)
        (tmp_path / "open").touch()
        wait_until(lambda: session_of(run.pid) == [], 60, what="Python workers are gone")


STOPPED = """
from pyspark import SparkContext

def stopped(cluster):
    if (HERE / "waits").exists() and not (HERE / "stopped").exists():
        (HERE / "stopped").touch()
        SparkContext._active_spark_context._jsc.sc().stop()   # as where its master removes the application
    return False

run(stopped)
"""


@pytest.mark.nightly
def test_a_context_that_is_stopped_ends_the_task_as_well(tmp_path: Path) -> None:
    (tmp_path / "gated").touch()
    with program(tmp_path, {**CONF, "pipeline.retry.pause.secs": 0.1}, COUNTS + STOPPED) as run:
        wait_until((tmp_path / "stopped").exists, 120, what="the context is stopped")
        (tmp_path / "open").touch()
        run.wait_for("SparkLostError: the Spark session is gone, noticed while", 60)
