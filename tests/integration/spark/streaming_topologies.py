"""Two transactional topologies: one that exports numbers, and one that adds up what it ingests."""

from __future__ import annotations

from pathlib import Path

from tupletree.spark.streaming import ExportBatchBolt, TransactionalIngestSpout
from tupletree.transactional import (
    BatchBolt,
    Committer,
    SqliteDatabase,
    TransactionalMap,
    TransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionCoordinator,
    TransactionEmitter,
)

SIZE = 20
WORDS = ["to", "be", "or", "not"]


class UpTo(TransactionCoordinator):
    """As many transactions as a file says."""

    def __init__(self, limit):
        self.limit = Path(limit)
        self.begun = 0

    def is_ready(self):
        return self.begun < int(self.limit.read_text())

    def initialize_transaction(self, txid, previous):
        self.begun = txid
        return txid


class Share(TransactionEmitter):
    def __init__(self, index, tasks):
        self.index, self.tasks = index, tasks

    def emit_batch(self, attempt, metadata, collector):
        for number in range(metadata * SIZE, (metadata + 1) * SIZE):
            if number % self.tasks == self.index:
                collector.emit([WORDS[number % len(WORDS)], number])


class Numbers(TransactionalSpout):
    """Transaction n is the numbers from 20n on, twenty of them."""

    outputs = ["word", "number"]

    def __init__(self, limit):
        self.limit = str(limit)

    def coordinator(self, conf, context):
        return UpTo(self.limit)

    def emitter(self, conf, context):
        return Share(context.task_index, len(context.component_tasks(context.component_id)))


class Add(BatchBolt, Committer):
    """How many numbers came with each word, and their sum."""

    def __init__(self, totals):
        self.totals, self.changes = totals, {}

    def execute(self, tup):
        for key, number in (f"{tup['text']} count", 1), (f"{tup['text']} sum", tup["number"]):
            self.changes[key] = self.changes.get(key, 0) + number

    def finish_batch(self):
        self.totals.add(self.batch_id, self.changes)


def totals(directory):
    return TransactionalMap(SqliteDatabase(Path(directory, "totals.db")), "totals")


def exporting(directory):
    builder = TransactionalTopologyBuilder("exporting", "numbers", Numbers(Path(directory, "limit")), parallelism=2)
    export = ExportBatchBolt(Path(directory, "out"), "word STRING, number BIGINT", stream="numbers")
    builder.set_bolt("out", export, 2).shuffle_grouping("numbers")
    return builder.create_topology()


def ingesting(directory):
    spout = TransactionalIngestSpout(Path(directory, "in"), "number BIGINT, text STRING")
    builder = TransactionalTopologyBuilder("ingesting", "in", spout, parallelism=2)
    builder.set_bolt("add", Add(totals(directory))).global_grouping("in")
    return builder.create_topology()


def truth(transactions):
    """What the totals are when the numbers of so many transactions went through the query, each once."""
    expected = {}
    for number in range(SIZE, (transactions + 1) * SIZE):
        if number % 3:
            word = WORDS[number % len(WORDS)].upper()
            expected[f"{word} count"] = expected.get(f"{word} count", 0) + 1
            expected[f"{word} sum"] = expected.get(f"{word} sum", 0) + number
    return expected
