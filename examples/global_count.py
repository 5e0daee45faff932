"""Global count: the total number of words. Each word counts exactly once, whatever process dies.

    tupletree local examples/global_count.py --seconds 5
    tupletree submit examples/global_count.py --name global-count -c topology.max.spout.pending=4

The words come in batches. Many batches are counted in parallel; then their counts are added to the total, one batch
after the other. The total is stored together with the id of the last transaction that it includes. So a batch that is
replayed, because a process died before everybody knew that the batch was added, is not added again.
"""

import tempfile
from pathlib import Path
from pydoc_data.topics import topics

from tupletree import Topology, Tuple
from tupletree.transactional import (
    BatchBolt,
    Committer,
    MemoryTransactionalSpout,
    SqliteDatabase,
    TransactionalMap,
    TransactionalTopologyBuilder,
)

WORDS = [[word] for word in topics["specialnames"].split()]  # some 8,500, from Python's built-in help
DATA = {0: WORDS[0::3], 1: WORDS[1::3], 2: WORDS[2::3]}  # three partitions
TAKE = 100  # words from each partition for a batch


class BatchCount(BatchBolt):
    """Counts its share of a batch. There is one object per batch."""

    outputs = ["count"]

    def setup(self) -> None:
        self.count = 0

    def execute(self, tup: Tuple) -> None:
        self.count += 1

    def finish_batch(self) -> None:
        self.collector.emit([self.count])


class UpdateGlobalCount(BatchBolt, Committer):
    """Adds the counts of a batch to the total. As a committer, it handles one batch after the other."""

    outputs = ["total"]

    def __init__(self, totals: TransactionalMap) -> None:
        self.totals = totals

    def setup(self) -> None:
        self.sum = 0

    def execute(self, tup: Tuple) -> None:
        self.sum += tup["count"]

    def finish_batch(self) -> None:
        total = self.totals.add(self.batch_id, {"words": self.sum})["words"]
        print(f"{self.batch_id}: {self.sum} words more, {total} in all")
        self.collector.emit([total])


def topology(directory: str | None = None) -> Topology:
    """Count into an SQLite file in ``directory`` (by default a new temporary directory)."""
    file = Path(directory or tempfile.mkdtemp(prefix="global-count-"), "totals.db")
    totals = TransactionalMap(SqliteDatabase(file), "totals")
    builder = TransactionalTopologyBuilder("global-count", "words", MemoryTransactionalSpout(DATA, ["word"], TAKE), 3)
    builder.set_bolt("partial-count", BatchCount(), 5).shuffle_grouping("words")
    builder.set_bolt("sum", UpdateGlobalCount(totals)).global_grouping("partial-count")
    return builder.create_topology()
