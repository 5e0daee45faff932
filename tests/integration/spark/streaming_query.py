"""A Structured Streaming query from one topology to another, as a process: nimbus, checkpoint."""

from __future__ import annotations

import sys

from local_spark import LOCAL
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tupletree.spark import session
from tupletree.spark.streaming import TupletreeDataSource


def start(spark: SparkSession, nimbus: str, checkpoint: str) -> None:
    spark.dataSource.register(TupletreeDataSource)
    source = spark.readStream.format("tupletree").option("nimbus", nimbus)
    numbers = source.option("topology", "exporting").option("stream", "numbers").option("maxBytesPerTrigger", 6000)
    changed = numbers.load().where("number % 3 <> 0").select(f.upper("word").alias("text"), "number")
    sink = changed.writeStream.format("tupletree").option("nimbus", nimbus).option("topology", "ingesting")
    sink.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    start(session.acquire(LOCAL), *sys.argv[1:])
