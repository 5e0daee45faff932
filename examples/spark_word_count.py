r"""Word count on Spark: every word of every line counts exactly once, whatever process dies.

    tupletree submit examples/spark_word_count.py --name spark-word-count

A batch is a range of bytes of the files. Spark counts the words of several batches at once. The batches are added to
the table in order, each in one SQLite transaction that also records the batch. So a batch that is replayed, because
Spark, its driver or another process died, is recognised and counts once. Files may grow, and new files may appear.

The input and the table can be configured:

    LINES=/var/log/*.log DATABASE=/tmp/words.db tupletree submit examples/spark_word_count.py
"""

import os
import re
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tupletree import Topology
from tupletree.spark import Pipeline
from tupletree.spark.sinks.sql import SqlState
from tupletree.spark.sources.text import TextFiles

ID = "spark-word-count"
TABLE = "words"
SPARK = {"spark.master": "local[2]", "spark.ui.enabled": False, "spark.driver.memory": "1g"}
CONF = {**SPARK, "topology.max.spout.pending": 4}  # batches at a time


class WordCount(Pipeline):
    transactional_id = ID

    def __init__(self, lines: str, database: str, max_bytes_per_batch: int | str) -> None:
        self.source = TextFiles(lines, max_bytes_per_batch)
        self.state = SqlState(database, TABLE, key="word", add="count")

    def process(self, batch: DataFrame) -> DataFrame:
        words = F.regexp_extract_all(F.lower("value"), F.lit("[a-z]+"), F.lit(0))
        return batch.select(F.explode(words).alias("word")).groupBy("word").count()


def topology(
    lines: str | None = None, database: str | None = None, max_bytes_per_batch: int | str = "64KB"
) -> tuple[Topology, dict[str, object]]:
    """Count files (by default some of Python's own) into a table (by default a new one); return topology and config."""
    lines = lines or os.environ.get("LINES") or str(Path(re.__file__).parent)
    database = database or os.environ.get("DATABASE") or str(Path(tempfile.mkdtemp(prefix=f"{ID}-"), "words.db"))
    return WordCount(lines, database, max_bytes_per_batch).topology(), dict(CONF)
