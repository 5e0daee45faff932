"""A pipeline that computes a history from a topic, and the program of streams that goes on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from tupletree import Topology
from tupletree.connectors.formats import Text
from tupletree.connectors.kafka import KafkaSpout
from tupletree.connectors.sqlite import SqliteSink
from tupletree.spark import KafkaTopics, ParquetDirectory, Pipeline
from tupletree.streams import ParquetHistory, StreamBuilder


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
