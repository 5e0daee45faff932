"""Batches whose process or sinks do something out of the ordinary, on a real Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from local_components import Shared
from local_spark import LOCAL
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tupletree import BasicBolt
from tupletree.spark import ForeachBatch, MemorySource, Pipeline
from tupletree.testing import LocalCluster

CONF = {**LOCAL, "pipeline.max.attempts": 2, "pipeline.retry.pause.secs": 0.1}
ROWS = [[[number] for number in range(30)]]


class Done(Shared):
    """A function of a batch that is told what it was told of, and may look at no row."""

    def __init__(self, does_count: bool = True) -> None:
        super().__init__()
        self.txids: list[int] = []
        self.rows = 0
        self.does_count = does_count

    def __call__(self, frame: DataFrame, txid: int) -> None:
        self.rows += frame.count() if self.does_count else 0
        self.txids.append(txid)


class Odd(Pipeline):
    transactional_id = "odd"

    def __init__(self, do: Callable[[DataFrame], Any], done: Done | None = None, outputs: tuple[str, ...] = ()) -> None:
        self.source = MemorySource(ROWS, "number BIGINT", 10)
        self.do = do
        self.sinks = [ForeachBatch(done)] if done is not None else []
        self.outputs = outputs

    def process(self, batch: DataFrame) -> DataFrame:
        return self.do(batch)  # type: ignore[no-any-return]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("do", "does_count", "rows"),
    [
        pytest.param(lambda batch: batch.limit(0), True, 0, id="no-row-is-wanted"),
        pytest.param(lambda batch: batch.where(F.lit(False)), True, 0, id="no-row-fits"),
        pytest.param(lambda batch: batch.sparkSession.range(0), True, 0, id="the-batch-is-not-looked-at"),
        pytest.param(lambda batch: batch, False, 0, id="the-sink-looks-at-no-row"),
        pytest.param(lambda batch: batch.union(batch), True, 60, id="rows-are-read-twice"),
    ],
)
def test_batches_whose_rows_are_not_all_read_commit_too(
    spark: SparkSession, do: Callable[[DataFrame], DataFrame], does_count: bool, rows: int
) -> None:
    done = Done(does_count)
    with LocalCluster() as cluster:
        cluster.submit("odd", Odd(do, done).topology(), CONF)
        cluster.wait_until(lambda: len(done.txids) >= 3 or cluster.errors("odd"), timeout=60)
        assert cluster.errors("odd") == []
    assert done.txids[:3] == [1, 2, 3] and done.rows == rows  # a fourth batch may have begun, and have no rows


class Ignores(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("do", "outputs", "sentence"),
    [
        (lambda batch: None, (), "UsageError: Odd.process returned None; a DataFrame was expected"),
        (lambda batch: batch.count(), (), "UsageError: Odd.process returned 10; a DataFrame was expected"),
        (lambda batch: batch, ("sum",), "UsageError: Odd.outputs has 'sum'; the result has the columns number"),
        (
            lambda batch: batch.select(F.current_date().alias("day")),
            ("day",),
            "UsageError: column 'day' of the outputs is a date32[day], which tuples do not carry: cast it in 'emit'",
        ),
        (lambda batch: batch.limit("9"), (), "Method limit([class java.lang.String]) does not exist"),
        (lambda batch: batch.select("nothing"), ("number",), "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
    ],
)
def test_results_that_are_none_are_reported_in_a_sentence(
    spark: SparkSession, do: Callable[[DataFrame], Any], outputs: tuple[str, ...], sentence: str
) -> None:
    builder = Odd(do, None if outputs else Done(), outputs).builder()
    if outputs:
        builder.set_bolt("ignores", Ignores()).shuffle_grouping("pipeline")
    with LocalCluster() as cluster:
        cluster.submit("odd", builder.create_topology(), CONF)
        cluster.wait_until(lambda: "stopped at transaction 1" in str(cluster.errors("odd")), timeout=60)
        reported = [str(error) for _, error in cluster.errors("odd")]
    first = next(said for said in reported if said.startswith("transaction 1 "))  # others are processed beside it
    assert f"processing: {sentence}" in first
    assert all("\n" not in line and "scala" not in line for line in reported)


@pytest.mark.nightly
def test_nothing_of_a_pipeline_stays_in_a_session_that_goes_on(spark: SparkSession) -> None:
    done = Done()
    with LocalCluster() as cluster:
        cluster.submit("odd", Odd(lambda batch: batch, done).topology(), CONF)
        cluster.wait_until(lambda: len(done.txids) >= 3, timeout=60)
    context = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()  # the tracker hears of the ends of jobs later than their threads
    assert list(context.statusTracker().getActiveJobsIds()) == []
    assert context._jsc.getPersistentRDDs().isEmpty()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("spark-job", "spark-commit"))]
    assert spark.range(5).count() == 5
