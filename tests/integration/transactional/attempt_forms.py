"""A topology whose components each name the attempt or have it carried, with every grouping and kind of stream.

    numbers -fields-> split -partial key-> basic -global---------> end (committer)
                      split -all, "totals"-> watch -shuffle------> end
                      split -direct, "to"------------------------> end
    numbers -custom----------------------------------------------> end

Each bolt asserts what it sees of a tuple; ``end`` adds up what reaches it on each way, and fails a batch once.

A replay can shuffle a tuple to the other task of ``end``, after the first has written: a map that skips a transaction
which it has would count that tuple twice. So these sums are in an opaque map, and each task writes its own each time.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tupletree import BasicBolt
from tupletree.grouping import CustomGrouping
from tupletree.topology import direct
from tupletree.transactional import (
    BatchBolt,
    Committer,
    FailedException,
    OpaqueMap,
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    PartitionEmitter,
    SqliteDatabase,
    TransactionalMap,
    TransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionCoordinator,
    TransactionEmitter,
)

LAST, TAKE, PARTITIONS = 40, 7, 3
COMPONENTS = ("numbers", "split", "basic", "watch", "end")
FIELDS = {
    ("numbers", "default"): ("number", "parity"),
    ("split", "default"): ("parity", "number"),
    ("split", "totals"): ("sum",),
    ("split", "to"): ("number",),
    ("basic", "default"): ("parity", "tenfold"),
    ("watch", "default"): ("sum",),
}


def parity(number):
    return "odd" if number % 2 else "even"


class Form:
    """A component that is one of ``names`` declares the attempt, emits it and sees it."""

    def __init__(self, name, names):
        self.name, self.names = name, names
        self.is_naming = name in names
        before = ["attempt"] if self.is_naming else []
        self.outputs = {
            stream: direct([*before, *fields]) if stream == "to" else [*before, *fields]
            for (component, stream), fields in FIELDS.items()
            if component == name
        }

    def row(self, attempt, *values):
        return [attempt, *values] if self.is_naming else list(values)

    def check(self, tup, attempt=None):
        fields = FIELDS[tup.source_component, tup.source_stream]
        sees = self.is_naming or (not self.outputs and tup.source_component in self.names)
        assert tup.fields == (("attempt", *fields) if sees else fields), (self.name, tup)
        assert len(tup.values) == len(tup) == len(tup.fields)
        if sees and attempt is not None:
            assert tup[0] == tup["attempt"] == tup.values[0] == attempt
        assert ("attempt" in tup) == sees
        assert tup.select(fields) == tup.values[-len(fields) :]
        assert f"{fields[0]}={tup[fields[0]]!r}" in repr(tup)


# Spouts: three kinds of the same numbers, each partition p has the numbers with number % PARTITIONS == p


def numbers(partition, start, end):
    return [number for number in range(start, end) if number % PARTITIONS == partition]


class Source(Form):
    def __init__(self, names):
        super().__init__("numbers", names)

    def emit(self, collector, attempt, partition, start, end):
        for number in numbers(partition, start, end):
            collector.emit(self.row(attempt, number, parity(number)))


class Ranges(TransactionCoordinator):
    start = 0

    def is_ready(self):
        return self.start < LAST

    def initialize_transaction(self, txid, previous):
        start = previous[1] if previous else 0
        self.start = min(start + TAKE, LAST)
        return [start, self.start]


class RangeEmitter(TransactionEmitter):
    def __init__(self, source, index, tasks):
        self.source, self.index, self.tasks = source, index, tasks

    def emit_batch(self, attempt, metadata, collector):
        for partition in range(self.index, PARTITIONS, self.tasks):
            self.source.emit(collector, attempt, partition, *metadata)


class Generic(Source, TransactionalSpout):
    def coordinator(self, conf, context):
        return Ranges()

    def emitter(self, conf, context):
        return RangeEmitter(self, context.task_index, len(context.component_tasks("numbers")))


class Parts(PartitionCoordinator):
    def num_partitions(self):
        return PARTITIONS

    def has_more(self, partition, newest):
        return newest is None or newest[1] < LAST


class PartEmitter(PartitionEmitter):
    def __init__(self, source):
        self.source = source

    def emit_partition_batch_new(self, attempt, collector, partition, previous):
        start = previous[1] if previous else 0
        metadata = [start, min(start + TAKE, LAST)]
        self.emit_partition_batch(attempt, collector, partition, metadata)
        return metadata

    def emit_partition_batch(self, attempt, collector, partition, metadata):
        self.source.emit(collector, attempt, partition, *metadata)


class OpaquePartEmitter(OpaquePartitionEmitter):
    def __init__(self, source):
        self.emitter = PartEmitter(source)

    def emit_partition_batch(self, attempt, collector, partition, previous):
        return self.emitter.emit_partition_batch_new(attempt, collector, partition, previous)


class Partitioned(Source, PartitionedTransactionalSpout):
    def coordinator(self, conf, context):
        return Parts()

    def emitter(self, conf, context):
        return PartEmitter(self)


class Opaque(Source, OpaquePartitionedTransactionalSpout):
    def coordinator(self, conf, context):
        return Parts()

    def emitter(self, conf, context):
        return OpaquePartEmitter(self)


SPOUTS = {"generic": Generic, "partitioned": Partitioned, "opaque": Opaque}


# Bolts


class Split(Form, BatchBolt):
    def prepare(self, conf, context, collector, batch_id):
        self.sum = 0
        self.ends = context.component_tasks("end")

    def execute(self, tup):
        self.check(tup, self.batch_id)
        number = tup["number"]
        self.sum += number
        self.collector.emit_direct(self.ends[number % len(self.ends)], self.row(self.batch_id, number), "to")
        yield self.row(self.batch_id, tup["parity"], number)

    def finish_batch(self):
        self.collector.emit(self.row(self.batch_id, self.sum), "totals")


class Tenfold(Form, BasicBolt):
    def execute(self, tup, collector):
        self.check(tup)
        attempt = tup[0] if self.is_naming else None
        collector.emit(self.row(attempt, tup["parity"], 10 * tup["number"]))


class Watch(Form, BatchBolt):
    def execute(self, tup):
        self.check(tup, self.batch_id)
        self.collector.emit_many([self.row(self.batch_id, tup["sum"])])


class End(Form, BatchBolt, Committer):
    def __init__(self, names, directory, table, shuffled):
        super().__init__("end", names)
        if self.is_naming:
            self.outputs = ["attempt"]
        self.once, self.table, self.shuffled = Path(directory, "failed"), table, shuffled

    def prepare(self, conf, context, collector, batch_id):
        self.sums, self.shuffled_sum = Counter(), 0

    def execute(self, tup):
        self.check(tup, self.batch_id)
        if tup.source_component == "watch":
            self.shuffled_sum += tup["sum"]
            return
        route = f"{tup.source_component}/{tup.source_stream} {self.context.task_index}"
        self.sums[route] += tup.values[-1] if tup.source_component != "numbers" else tup["number"]

    def finish_batch(self):
        self.table.add(self.batch_id, self.sums)
        self.shuffled.add(self.batch_id, {f"watch/default {self.context.task_index}": self.shuffled_sum})
        if self.batch_id.txid == 2 and not self.once.exists():
            self.once.touch()
            raise FailedException("once")


class ByNumber(CustomGrouping):
    """To a task by the number, which is the first value that the receiver sees, but for an attempt."""

    def __init__(self, sees):
        self.sees = sees

    def prepare(self, context, stream, target_tasks):
        self.tasks = target_tasks

    def choose_tasks(self, task_id, values):
        assert len(values) == (3 if self.sees else 2), values
        return [self.tasks[values[1 if self.sees else 0] % len(self.tasks)]]


def table_of(kind, directory):
    return (OpaqueMap if kind == "opaque" else TransactionalMap)(SqliteDatabase(Path(directory, "sums.db")), "sums")


def shuffled_table(directory):
    return OpaqueMap(SqliteDatabase(Path(directory, "sums.db")), "shuffled")


def build(kind, names, directory):
    """The topology over a kind of spout, in which the components ``names`` name the attempt."""
    builder = TransactionalTopologyBuilder(f"{kind}-{'-'.join(names)}", "numbers", SPOUTS[kind](names), 2)
    builder.set_bolt("split", Split("split", names), 3).fields_grouping("numbers", ["parity"])
    builder.set_bolt("basic", Tenfold("basic", names), 2).partial_key_grouping("split", ["parity"])
    builder.set_bolt("watch", Watch("watch", names), 2).all_grouping("split", "totals")
    end = builder.set_bolt("end", End(names, directory, table_of(kind, directory), shuffled_table(directory)), 2)
    end.global_grouping("basic").direct_grouping("split", "to").shuffle_grouping("watch")
    end.custom_grouping("numbers", ByNumber(bool({"end", "numbers"} & set(names))))
    return builder.create_topology()


def sums(kind, directory):
    """What reached ``end`` on each way, at each of its tasks; the tasks that ``watch`` chose are added up."""
    shuffled = shuffled_table(directory).items().values()
    return {**table_of(kind, directory).items(), "watch/default": sum(shuffled)}


def expected():
    whole = range(LAST)
    return {
        "basic/default 0": 10 * sum(whole),
        "watch/default": 2 * sum(whole),
        "split/to 0": sum(whole[0::2]),
        "split/to 1": sum(whole[1::2]),
        "numbers/default 0": sum(whole[0::2]),
        "numbers/default 1": sum(whole[1::2]),
    }
