"""A program of streams reads what a pipeline commits, and writes what Spark reads, each row once under kill -9."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import spark_stream_programs
from local_spark import LOCAL
from pyspark.sql import SparkSession
from spark_stream_programs import PER_BATCH, Doubles, Halves, adding, numbering

from tupletree.testing import DevCluster, LocalCluster, wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

CODE = str(spark_stream_programs.__file__)


@pytest.fixture
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=1, slots=2) as running:
        yield running


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, Any]:
    return {
        "topology.workers": 2,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
        "topology.state.checkpoint.interval.ms": 300,
    }


def rows_of(database: Path) -> dict[int, list[Any]]:
    """Return the rows of the table ``sums`` by key; none if it does not exist yet."""
    if not database.exists():
        return {}
    with closing(sqlite3.connect(database, timeout=10)) as connection:
        try:
            return {key: rest for key, *rest in connection.execute("SELECT * FROM sums")}
        except sqlite3.OperationalError:
            return {}


def read_so_far(database: Path) -> int:
    return sum(row[0] for row in rows_of(database).values())


def test_a_program_reads_each_row_of_a_pipeline_once_in_the_order_of_transactions(
    spark: SparkSession, cluster: DevCluster, conf: dict[str, Any], tmp_path: Path
) -> None:
    count, database = 30 * PER_BATCH, tmp_path / "sums.db"
    pipeline = Doubles(tmp_path / "doubles", count)
    cluster.client.submit("adding", adding(pipeline, database), conf, code=[CODE])  # before there is a directory
    with LocalCluster() as local:
        local.submit("doubles", pipeline.topology(), LOCAL)
        for seen in (1, count // 3):
            local.wait_until(lambda seen=seen: read_so_far(database) >= seen, timeout=150)
            cluster.kill("worker")
        local.wait_until(lambda: read_so_far(database) >= count, timeout=150)
    expected = {}
    for digit in range(10):
        numbers = range(digit, count, 10)
        expected[digit] = [len(numbers), 2 * sum(numbers), numbers[-1] // PER_BATCH, 0]
    assert rows_of(database) == expected


def test_spark_reads_each_row_of_a_program_once(
    spark: SparkSession, cluster: DevCluster, conf: dict[str, Any], tmp_path: Path
) -> None:
    count, directory, database = 6_000, tmp_path / "rows", tmp_path / "sums.db"
    directory.mkdir()
    stream = spark.readStream.schema("rest BIGINT, half DOUBLE").parquet(str(directory))
    query = stream.writeStream.format("memory").queryName("program_rows").start()
    try:
        with LocalCluster() as local:
            local.submit("halves", Halves(directory, database).topology(), LOCAL)
            cluster.client.submit("numbering", numbering(directory, count), conf, code=[CODE])
            for seen in (1, count // 3):
                wait_until(lambda seen=seen: written(directory) >= seen, 120, what="files", pause_s=0.1)
                cluster.kill("worker")
            local.wait_until(lambda: read_so_far(database) >= count, timeout=150)
        query.processAllAvailable()
        found = {row.rest: [row.n, row.total] for row in spark.sql(
            "SELECT rest, count(*) AS n, sum(half) AS total FROM program_rows GROUP BY rest"
        ).collect()}  # fmt: skip
    finally:
        query.stop()
    expected = {rest: [len(range(rest, count, 7)), sum(range(rest, count, 7)) / 2] for rest in range(7)}
    assert rows_of(database) == found == expected


def written(directory: Path) -> int:
    """Return the number of rows in files."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in directory.glob("*.parquet"))
