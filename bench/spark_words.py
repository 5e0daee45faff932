"""Common parts of both sides of bench.spark_word_count: the text, the job, and the journal of commits.

    python -m bench.spark_words DIRECTORY        Spark Structured Streaming over DIRECTORY/in, until it is ended

The streaming side is written as its users write it: one file per trigger, and the job in ``foreachBatch``. The counts
are added to an SQLite table in one transaction with the batch id, which is checked first. There is a checkpoint
directory.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from pathlib import Path
from pydoc_data.topics import topics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
}


def make_files(directory: Path, count: int, size: int) -> list[Path]:
    """Write ``count`` files of about ``size`` bytes of English: lines of Python's own help in random order."""
    lines = [line + "\n" for topic in topics.values() for line in topic.splitlines() if line.strip()]
    rng = random.Random(1)
    directory.mkdir(parents=True)
    files = []
    for number in range(count):
        text, length = [], 0
        while True:
            line = rng.choice(lines)
            length += len(line.encode())
            if length > size:
                break
            text.append(line)
        files.append(directory / f"{number:05}.txt")
        files[-1].write_text("".join(text))
    return files


def count_words(batch: DataFrame) -> DataFrame:
    """Return the count of each word in a batch."""
    import pyspark.sql.functions as F

    words = batch.select(F.explode(F.split(F.lower("value"), "[^a-z]+")).alias("word"))
    return words.where("word != ''").groupBy("word").count()


def write_down(journal: Path, number: int) -> None:
    """Append a commit to a journal: its batch and time."""
    out = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(out, f"{number} {time.time()}\n".encode())
    finally:
        os.close(out)


def commits(journal: Path) -> list[tuple[int, float]]:
    """Return the batches of a journal with their times."""
    whole = journal.read_text().rpartition("\n")[0] if journal.exists() else ""
    return [(int(number), float(at)) for number, at in map(str.split, whole.splitlines())]


def counted(database: Path) -> dict[str, int]:
    """Return the counts in the table of one side."""
    connection = sqlite3.connect(database)
    try:
        return dict(connection.execute("SELECT word, count FROM counts"))
    finally:
        connection.close()


class Table:
    """The table that ``foreachBatch`` writes, with the id of the last batch beside it."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE IF NOT EXISTS counts (word TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID",
            "CREATE TABLE IF NOT EXISTS batches (id INTEGER)",
        ):
            self._connection.execute(statement)

    def add(self, batch_id: int, rows: Any) -> None:
        """Add the counts of a batch, once."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        (last,) = connection.execute("SELECT coalesce(max(id), -1) FROM batches").fetchone()
        if batch_id > last:
            connection.executemany(
                "INSERT INTO counts VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET count = count + excluded.count",
                zip(rows.column("word").to_pylist(), rows.column("count").to_pylist(), strict=True),
            )
            connection.execute("DELETE FROM batches")
            connection.execute("INSERT INTO batches VALUES (?)", [batch_id])
        connection.execute("COMMIT")


def stream(directory: Path) -> None:
    """Run the streaming query until this process is ended."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("streaming")
    for key, value in {**SETTINGS, "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    table = Table(directory / "counts.db")

    def each(batch: DataFrame, batch_id: int) -> None:
        table.add(batch_id, count_words(batch).toArrow())
        write_down(directory / "journal", batch_id + 1)

    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(directory / "in"))
    query = lines.writeStream.foreachBatch(each).option("checkpointLocation", str(directory / "checkpoints")).start()
    write_down(directory / "ready", 0)
    query.awaitTermination()


if __name__ == "__main__":
    stream(Path(sys.argv[1]))
