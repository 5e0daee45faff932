"""Global count: how many words there are. Each counts exactly once, whatever dies on the way.

    tupletree local examples/global_count.py --seconds 5
    tupletree submit examples/global_count.py --name global-count -c topology.max.spout.pending=4

The words come in batches. Each batch is counted in parallel, many batches at a time; then its count is added to the
total, one batch after the other. The total is stored together with the number of the transaction that it includes last:
so a batch that is replayed, because something died before everybody knew that it was added, is not added again.
"""

import tempfile
from pathlib import Path
from pydoc_data.topics import topics

from tupletree import Topology
from tupletree.transactional import (
    BatchBolt,
    Committer,
    MemoryTransactionalSpout,
    SqliteDatabase,
    TransactionalMap,
    TransactionalTopologyBuilder,
)

WORDS = [[word] for word in topics["specialnames"].split()]  # some 8,500, from the help that Python carries
DATA = {0: WORDS[0::3], 1: WORDS[1::3], 2: WORDS[2::3]}  # three partitions
TAKE = 100  # words from each partition for a batch


class BatchCount(BatchBolt):
    """Counts its share of a batch: there is one object of it for each batch."""

    outputs = ["attempt", "count"]  # the first value of every tuple says which batch it belongs to

    def prepare(self, conf, context, collector, batch_id):
        self.count = 0

    def execute(self, tup):
        self.count += 1

    def finish_batch(self):
        self.collector.emit([self.batch_id, self.count])


class UpdateGlobalCount(BatchBolt, Committer):
    """Adds the counts of a batch to the total: as a committer, for one batch after the other."""

    outputs = ["attempt", "total"]

    def __init__(self, totals):
        self.totals = totals

    def prepare(self, conf, context, collector, batch_id):
        self.sum = 0

    def execute(self, tup):
        self.sum += tup["count"]

    def finish_batch(self):
        total = self.totals.add(self.batch_id, {"words": self.sum})["words"]
        print(f"{self.batch_id}: {self.sum} words more, {total} in all")
        self.collector.emit([self.batch_id, total])


def topology(directory: str | None = None) -> Topology:
    """Counts into an SQLite file in ``directory`` (by default a new one in the system's own)."""
    file = Path(directory or tempfile.mkdtemp(prefix="global-count-"), "totals.db")
    totals = TransactionalMap(SqliteDatabase(file), "totals")
    builder = TransactionalTopologyBuilder("global-count", "words", MemoryTransactionalSpout(DATA, ["word"], TAKE), 3)
    builder.set_bolt("partial-count", BatchCount(), 5).shuffle_grouping("words")
    builder.set_bolt("sum", UpdateGlobalCount(totals)).global_grouping("partial-count")
    return builder.create_topology()
