"""A small transactional source and bolts that write down what happens to them."""

from __future__ import annotations

from collections import Counter

from local_components import Shared

from tupletree.errors import FailedException
from tupletree.transactional.bolts import BatchBolt, Committer
from tupletree.transactional.spouts import TransactionalSpout, TransactionCoordinator, TransactionEmitter

SIZE = 10


class Story(Shared):
    """What all copies of a test's components saw, in order."""

    def __init__(self):
        super().__init__()
        self.events = []
        self.seen = Counter()

    def tell(self, *event):
        self.events.append(event)
        self.seen[event] += 1

    def of(self, what):
        return [event[1:] for event in self.events if event[0] == what]


class Counting(TransactionCoordinator):
    """Transaction n is the numbers from 10n up to 10n + 9."""

    def __init__(self, last):
        self.last = last
        self.begun = 0

    def is_ready(self):
        return self.last is None or self.begun < self.last

    def initialize_transaction(self, txid, previous):
        assert previous == (None if txid == 1 else (txid - 1) * SIZE)
        self.begun = txid
        return txid * SIZE


class Stretch(TransactionEmitter):
    def __init__(self, index, tasks, size):
        self.index, self.tasks, self.size = index, tasks, size

    def emit_batch(self, attempt, metadata, collector):
        collector.emit_many(
            [attempt, number] for number in range(metadata, metadata + self.size()) if number % self.tasks == self.index
        )


class Numbers(TransactionalSpout):
    """``last`` transactions, or without end."""

    outputs = ["attempt", "number"]

    def __init__(self, last=None, size=lambda: SIZE):
        self.last, self.size = last, size

    def coordinator(self, conf, context):
        return Counting(self.last)

    def emitter(self, conf, context):
        return Stretch(context.task_index, len(context.component_tasks(context.component_id)), self.size)


class Gather(BatchBolt):
    """Passes the batch's sum on; tells the story; fails as often as it is told to, at (txid, point)."""

    outputs = ["attempt", "sum"]

    def __init__(self, name, story, fails=()):
        self.name, self.story, self.fails = name, story, Counter(fails)
        self.numbers = []

    def prepare(self, conf, context, collector, batch_id):
        self.story.tell("prepare", self.name, batch_id.txid)

    def execute(self, tup):
        assert tup[0] == self.batch_id
        self.numbers.append(tup[1])
        self.fail_at("execute")

    def finish_batch(self):
        self.fail_at("finish")
        self.story.tell("finish", self.name, self.batch_id.txid, sum(self.numbers))
        self.collector.emit([self.batch_id, sum(self.numbers)])

    def fail_at(self, point):
        at = (self.batch_id.txid, point)
        self.story.tell("at", self.name, *at)
        if self.story.seen["at", self.name, *at] <= self.fails[at]:
            raise FailedException(f"told to fail at {at}")


class Commit(Gather, Committer):
    """The same as a committer."""
