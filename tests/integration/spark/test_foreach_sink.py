"""ForeachBatch with a real Spark, and the table with a txid column that its documentation tells of."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tupletree.attempt import TransactionAttempt
from tupletree.spark.sink import SinkScope
from tupletree.spark.sinks.foreach import ForeachBatch


def opened(spark: SparkSession, function: Any) -> ForeachBatch:
    sink = ForeachBatch(function)
    sink.open(SinkScope("pipeline", True, spark))
    return sink


def test_rows_of_a_txid_replaced_in_one_transaction_count_once(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "visits.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE visits (txid INTEGER, page TEXT, visits INTEGER)")

    def save(result: DataFrame, txid: int) -> None:
        with sqlite3.connect(path) as database:
            database.execute("DELETE FROM visits WHERE txid = ?", [txid])
            rows = [(txid, row.page, row.visits) for row in result.toLocalIterator()]
            database.executemany("INSERT INTO visits VALUES (?, ?, ?)", rows)

    sink = opened(spark, save)
    for txid, attempt, rows in (1, 1, [("a", 1)]), (2, 2, [("a", 5), ("b", 5)]), (2, 3, [("a", 6)]), (3, 4, []):
        which = TransactionAttempt(txid, attempt)
        sink.commit(which, sink.stage(which, spark.createDataFrame(rows, "page STRING, visits BIGINT")))
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT * FROM visits ORDER BY txid").fetchall() == [(1, "a", 1), (2, "a", 6)]


def test_the_job_has_run_when_the_function_is_called_and_what_it_kept_is_freed(spark: SparkSession) -> None:
    runs = spark.sparkContext.accumulator(0)

    def noted(rows: Any) -> Any:
        for batch in rows:
            runs.add(batch.num_rows)
            yield batch

    seen = []
    sink = opened(spark, lambda result, txid: seen.append((txid, result.count(), runs.value)))
    result = spark.range(10).mapInArrow(noted, "id BIGINT")
    attempt = TransactionAttempt(1, 1)
    staged = sink.stage(attempt, result)
    assert runs.value == 10
    sink.commit(attempt, staged)
    assert seen == [(1, 10, 10)]
    assert not result.is_cached
    sink.discard(attempt, sink.stage(attempt, result))
    assert not result.is_cached


def test_what_somebody_else_keeps_stays(spark: SparkSession) -> None:
    result = spark.range(10).selectExpr("id * 2 AS twice").persist()
    try:
        sink = opened(spark, lambda result, txid: None)
        attempt = TransactionAttempt(1, 1)
        sink.commit(attempt, sink.stage(attempt, result))
        assert result.is_cached
    finally:
        result.unpersist()


def test_what_the_function_raises_is_passed_on_and_it_may_be_called_again(spark: SparkSession) -> None:
    calls = []

    def save(result: DataFrame, txid: int) -> None:
        calls.append(result.count())
        if len(calls) == 1:
            raise OSError("the table is away")

    sink = opened(spark, save)
    attempt = TransactionAttempt(1, 1)
    staged = sink.stage(attempt, spark.range(3))
    with pytest.raises(OSError, match="the table is away"):
        sink.commit(attempt, staged)
    sink.commit(attempt, staged)
    assert calls == [3, 3]


def test_a_job_that_fails_keeps_nothing(spark: SparkSession) -> None:
    result = spark.range(3).selectExpr("1 div id AS n")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        opened(spark, lambda result, txid: None).stage(TransactionAttempt(1, 1), result)
    assert not result.is_cached
