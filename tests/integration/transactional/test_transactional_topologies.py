"""Transactional topologies on a LocalCluster: what is finished when, what a failure does, how the next one goes on."""

from __future__ import annotations

import pytest
from batch_components import SIZE, Commit, Gather, Numbers, Story

from tupletree import BasicBolt
from tupletree.testing import LocalCluster
from tupletree.transactional.builder import TransactionalTopologyBuilder
from tupletree.transactional.databases.memory import MemoryDatabase
from tupletree.transactional.maps import OpaqueMap, TransactionalMap


def batch_sum(txid):
    return sum(range(txid * SIZE, (txid + 1) * SIZE))


@pytest.fixture
def story():
    return Story()


@pytest.fixture
def cluster():
    with LocalCluster() as local:
        yield local


def builder(transactions=None, emitters=2, transactional_id="numbers"):
    return TransactionalTopologyBuilder(transactional_id, "numbers", Numbers(transactions), emitters)


def finished(story, name):
    return [(txid, total) for component, txid, total in story.of("finish") if component == name]


class AddUp(Commit):
    """Adds each batch's sum to a table."""

    def __init__(self, name, story, table, fails=()):
        super().__init__(name, story, fails)
        self.table = table

    def finish_batch(self):
        self.table.add(self.batch_id, {"sum": sum(self.numbers)})
        super().finish_batch()


class Double(BasicBolt):
    outputs = ["attempt", "number"]

    def execute(self, tup, collector):
        collector.emit([tup[0], tup["number"]])
        collector.emit([tup[0], tup["number"]])


class DoubleByItself(BasicBolt):
    """Emits with the collector that it was given before, as every component may."""

    outputs = ["attempt", "number"]

    def execute(self, tup, collector):
        assert self.collector.emit_many([[tup[0], tup["number"]]] * 2) == 2


def test_each_batch_is_finished_whole_and_committed_in_order(cluster, story):
    one = builder(transactions=20)
    one.set_bolt("part", Gather("part", story), 3).shuffle_grouping("numbers")
    one.set_bolt("sum", Commit("sum", story)).global_grouping("part")
    cluster.submit("numbers", one.create_topology(), {"topology.max.spout.pending": 5})
    cluster.wait_until(lambda: len(finished(story, "sum")) == 20)
    assert finished(story, "sum") == [(txid, batch_sum(txid)) for txid in range(1, 21)]
    assert all(story.seen["prepare", "part", txid] == 3 for txid in range(1, 21))


@pytest.mark.parametrize("bolt", [Double, DoubleByItself])
def test_a_basic_bolt_takes_part(cluster, story, bolt):
    one = builder(transactions=5)
    one.set_bolt("double", bolt(), 2).shuffle_grouping("numbers")
    one.set_bolt("sum", Commit("sum", story)).global_grouping("double")
    cluster.submit("numbers", one.create_topology(), {"topology.max.spout.pending": 3})
    cluster.wait_until(lambda: len(finished(story, "sum")) == 5)
    assert finished(story, "sum") == [(txid, 2 * batch_sum(txid)) for txid in range(1, 6)]


def test_bolts_downstream_of_a_committer_finish_in_the_commit_phase(cluster, story):
    """The defining document's picture: A feeds B (a committer) and C; B feeds C; C feeds D (a committer)."""
    one = builder(transactions=6)
    one.set_bolt("a", Gather("a", story), 2).shuffle_grouping("numbers")
    one.set_bolt("b", Commit("b", story), 2).shuffle_grouping("a")
    one.set_bolt("c", Gather("c", story), 2).shuffle_grouping("a").shuffle_grouping("b")
    one.set_bolt("d", Commit("d", story)).global_grouping("c")
    cluster.submit("numbers", one.create_topology(), {"topology.max.spout.pending": 3})
    cluster.wait_until(lambda: len(finished(story, "d")) == 6)
    assert finished(story, "d") == [(txid, 2 * batch_sum(txid)) for txid in range(1, 7)]
    order = [(name, txid) for name, txid, _ in story.of("finish")]
    for txid in range(1, 7):
        at = {name: [index for index, event in enumerate(order) if event == (name, txid)] for name in "abcd"}
        assert max(at["a"]) < min(at["b"]) and max(at["b"]) < min(at["c"]) and max(at["c"]) < min(at["d"])
        if txid > 1:
            assert order.index(("d", txid - 1)) < min(at["b"])


@pytest.mark.parametrize("point", ["execute", "finish"])
@pytest.mark.parametrize("component", ["part", "sum"])
def test_a_batch_that_fails_is_replayed_until_it_commits_and_counts_once(cluster, story, component, point):
    table = TransactionalMap(MemoryDatabase(), "sums")
    fails = {(3, point): 2}
    one = builder(transactions=8)
    one.set_bolt("part", Gather("part", story, fails if component == "part" else ())).shuffle_grouping("numbers")
    sums = AddUp("sum", story, table, fails if component == "sum" else ())
    one.set_bolt("sum", sums).global_grouping("part")
    cluster.submit("numbers", one.create_topology(), {"topology.max.spout.pending": 4})
    cluster.wait_until(lambda: table.get_one("sum") == sum(map(batch_sum, range(1, 9))))
    cluster.wait_quiet()
    assert table.get_one("sum") == sum(map(batch_sum, range(1, 9)))
    assert story.seen["at", component, 3, point] > 2
    committed = [txid for txid, _ in finished(story, "sum")]
    assert sorted(set(committed)) == list(range(1, 9))
    assert committed == sorted(committed)


def test_a_committer_that_fails_after_its_update_does_not_count_twice(cluster, story):
    tables = [kind(MemoryDatabase(), "sums") for kind in (TransactionalMap, OpaqueMap)]
    one = builder(transactions=4)
    for table in tables:
        name = type(table).__name__
        one.set_bolt(name, AddUp(name, story, table, {(2, "finish"): 1})).global_grouping("numbers")
    cluster.submit("numbers", one.create_topology(), {"topology.max.spout.pending": 4})
    cluster.wait_until(
        lambda: all(finished(story, type(table).__name__)[-1:] == [(4, batch_sum(4))] for table in tables)
    )
    cluster.wait_quiet()
    assert [table.get_one("sum") for table in tables] == [sum(map(batch_sum, range(1, 5)))] * 2


def test_a_topology_goes_on_under_the_same_id_where_the_last_one_stopped(cluster, story):
    for run, transactions in enumerate((5, 9, 12)):
        one = builder(transactions=transactions)
        one.set_bolt("sum", Commit("sum", story)).global_grouping("numbers")
        cluster.submit(f"run-{run}", one.create_topology(), {"topology.max.spout.pending": 2})
        cluster.wait_until(lambda done=transactions: len(finished(story, "sum")) == done)
        cluster.wait_quiet()
        cluster.kill(f"run-{run}")
    assert finished(story, "sum") == [(txid, batch_sum(txid)) for txid in range(1, 13)]


def test_another_id_begins_at_the_first_transaction(cluster, story):
    for transactional_id in ("one", "other"):
        one = builder(transactions=2, transactional_id=transactional_id)
        one.set_bolt("sum", Commit("sum", story)).global_grouping("numbers")
        cluster.submit(transactional_id, one.create_topology())
        cluster.wait_quiet()
        cluster.kill(transactional_id)
    assert [txid for txid, _ in finished(story, "sum")] == [1, 2, 1, 2]


def test_a_topology_without_a_committer_commits_what_is_processed(cluster, story):
    one = builder(transactions=4)
    one.set_bolt("part", Gather("part", story), 2).shuffle_grouping("numbers")
    cluster.submit("numbers", one.create_topology(), {"topology.max.spout.pending": 1})
    cluster.wait_until(lambda: len(finished(story, "part")) == 8)
    assert [txid for txid, _ in finished(story, "part")] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_no_more_transactions_are_active_than_allowed(cluster, story):
    one = builder(transactions=30)
    one.set_bolt("part", Gather("part", story), 2).shuffle_grouping("numbers")
    one.set_bolt("sum", Commit("sum", story)).global_grouping("part")
    cluster.submit("numbers", one.create_topology(), {"topology.max.spout.pending": 3})
    cluster.wait_until(lambda: len(finished(story, "sum")) == 30)
    committed = 0
    for event in story.events:
        if event[:2] == ("finish", "sum"):
            committed = event[2]
        elif event[:2] == ("prepare", "part"):
            assert event[2] <= committed + 4  # the last commit may be known to the coordinator before the next event
