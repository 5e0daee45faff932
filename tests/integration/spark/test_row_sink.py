"""RowSink with a real Spark and a file of SQLite: results in a transactional sink."""

from __future__ import annotations

import contextlib
import datetime as dt
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tupletree.attempt import TransactionAttempt
from tupletree.connectors.delta import DeltaSink
from tupletree.connectors.file_sinks import ParquetSink
from tupletree.connectors.sqlite import SqliteSink
from tupletree.errors import StaleAttemptError, UsageError
from tupletree.spark import RowSink, SinkScope

SCHEMA = "word STRING, n BIGINT, at TIMESTAMP, more INT"


class Run:
    """One driver of a pipeline."""

    def __init__(self, spark: SparkSession, path: Path, *, is_opaque: bool = False) -> None:
        columns = {"at": "timestamp", "word": "string", "n": "bigint"}
        self.sink: RowSink = pickle.loads(pickle.dumps(RowSink(SqliteSink(path, "counts", columns, key="word"))))
        self.spark = spark
        self.sink.open(SinkScope("words", is_opaque, spark))

    def batch(self, txid: int, attempt: int, rows: dict[str, Any], schema: str = SCHEMA) -> None:
        result = self.spark.createDataFrame([(word, n, None, 0) for word, n in rows.items()], schema)
        which = TransactionAttempt(txid, attempt)
        self.sink.commit(which, self.sink.stage(which, result))


def counts(path: Path) -> dict[str, int]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT word, n FROM counts").fetchall())


def test_a_batch_that_is_committed_again_finds_its_note(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "counts.db"
    Run(spark, path).batch(1, 1, {"a": 1, "b": 1})
    again = Run(spark, path)
    again.batch(1, 2, {"a": 5})
    again.batch(2, 3, {"b": 2})
    assert counts(path) == {"a": 1, "b": 2}
    with pytest.raises(StaleAttemptError):
        again.batch(1, 2, {"a": 5})


def test_an_opaque_replay_takes_back_what_the_attempt_before_has_written(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "counts.db"
    run = Run(spark, path, is_opaque=True)
    run.batch(1, 1, {"a": 1})
    run.batch(2, 2, {"a": 2, "b": 2})
    run.batch(2, 3, {"c": 3})
    assert counts(path) == {"a": 1, "c": 3}


def test_spark_reads_the_files_that_a_sink_has_committed(spark: SparkSession, tmp_path: Path) -> None:
    sink = RowSink(ParquetSink(tmp_path / "out", {"at": "timestamp", "n": "bigint"}))
    sink.open(SinkScope("words", True, spark))
    for txid, attempt, rows in (1, 1, 2), (2, 2, 5), (2, 3, 1):
        which = TransactionAttempt(txid, attempt)
        result = spark.sql(
            f"SELECT timestamp'2024-05-06 07:08:09Z' AS at, id AS n FROM range({txid * 10}, {txid * 10 + rows})"
        )
        sink.commit(which, sink.stage(which, result))
    found = spark.read.parquet(str(tmp_path / "out")).selectExpr("n", "unix_timestamp(at) AS at").collect()
    assert sorted(map(tuple, found)) == [(10, 1714979289), (11, 1714979289), (20, 1714979289)]


def test_a_time_of_spark_is_stored_in_utc(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "counts.db"
    run, which = Run(spark, path), TransactionAttempt(1, 1)
    result = spark.sql("SELECT 'a' AS word, 1L AS n, timestamp'2024-05-06 07:08:09Z' AS at")
    run.sink.commit(which, run.sink.stage(which, result))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT at FROM counts").fetchall() == [("2024-05-06 07:08:09",)]


def test_rows_with_lists_and_structs_are_appended_to_a_table_of_a_lake_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = pa.list_(pa.struct({"sku": pa.string(), "n": pa.int64()}))
    columns = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "lines": lines})
    result = spark.sql(
        "SELECT 1L AS id, timestamp'2024-05-06 07:08:09Z' AS at, array(struct('a' AS sku, 2L AS n)) AS lines"
    )
    for attempt in (1, 2):
        sink = RowSink(DeltaSink(tmp_path / "orders", columns))
        sink.open(SinkScope("orders", False, spark))
        which = TransactionAttempt(1, attempt)
        sink.commit(which, sink.stage(which, result))
    at = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    assert deltalake.DeltaTable(tmp_path / "orders").to_pyarrow_table().to_pylist() == [
        {"id": 1, "at": at, "lines": [{"sku": "a", "n": 2}]}
    ]


@pytest.mark.parametrize(
    ("rows", "schema", "message"),
    [
        ({"a": 1}, SCHEMA.replace("word", "name"), "the result has no column 'word'; it has name, n, at, more"),
        ({"a": "1"}, SCHEMA.replace("BIGINT", "STRING"), "the value '1' of field 'n' cannot be stored as bigint"),
    ],
)
def test_what_does_not_fit_is_named(
    spark: SparkSession, tmp_path: Path, rows: dict[str, Any], schema: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        Run(spark, tmp_path / "counts.db").batch(1, 1, rows, schema)
