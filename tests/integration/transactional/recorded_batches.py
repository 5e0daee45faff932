"""A transactional source and bolts for topologies in other processes, which tell what happens through one file.

Transaction n is the number n, which its metadata says: one more than that of the transaction before.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from tupletree.transactional import (
    BatchBolt,
    Committer,
    GroupCommitter,
    SqliteDatabase,
    TransactionalMap,
    TransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionCoordinator,
    TransactionEmitter,
)

PATIENCE_S = 60


class Event(NamedTuple):
    what: str
    txid: int
    attempt: int


class Record:
    """Events in the order in which they were told, whoever told them: each is one write that a kill cannot cut."""

    def __init__(self, path):
        self.path = Path(path)

    def tell(self, what, attempt):
        out = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(out, f"{what} {attempt.txid} {attempt.attempt}\n".encode())
        finally:
            os.close(out)

    def events(self):
        whole = self.path.read_text().rpartition("\n")[0] if self.path.exists() else ""
        return [Event(what, int(txid), int(attempt)) for what, txid, attempt in map(str.split, whole.splitlines())]

    def of(self, what):
        """The txids of such events."""
        return [event.txid for event in self.events() if event.what == what]


class Ascending(TransactionCoordinator):
    def __init__(self, last):
        self.last = last
        self.begun = 0

    def is_ready(self):
        return self.last is None or self.begun < self.last

    def initialize_transaction(self, txid, previous):
        self.begun = txid
        return 1 if previous is None else previous + 1


class One(TransactionEmitter):
    def emit_batch(self, attempt, metadata, collector):
        collector.emit([metadata])


class Numbers(TransactionalSpout):
    """``last`` transactions, or without end."""

    outputs = ["number"]

    def __init__(self, last=None):
        self.last = last

    def coordinator(self, conf, context):
        return Ascending(self.last)

    def emitter(self, conf, context):
        return One()


class WaitForCompany(BatchBolt):
    """Batches come in groups of ``company``: none ends before all of its group have begun."""

    outputs = ["number"]
    blocking = True

    def __init__(self, record, company):
        self.record, self.company = record, company

    def execute(self, tup):
        self.record.tell("begin", self.batch_id)
        group = -(-self.batch_id.txid // self.company) * self.company  # the last transaction of its group
        deadline = time.monotonic() + PATIENCE_S
        while max(self.record.of("begin")) < group and time.monotonic() < deadline:
            time.sleep(0.01)
        self.collector.emit([tup["number"]])


class Add(BatchBolt, Committer):
    """Adds to the number of batches and to the sum of numbers, and tells of each commit."""

    def __init__(self, record, totals):
        self.record, self.totals = record, totals
        self.numbers = []

    def execute(self, tup):
        self.numbers.append(tup["number"])

    def finish_batch(self):
        self.totals.add(self.batch_id, {"batches": 1, "sum": sum(self.numbers)})
        self.record.tell("commit", self.batch_id)


class AddInGroups(Add, GroupCommitter):
    """The same for transactions that commit in groups."""


def totals(directory, *, in_groups=False):
    return TransactionalMap(SqliteDatabase(Path(directory, "totals.db")), "totals", in_groups=in_groups)


def exact(batches):
    """What the totals are after so many batches, each once."""
    return {"batches": batches, "sum": batches * (batches + 1) // 2}


def adding(transactional_id, directory, last=None, spout=None, *, in_groups=False):
    """The numbers, added up in ``directory``."""
    builder = TransactionalTopologyBuilder(transactional_id, "numbers", spout or Numbers(last))
    add = (AddInGroups if in_groups else Add)(Record(Path(directory, "record")), totals(directory, in_groups=in_groups))
    builder.set_bolt("add", add).global_grouping("numbers")
    return builder.create_topology()
