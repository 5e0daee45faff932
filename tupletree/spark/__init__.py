"""The data pipeline: transactional batches that Spark processes.

    class WordCount(Pipeline):
        source = TextFiles("corpus/*.txt", max_bytes_per_batch="4MB")
        state = SqlState("counts.db", table="counts", key=["word"], add=["count"])
        def process(self, batch):
            return batch.select(explode(split("value", " ")).alias("word")).groupBy("word").count()

docs/guides/pipelines.md explains the model, the sources and the sinks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tupletree import _extras

_extras.imported("pyspark", _extras.PYSPARK, "tupletree.spark")  # before what cannot be imported without

if TYPE_CHECKING:
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

_LATE: Final = {
    "tupletree.spark.batch_bolt": ("SparkBatchBolt",),
    "tupletree.spark.pipeline": (
        "Pipeline",
        "PipelineBuilder",
    ),
    "tupletree.spark.sink": (
        "Sink",
        "SinkScope",
    ),
    "tupletree.spark.sinks.directory": (
        "JsonDirectory",
        "ParquetDirectory",
    ),
    "tupletree.spark.sinks.foreach": ("ForeachBatch",),
    "tupletree.spark.sinks.redis": ("RedisHashes",),
    "tupletree.spark.sinks.rows": ("RowSink",),
    "tupletree.spark.sinks.sql": ("SqlState",),
    "tupletree.spark.source": ("Source",),
    "tupletree.spark.sources.csv_lines": ("CsvFiles",),
    "tupletree.spark.sources.json_lines": ("JsonLines",),
    "tupletree.spark.sources.kafka": ("KafkaTopics",),
    "tupletree.spark.sources.memory": ("MemorySource",),
    "tupletree.spark.sources.parquet": ("ParquetFiles",),
    "tupletree.spark.sources.text": ("TextFiles",),
    "tupletree.spark.streaming.export": (
        "ExportBatchBolt",
        "ExportBolt",
    ),
    "tupletree.spark.streaming.ingest": ("TransactionalIngestSpout",),
    "tupletree.spark.streaming.ingest_spout": ("IngestSpout",),
    "tupletree.spark.streaming.source": ("TupletreeDataSource",),
}
"""The modules of all names, imported on first access: a Python worker of Spark needs the reader of one source."""
_MODULE_OF: Final = {name: module for module, names in _LATE.items() for name in names}


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> Any:
    """Import a public name on first access."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return found
