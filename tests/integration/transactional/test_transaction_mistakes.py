"""What a user can get wrong in a transactional topology, and the one sentence that says so."""

from __future__ import annotations

import random
import threading

import pytest
from batch_components import SIZE, Commit, Counting, Gather, Numbers, Story, Stretch

from tupletree import BasicBolt
from tupletree._stores import memory_nodes, node_encoding
from tupletree._stores.nodes import Create, DeposedError
from tupletree.attempt import TransactionAttempt
from tupletree.errors import EmitError, ReportedFailedException, TaskFailedError, TopologyError
from tupletree.testing import LocalCluster
from tupletree.transactional import layout
from tupletree.transactional.bolts import BatchBolt, Committer
from tupletree.transactional.builder import TransactionalTopologyBuilder
from tupletree.transactional.spouts import (
    CommittingEmitter,
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    PartitionEmitter,
    TransactionalSpout,
)


@pytest.fixture
def cluster():
    with LocalCluster() as local:
        yield local


def builder(spout=None):
    return TransactionalTopologyBuilder("numbers", "numbers", spout or Numbers(), 2)


def failure_of(cluster, one, **conf):
    """What ends the worker of a topology."""
    cluster.submit("numbers", one.create_topology(), conf)
    with pytest.raises(TaskFailedError) as caught:
        cluster.wait_until(lambda: False)
    return caught.value.__cause__


class Emits(BatchBolt):
    """Emits what a function makes of its batch."""

    outputs = ["attempt", "value"]

    def __init__(self, make):
        self.make = make

    def execute(self, tup):
        pass

    def finish_batch(self):
        self.collector.emit(self.make(self.batch_id))


class KeepsTheCollector(BatchBolt):
    outputs = ["attempt"]
    kept = []  # of the class: shared by all batches, as a careless author might

    def execute(self, tup):
        pass

    def finish_batch(self):
        for collector, attempt in self.kept:
            collector.emit([attempt])
        self.kept.append((self.collector, self.batch_id))


class Forgets(BasicBolt):
    outputs = ["attempt", "number"]

    def execute(self, tup, collector):
        collector.emit([tup["number"], tup["number"]])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda attempt: [7, 7], "emitted a tuple on stream 'default' whose first value is 7"),
        (lambda attempt: [tuple(attempt), 7], "whose first value is (1, "),
        (lambda attempt: [], "whose first value is None"),
        (lambda attempt: [TransactionAttempt(99, 1), 7], "emitted a tuple of transaction 99 (attempt 0.1) on stream"),
        (lambda attempt: [attempt], "emitted 1 value on stream 'default', which declares 2: attempt, value"),
    ],
)
def test_a_tuple_without_the_attempt_of_its_batch_is_refused(cluster, make, said):
    one = builder()
    one.set_bolt("emits", Emits(make)).global_grouping("numbers")
    error = failure_of(cluster, one)
    assert isinstance(error, EmitError)
    assert str(error).startswith("component 'emits' emitted")
    assert said in str(error)


def test_a_basic_bolt_that_forgets_the_attempt_is_told(cluster):
    one = builder()
    one.set_bolt("forgets", Forgets()).global_grouping("numbers")
    assert "component 'forgets' emitted a tuple on stream 'default' whose first value is" in str(
        failure_of(cluster, one)
    )


def test_a_batch_that_is_finished_emits_no_more(cluster):
    one = builder()
    one.set_bolt("keeps", KeepsTheCollector()).global_grouping("numbers")
    assert "after that batch was finished" in str(failure_of(cluster, one))


def test_a_spout_that_emits_another_batch_for_the_same_transaction_is_reported(cluster):
    story = Story()
    one = builder(Numbers(1, size=lambda: random.randrange(SIZE)))
    one.set_bolt("fails", Gather("fails", story, {(1, "finish"): 10_000})).global_grouping("numbers")
    cluster.submit("numbers", one.create_topology())
    component, error = cluster.wait_until(lambda: next(iter(cluster.errors("numbers")), None))
    assert (component, type(error)) == ("numbers", ReportedFailedException)
    assert "a transactional spout must emit the same batch for the same transaction" in str(error)
    assert "transaction 1: emitted" in str(error)


class NeverSays(Counting):
    def is_ready(self):
        self.begun += 1  # and forgets to return anything


class Silent(Numbers):
    def coordinator(self, conf, context):
        return NeverSays(self.last)


def test_a_spout_that_does_not_say_whether_it_is_ready_is_told(cluster):
    one = builder(Silent())
    one.set_bolt("sum", Commit("sum", Story())).global_grouping("numbers")
    cluster.submit("numbers", one.create_topology())
    component, error = cluster.wait_until(lambda: next(iter(cluster.errors("numbers")), None))
    assert component == "numbers:coordinator"
    assert str(error) == "component 'numbers:coordinator': is_ready returned None; True or False was expected"


class EmitsElsewhere(Emits):
    def finish_batch(self):
        self.collector.emit([self.batch_id, 7], stream="elsewhere")


def test_an_unknown_stream_is_refused_with_the_streams_that_the_user_declared(cluster):
    one = builder()
    one.set_bolt("emits", EmitsElsewhere(None)).global_grouping("numbers")
    assert str(failure_of(cluster, one)) == (
        "component 'emits' emitted on stream 'elsewhere', which it does not declare (declared: default)"
    )


class CommittingStretch(Stretch, CommittingEmitter):
    def commit(self, attempt):
        pass


class Unmarked(Numbers):
    def emitter(self, conf, context):
        return CommittingStretch(context.task_index, 2, self.size)


class Marked(Numbers, Committer):
    pass


@pytest.mark.parametrize(
    ("spout", "said"),
    [
        (Unmarked(), "component 'numbers': Unmarked has an emitter that commits, but is not marked as Committer"),
        (Marked(), "component 'numbers': Marked has no emitter that commits, but is marked as Committer"),
    ],
)
def test_a_spout_that_commits_must_say_so_and_do_so(cluster, spout, said):
    one = builder(spout)
    one.set_bolt("sum", Commit("sum", Story())).global_grouping("numbers")
    assert str(failure_of(cluster, one)) == said


class Made:
    """Has the coordinator and the emitter that it is given."""

    outputs = ["attempt", "number"]

    def __init__(self, coordinator=None, emitter=None):
        self.made = {"coordinator": coordinator, "emitter": emitter}

    def coordinator(self, conf, context):
        return self.made["coordinator"]

    def emitter(self, conf, context):
        return self.made["emitter"]


class Plain(Made, TransactionalSpout):
    pass


class Makes(Made, PartitionedTransactionalSpout):
    pass


class MakesOpaque(Made, OpaquePartitionedTransactionalSpout):
    pass


class Two(PartitionCoordinator):
    def num_partitions(self):
        return 2


class ReturnsNothing(PartitionEmitter, OpaquePartitionEmitter):
    def emit_partition_batch_new(self, attempt, collector, partition, previous):
        collector.emit([attempt, previous or 0])

    def emit_partition_batch(self, attempt, collector, partition, previous):
        collector.emit([attempt, previous or 0])


@pytest.mark.parametrize(
    ("spout", "said"),
    [
        (
            Plain(Counting(1)),
            "emitter of Plain returned None; an object of a subclass of TransactionEmitter was expected",
        ),
        (
            Plain(emitter=Stretch(0, 1, lambda: 1)),
            "coordinator of Plain returned None; an object of a subclass of TransactionCoordinator was expected",
        ),
        (Makes(Two()), "emitter of Makes returned None; an object of a subclass of PartitionEmitter was expected"),
        (
            Makes(emitter=ReturnsNothing()),
            "coordinator of Makes returned None; an object of a subclass of PartitionCoordinator was expected",
        ),
        (
            MakesOpaque(Two()),
            "emitter of MakesOpaque returned None; an object of a subclass of OpaquePartitionEmitter was expected",
        ),
        (Makes(Two(), ReturnsNothing()), ": 1 tuples were emitted and None was returned; the metadata of the batch"),
        (
            MakesOpaque(Two(), ReturnsNothing()),
            ": 1 tuples were emitted and None was returned; the metadata of the batch",
        ),
    ],
)
def test_a_spout_whose_methods_return_nothing_is_told(cluster, spout, said):
    one = builder(spout)
    one.set_bolt("sum", Commit("sum", Story())).global_grouping("numbers")
    error = str(failure_of(cluster, one))
    assert said in error
    assert error.startswith("component 'numbers")


class Unwritable(Numbers):
    def coordinator(self, conf, context):
        coordinator = super().coordinator(conf, context)
        coordinator.initialize_transaction = lambda txid, previous: {txid: object}
        return coordinator


def test_metadata_that_cannot_be_stored_are_named(cluster):
    one = builder(Unwritable())
    one.set_bolt("sum", Commit("sum", Story())).global_grouping("numbers")
    error = str(failure_of(cluster, one))
    assert "component 'numbers:coordinator': initialize_transaction returned {1: <class 'object'>}" in error


def test_a_bolt_that_cannot_be_copied_is_named_by_its_own_attribute():
    one = builder()
    bolt = Emits(lambda attempt: [attempt, 1])
    bolt.lock = threading.Lock()
    one.set_bolt("emits", bolt).global_grouping("numbers")
    with pytest.raises(TopologyError, match=r"bolt 'emits' cannot be copied to its tasks: Emits.lock \(lock\)"):
        one.create_topology()


def test_a_topology_without_ackers_is_refused(cluster):
    one = builder()
    one.set_bolt("sum", Commit("sum", Story())).global_grouping("numbers")
    error = failure_of(cluster, one, **{"topology.acker.executors": 0})
    assert "without ackers a transactional topology cannot tell when a batch is complete" in str(error)


def test_state_written_by_a_newer_version_is_not_touched(cluster):
    store = memory_nodes.registered(cluster._progress_root)
    data = node_encoding.encode_stored(layout.epoch_path("numbers"), "somebody")
    newer = data.replace(bytes([node_encoding.FORMAT]), bytes([node_encoding.FORMAT + 1]), 1)
    store.write([Create(layout.epoch_path("numbers"), newer)])
    one = builder()
    one.set_bolt("sum", Commit("sum", Story())).global_grouping("numbers")
    error = failure_of(cluster, one)
    assert "was written by a newer version of Tupletree" in str(error)
    assert store.get(layout.epoch_path("numbers")).data == newer


def test_a_second_topology_with_the_same_id_takes_over_and_the_first_says_so(cluster):
    story = Story()
    for name in ("first", "second"):
        one = builder(Numbers(None))
        one.set_bolt("sum", Commit("sum", story)).global_grouping("numbers")
        cluster.submit(name, one.create_topology())
        cluster.wait_until(lambda: len(story.of("finish")) > 20)
        story.events.clear()
    component, error = cluster.wait_until(lambda: next(iter(cluster.errors("first")), None))
    assert (component, type(error)) == ("numbers:coordinator", DeposedError)
    assert "another coordinator of transactional id 'numbers' has taken over: topology second" in str(error)
    cluster.wait_until(lambda: len(story.of("finish")) > 20)
    assert cluster.errors("second") == []
