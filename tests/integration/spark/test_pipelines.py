"""Pipelines in a LocalCluster, on a real Spark: batches side by side, commits in order, failures, tuples downstream."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from local_components import Log, Shared
from local_spark import LOCAL
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tupletree import BasicBolt
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError
from tupletree.spark import Pipeline, Sink
from tupletree.spark.sinks.sql import SqlState
from tupletree.spark.sources.memory import MemorySource
from tupletree.testing import LocalCluster

pytestmark = pytest.mark.usefixtures("spark")

ROWS = [[[number % 7, number] for number in range(start, 4000, 4)] for start in range(4)]
CONF = {**LOCAL, "topology.max.spout.pending": 4, "pipeline.retry.pause.secs": 0.1}


class Sums(Pipeline):
    transactional_id = "sums"

    def __init__(self, path: Path) -> None:
        self.source = MemorySource(ROWS, "key BIGINT, number BIGINT", 100)
        self.state = SqlState(str(path / "sums.db"), table="sums", key=["key"], add=["total"])

    def process(self, batch: DataFrame) -> DataFrame:
        return batch.groupBy("key").agg(F.sum("number").alias("total"))


def sums(path: Path) -> dict[int, int]:
    if not (path / "sums.db").exists():
        return {}
    with sqlite3.connect(path / "sums.db") as connection:
        try:
            return dict(connection.execute("SELECT key, total FROM sums"))
        except sqlite3.OperationalError:
            return {}


TRUTH = {key: sum(number for number in range(4000) if number % 7 == key) for key in range(7)}


def test_every_row_takes_effect_once(tmp_path: Path) -> None:
    with LocalCluster() as cluster:
        cluster.submit("sums", Sums(tmp_path).topology(), CONF)
        cluster.wait_until(lambda: sums(tmp_path) == TRUTH, timeout=60)


class Recorded(Sink):
    """Writes down what is asked of it, and fails when told to."""

    def __init__(self, log: Log, faults: Log) -> None:
        self.log = log
        self.faults = faults  # errors to raise by the next commits

    def stage(self, attempt: TransactionAttempt, result: DataFrame) -> int:
        self.log.append(("stage", attempt))
        return int(result.toArrow().num_rows)

    def commit(self, attempt: TransactionAttempt, staged: int) -> None:
        self.log.append(("commit", attempt))
        if self.faults:
            raise self.faults.pop()

    def discard(self, attempt: TransactionAttempt, staged: Any) -> None:
        self.log.append(("discard", attempt))


class Watched(Pipeline):
    transactional_id = "watched"

    def __init__(self, log: Log, faults: Log, do: Any = None) -> None:
        self.source = MemorySource(ROWS, "key BIGINT, number BIGINT", 100)
        self.state = Recorded(log, faults)
        self.do = do

    def process(self, batch: DataFrame) -> DataFrame:
        return self.do(batch) if self.do is not None else batch


def commits(log: list[Any]) -> list[int]:
    return [attempt.txid for what, attempt in log if what == "commit"]


def test_commits_come_in_order_while_later_batches_are_processed_already() -> None:
    log, faults = Log(), Log()
    with LocalCluster() as cluster:
        cluster.submit("watched", Watched(log, faults).topology(), CONF)
        cluster.wait_until(lambda: len(commits(log)) >= 10, timeout=60)
    assert commits(log)[:10] == list(range(1, 11))
    ahead = max(
        attempt.txid - len(commits(log[:index])) for index, (what, attempt) in enumerate(log) if what == "stage"
    )
    assert 2 <= ahead <= 4, "the batch that is processed may be up to the fourth that is not committed"


@pytest.mark.long
def test_a_sink_that_is_away_is_tried_again_without_end() -> None:
    log, faults = Log(), Log()
    faults += [UnavailableError("the sink is away")] * 3
    with LocalCluster() as cluster:
        cluster.submit("watched", Watched(log, faults).topology(), {**CONF, "pipeline.max.attempts": 2})
        cluster.wait_until(lambda: len(commits(log)) >= 13, timeout=60)
        assert "the sink is away" in str(cluster.errors("watched"))
    assert commits(log)[:13] == [1, 1, 1, *range(1, 11)]
    discarded = {attempt.txid for what, attempt in log if what == "discard"}
    assert 1 in discarded, "what a failed attempt has staged is removed"


class Poison(Shared):
    """A row that nothing can be done with, until it is mended."""

    def __init__(self) -> None:
        super().__init__()
        self.is_mended = False
        self.seen = 0

    def __call__(self, batch: DataFrame) -> DataFrame:
        if self.is_mended:
            return batch
        self.seen += 1
        return batch.withColumn("share", F.when(F.col("number") == 450, F.raise_error(F.lit("bad row 450"))))


@pytest.mark.long
def test_a_poison_batch_is_reported_retried_and_stops_the_pipeline_with_nothing_lost() -> None:
    log, faults, poison = Log(), Log(), Poison()
    conf = {**CONF, "pipeline.max.attempts": 3}
    with LocalCluster() as cluster:
        cluster.submit("watched", Watched(log, faults, poison).topology(), conf)
        cluster.wait_until(lambda: "stopped at transaction" in str(cluster.errors("watched")), timeout=60)
        reported = str(cluster.errors("watched"))
    assert "transaction 2 (attempt" in reported and "[USER_RAISED_EXCEPTION] bad row 450" in reported
    assert "[0, 100, 200]" in reported, "the batch is shown"
    assert "scala" not in reported
    assert commits(log) == [1], "what came before is committed, and nothing after"


class Stuck(Shared):
    """A job that does not end, the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __call__(self, batch: DataFrame) -> DataFrame:
        self.calls += 1
        if self.calls > 1:
            return batch

        def sleep(batches: Any) -> Any:
            time.sleep(600)
            yield from batches

        return batch.mapInArrow(sleep, batch.schema)


@pytest.mark.long
def test_a_job_that_takes_too_long_is_cancelled_and_tried_again() -> None:
    log, faults = Log(), Log()
    conf = {**CONF, "topology.max.spout.pending": 1, "pipeline.batch.timeout.secs": 12}
    with LocalCluster() as cluster:
        cluster.submit("watched", Watched(log, faults, Stuck()).topology(), conf)
        cluster.wait_until(lambda: len(commits(log)) >= 2, timeout=60)
        assert "no result after 12 s" in str(cluster.errors("watched"))
    assert commits(log)[:2] == [1, 2]


class Alert(BasicBolt):
    def __init__(self, log: Log) -> None:
        self.log = log

    def execute(self, tup: Any, collector: Any) -> None:
        self.log.append((tup["key"], tup["total"]))


class Emitting(Sums):
    transactional_id = "emitting"
    outputs = ["key", "total"]

    def emit(self, result: DataFrame) -> DataFrame:
        return result.where("key = 3")


def test_rows_of_the_result_reach_bolts_downstream_and_the_state_has_them_all(tmp_path: Path) -> None:
    log = Log()
    builder = Emitting(tmp_path).builder()
    builder.set_bolt("alert", Alert(log)).shuffle_grouping("pipeline")
    with LocalCluster() as cluster:
        cluster.submit("emitting", builder.create_topology(), CONF)
        cluster.wait_until(lambda: sums(tmp_path) == TRUTH, timeout=60)
    assert {key for key, _ in log} == {3}
    assert sum(total for _, total in log) == TRUTH[3]


def test_the_session_takes_the_topologys_spark_keys(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
