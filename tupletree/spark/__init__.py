"""The data pipeline: transactional batches that Spark processes.

    class WordCount(Pipeline):
        source = TextFiles("corpus/*.txt", max_bytes_per_batch="4MB")
        state = SqlState("counts.db", table="counts", key=["word"], add=["count"])
        def process(self, batch):
            return batch.select(explode(split("value", " ")).alias("word")).groupBy("word").count()

docs/guides/pipelines.md explains the model, the sources and the sinks.
"""
# ruff: noqa: E402

from __future__ import annotations

from tupletree import _extras

_extras.imported("pyspark", _extras.PYSPARK, "tupletree.spark")  # before what cannot be imported without

from tupletree.spark.batch_bolt import SparkBatchBolt
from tupletree.spark.pipeline import Pipeline, PipelineBuilder
from tupletree.spark.sink import Sink, SinkScope
from tupletree.spark.sinks.directory import JsonDirectory, ParquetDirectory
from tupletree.spark.sinks.foreach import ForeachBatch
from tupletree.spark.sinks.redis import RedisHashes
from tupletree.spark.sinks.rows import RowSink
from tupletree.spark.sinks.sql import SqlState
from tupletree.spark.source import Source
from tupletree.spark.sources.csv_lines import CsvFiles
from tupletree.spark.sources.json_lines import JsonLines
from tupletree.spark.sources.kafka import KafkaTopics
from tupletree.spark.sources.memory import MemorySource
from tupletree.spark.sources.parquet import ParquetFiles
from tupletree.spark.sources.text import TextFiles
from tupletree.spark.streaming.export import ExportBatchBolt, ExportBolt
from tupletree.spark.streaming.ingest import TransactionalIngestSpout
from tupletree.spark.streaming.ingest_spout import IngestSpout
from tupletree.spark.streaming.source import TupletreeDataSource

__all__ = [
    "CsvFiles",
    "ExportBatchBolt",
    "ExportBolt",
    "ForeachBatch",
    "IngestSpout",
    "JsonDirectory",
    "JsonLines",
    "KafkaTopics",
    "MemorySource",
    "ParquetDirectory",
    "ParquetFiles",
    "Pipeline",
    "PipelineBuilder",
    "RedisHashes",
    "RowSink",
    "Sink",
    "SinkScope",
    "Source",
    "SparkBatchBolt",
    "SqlState",
    "TextFiles",
    "TransactionalIngestSpout",
    "TupletreeDataSource",
]
