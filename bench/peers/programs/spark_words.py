"""Word count on Spark Structured Streaming: split by a Python function, counted in the JVM or in Python state per key.

*jvm*: groupBy and count. *state*: a running count that Python keeps in Spark's state store, by
applyInPandasWithState. Both are micro-batches of a number of files, with checkpoints, written by foreachBatch.
"""

# pyspark's annotations are incomplete.
# mypy: disable-error-code="misc, no-any-return, no-untyped-call, untyped-decorator, import-not-found, import-untyped"

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from bench.peers.programs import marks
from bench.peers.programs.files import WarmedUp


class Counting:
    """A sink: adds up the last total of each word, batch by batch."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.totals: dict[str, int] = {}

    def write(self, batch: DataFrame, number: int) -> None:
        self.totals.update((row[0], row[1]) for row in batch.collect())
        marks.counted(self.directory, "totals", sum(self.totals.values()), time.monotonic())


def running_count(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Yield the total of one word."""
    total = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"word": [key[0]], "count": [total]})


def counts(lines: DataFrame, way: str) -> DataFrame:
    """Return the totals of the words that a batch changes."""
    split = sql.udf(lambda line: line.split(), "array<string>", useArrow=True)
    words = lines.select(sql.explode(split("value")).alias("word")).groupBy("word")
    if way == "jvm":
        return words.count()
    return words.applyInPandasWithState(
        running_count, "word string, count long", "count long", "update", GroupStateTimeout.NoTimeout
    )


def main() -> int:
    """Run until stopped from outside."""
    settings = marks.settings()
    builder = SparkSession.builder.master(f"local[{settings.parallelism}]").appName("word count")
    for key, value in settings.options["configuration"].items():
        builder = builder.config(key, value)
    spark = builder.config("spark.sql.shuffle.partitions", settings.parallelism).getOrCreate()
    files = WarmedUp(settings, settings.options["files"])
    lines = spark.readStream.option("maxFilesPerTrigger", settings.parallelism).text(files.directory)
    query = (
        counts(lines, settings.options["way"])
        .writeStream.outputMode("update")
        .option("checkpointLocation", tempfile.mkdtemp(prefix="checkpoint-"))
        .foreachBatch(Counting(settings.marks).write)
        .start()
    )
    files.start()
    query.awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main())
