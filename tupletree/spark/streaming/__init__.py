"""Streams in both directions between topologies and Spark Structured Streaming, through a shared directory.

    builder.set_bolt("out", ExportBatchBolt("/shared/counts", "word STRING, count BIGINT")).shuffle_grouping("count")
    spark.dataSource.register(TupletreeDataSource)
    counts = spark.readStream.format("tupletree").option("topology", "word-count").load()

    spout = TransactionalIngestSpout("/shared/scores", "word STRING, count BIGINT")
    builder = TransactionalTopologyBuilder("scores", "scores", spout)
    counts.writeStream.format("tupletree").option("topology", "scores").option("checkpointLocation", path).start()

Exactly once if the topology is transactional; at least once with ExportBolt and IngestSpout.
"""

from __future__ import annotations

from tupletree.spark.streaming.export import ExportBatchBolt, ExportBolt
from tupletree.spark.streaming.ingest import TransactionalIngestSpout
from tupletree.spark.streaming.ingest_spout import IngestSpout
from tupletree.spark.streaming.source import TupletreeDataSource

__all__ = ["ExportBatchBolt", "ExportBolt", "IngestSpout", "TransactionalIngestSpout", "TupletreeDataSource"]
