"""The data pipeline: transactional batches that Spark processes.

    class WordCount(Pipeline):
        source = TextFiles("corpus/*.txt", max_bytes_per_batch="4MB")
        state = SqlState("counts.db", table="counts", key=["word"], add=["count"])
        def process(self, batch):
            return batch.select(explode(split("value", " ")).alias("word")).groupBy("word").count()

docs/guides/pipelines.md explains the model, the sources and the sinks.
"""

from __future__ import annotations

from tupletree.spark.builder import PipelineBuilder
from tupletree.spark.pipeline import Pipeline
from tupletree.spark.sink import Sink, SinkScope
from tupletree.spark.source import Source

__all__ = [
    "Pipeline",
    "PipelineBuilder",
    "Sink",
    "SinkScope",
    "Source",
]
