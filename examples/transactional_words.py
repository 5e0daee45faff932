"""Transactional words: two databases, updated in one transaction, and exact whatever process dies.

    tupletree submit examples/transactional_words.py --name transactional-words

The lines of some text files, which may still grow, are split into words. One database stores the count of each word;
the other stores how many words occur 1 to 9 times, how many 10 to 19 times, and so on:

    lines --> count --> update-words --> bucketize --> update-buckets
              partial   committer        basic bolt    committer

A batch changes both databases in its commit phase. If the batch is replayed, each database detects that it has already
been changed and returns the same result as before. So the buckets receive the same input, even if the first attempt did
not reach them.
"""

import re
import tempfile
from collections import Counter
from pathlib import Path

from tupletree import BasicBolt, Topology, Tuple
from tupletree.collector import BasicCollector
from tupletree.transactional import (
    BatchBolt,
    Committer,
    FilePartitionSpout,
    SqliteDatabase,
    TransactionalMap,
    TransactionalTopologyBuilder,
)

ID = "transactional-words"
BUCKET = 10


def words(line: str) -> list[str]:
    return re.findall(r"[a-z]+", line.lower())


def bucket(count: int) -> str:
    """Return the bucket of a word with this count."""
    lowest = count - count % BUCKET
    return f"{lowest}-{lowest + BUCKET - 1}"


class Count(BatchBolt):
    """Counts the words in its share of the lines of a batch."""

    outputs = ["word", "count"]

    def setup(self) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Tuple) -> None:
        self.counts.update(words(tup["line"]))

    def finish_batch(self) -> None:
        for word, count in self.counts.items():
            self.collector.emit([word, count])


class UpdateWords(BatchBolt, Committer):
    """Adds the counts of a batch to its words, and emits the old and the new count of each."""

    outputs = ["old", "new"]

    def __init__(self, table: TransactionalMap) -> None:
        self.table = table

    def setup(self) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Tuple) -> None:
        self.counts[tup["word"]] += tup["count"]

    def finish_batch(self) -> None:
        for word, new in self.table.add(self.batch_id, self.counts).items():
            self.collector.emit([new - self.counts[word], new])


class Bucketize(BasicBolt):
    """Moves a word to another bucket when its count has grown enough."""

    outputs = ["bucket", "words"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        old, new = tup.values
        if old == 0:
            collector.emit([bucket(new), 1])
        elif bucket(old) != bucket(new):
            collector.emit([bucket(old), -1])
            collector.emit([bucket(new), 1])


class UpdateBuckets(BatchBolt, Committer):
    """Adds up the number of words that entered and left each bucket."""

    def __init__(self, table: TransactionalMap) -> None:
        self.table = table

    def setup(self) -> None:
        self.moves: Counter[str] = Counter()

    def execute(self, tup: Tuple) -> None:
        self.moves[tup["bucket"]] += tup["words"]

    def finish_batch(self) -> None:
        self.table.add(self.batch_id, self.moves)


def tables(directory: str) -> tuple[TransactionalMap, TransactionalMap]:
    """Return the tables word -> count and bucket -> number of words, each in a database of its own."""
    words = SqliteDatabase(Path(directory, "words.db"))
    buckets = SqliteDatabase(Path(directory, "buckets.db"))
    return TransactionalMap(words, "words"), TransactionalMap(buckets, "buckets")


def topology(lines_dir: str | None = None, directory: str | None = None, max_bytes_per_batch: int = 16_384) -> Topology:
    """Count the files in ``lines_dir`` (by default some of Python's own) into ``directory`` (by default a new one)."""
    word_table, bucket_table = tables(directory or tempfile.mkdtemp(prefix="transactional-words-"))
    spout = FilePartitionSpout(lines_dir or Path(re.__file__).parent, max_bytes_per_batch)
    builder = TransactionalTopologyBuilder(ID, "lines", spout, 2)
    builder.set_bolt("count", Count(), 2).shuffle_grouping("lines")
    builder.set_bolt("update-words", UpdateWords(word_table), 2).fields_grouping("count", ["word"])
    builder.set_bolt("bucketize", Bucketize(), 2).shuffle_grouping("update-words")
    builder.set_bolt("update-buckets", UpdateBuckets(bucket_table), 2).fields_grouping("bucketize", ["bucket"])
    return builder.create_topology()
