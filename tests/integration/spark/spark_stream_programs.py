"""Pipelines, and programs of streams that go on with their history, read their results, or write what they read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tupletree import Topology
from tupletree.connectors.formats import Text
from tupletree.connectors.kafka import KafkaSpout
from tupletree.connectors.sqlite import SqliteSink
from tupletree.spark import KafkaTopics, MemorySource, ParquetDirectory, ParquetFiles, Pipeline, SqlState
from tupletree.streams import ParquetHistory, StreamBuilder

PER_BATCH = 20
"""The rows of a transaction of Doubles."""


class Counts(Pipeline):
    """The number of messages of each word, batch by batch."""

    def __init__(self, brokers: str, topic: str, directory: Path, per_batch: int) -> None:
        self.transactional_id = topic
        self.source = KafkaTopics(brokers, topic, per_batch)
        self.state = ParquetDirectory(directory)

    def process(self, batch: DataFrame) -> DataFrame:
        return batch.selectExpr("cast(value AS STRING) AS word").groupBy("word").count()


def history_of(directory: Path) -> ParquetHistory:
    return ParquetHistory(directory, key="word", value="count")


def counting(brokers: str, topic: str, history: ParquetHistory, database: Path) -> Topology:
    """Return the program: it goes on counting where the history ends."""
    builder = StreamBuilder(parallelism=2)
    words = builder.source(
        KafkaSpout(brokers, topic, Text("word"), start=history.positions), name="words", parallelism=2
    )
    counts = words.key_by(lambda word: word).count(name="count", history=history)
    columns: Any = {"word": "string", "n": "bigint"}
    counts.sink(SqliteSink(database, "counts", columns, key="word"), fields=["word", "n"], name="table", parallelism=1)
    return builder.topology("exactly_once")


class Doubled(NamedTuple):
    """A number and its double."""

    number: int
    double: int


class Doubles(Pipeline):
    """Numbers from 0 on with their doubles, in transactions of PER_BATCH."""

    def __init__(self, directory: Path, count: int) -> None:
        self.transactional_id = str(directory)[-20:].replace("/", "-")
        self.source = MemorySource([[[number] for number in range(count)]], "number BIGINT", PER_BATCH)
        self.state = ParquetDirectory(directory)

    def process(self, batch: DataFrame) -> DataFrame:
        return batch.selectExpr("number", "2 * number AS double")


Sums = tuple[int, int, int, int]
"""Rows, the sum of their doubles, the newest transaction, and rows that came after rows of a later transaction."""


def nothing() -> Sums:
    return 0, 0, 0, 0


def add(sums: Sums, row: Doubled) -> Sums:
    rows, total, newest, late = sums
    batch = row.number // PER_BATCH
    return rows + 1, total + row.double, max(newest, batch), late + (batch < newest)


def adding(pipeline: Doubles, database: Path) -> Topology:
    """Return the program: it adds up the results of a pipeline by their last digits."""
    builder = StreamBuilder()
    rows = builder.from_pipeline(pipeline, rows=Doubled)
    sums = rows.key_by(lambda row: row.number % 10).aggregate(nothing, add, name="sums", parallelism=2)
    columns: Any = dict.fromkeys(["digit", "n", "total", "newest", "late"], "bigint")
    sums.sink(SqliteSink(database, "sums", columns, key="digit"), fields=list(columns), name="table", parallelism=1)
    return builder.topology("exactly_once")


def numbering(directory: Path, count: int) -> Topology:
    """Return a program that writes numbers from 0 on for Spark, a few at a time."""

    def numbers() -> Iterator[int | None]:
        for number in range(count):
            yield number
            yield None

    builder = StreamBuilder(parallelism=2)
    halves = builder.source(numbers, name="numbers").key_by(lambda number: number % 7).map(lambda number: number / 2)
    halves.to_dataframe_sink(directory, {"rest": "bigint", "half": "double"}, name="rows")
    return builder.topology("exactly_once")


class Halves(Pipeline):
    """The number of rows that a program has written, and their sum, by rest."""

    def __init__(self, directory: Path, database: Path) -> None:
        self.transactional_id = str(database)[-20:].replace("/", "-")
        self.source = ParquetFiles(directory, schema="rest BIGINT, half DOUBLE")
        self.state = SqlState(database, "sums", key="rest", add=["n", "total"])

    def process(self, batch: DataFrame) -> DataFrame:
        return batch.groupBy("rest").agg(F.count("*").alias("n"), F.sum("half").alias("total"))
