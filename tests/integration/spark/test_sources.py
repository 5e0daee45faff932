"""A source of one's own, read by a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tupletree.spark.source import Source


class Numbers(Source):
    schema = "number BIGINT, text STRING"

    def read(self, split: Any) -> Iterator[Any]:
        for number in range(*split):
            yield [number, None if number % 2 else str(number)]


class Batches(Source):
    schema = "number BIGINT"

    def read(self, split: Any) -> Iterator[Any]:
        yield [0]
        yield pa.RecordBatch.from_pydict({"number": pa.array(range(*split), pa.int32())})
        yield [1]


def test_rows_of_every_split_come_out_in_a_task_for_each(spark: SparkSession) -> None:
    frame = Numbers().dataframe(spark, [[0, 3], [10, 11], [5, 5]])
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(map(tuple, frame.collect())) == [(0, "0"), (1, None), (2, "2"), (10, "10")]


def test_no_splits_are_no_rows(spark: SparkSession) -> None:
    assert Numbers().dataframe(spark, []).collect() == []


def test_record_batches_and_rows_mix_and_take_the_declared_types(spark: SparkSession) -> None:
    frame = Batches().dataframe(spark, [[7, 9]])
    assert [row.number for row in frame.collect()] == [0, 7, 8, 1]
    assert frame.dtypes == [("number", "bigint")]
