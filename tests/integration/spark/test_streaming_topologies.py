"""Topologies in this process that export to and ingest from directories, with a reader and a writer but no Spark."""

from __future__ import annotations

from collections import Counter

import pytest
from exchanges import Feeding, Reading, files
from local_components import Log

from tupletree import BasicBolt, TopologyBuilder
from tupletree.errors import FailedException
from tupletree.spark.streaming.export import ExportBatchBolt, ExportBolt
from tupletree.spark.streaming.ingest import TransactionalIngestSpout
from tupletree.spark.streaming.ingest_spout import IngestSpout
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.transactional import (
    BatchBolt,
    Committer,
    MemoryTransactionalSpout,
    OpaqueMemoryTransactionalSpout,
    TransactionalTopologyBuilder,
)

SCHEMA = "word STRING, n BIGINT"


@pytest.fixture
def cluster():
    with LocalCluster() as local:
        yield local


def rows(count, word="w"):
    return [[f"{word}{number % 7}", number] for number in range(count)]


class FailsNowAndThen(BatchBolt, Committer):
    """Fails the commit of every third transaction once, after others may have committed their part."""

    def __init__(self, log):
        self.log = log

    def execute(self, tup):
        pass

    def finish_batch(self):
        txid = self.batch_id.txid
        if txid % 3 == 0 and txid not in self.log:
            self.log.append(txid)
            raise FailedException("told to")


def exporting(spout, directory, log):
    builder = TransactionalTopologyBuilder("exporting", "rows", spout, parallelism=2)
    builder.set_bolt("out", ExportBatchBolt(directory, SCHEMA), 3).shuffle_grouping("rows")
    builder.set_bolt("fails", FailsNowAndThen(log)).global_grouping("rows")
    return builder.create_topology()


@pytest.mark.parametrize("prune", ["false", "true"])
def test_every_row_of_a_transactional_topology_is_read_once(cluster, tmp_path, prune):
    spout = MemoryTransactionalSpout([rows(500), rows(300, "x")], ["word", "n"], 20)
    query = Reading(tmp_path, SCHEMA, prune=prune, maxBytesPerTrigger="20000")
    read = []
    cluster.submit("out", exporting(spout, tmp_path, Log()), {"topology.max.spout.pending": 4})

    def has_all():
        read.extend(query.more())
        return query.offset.get("txid") == 25

    cluster.wait_until(has_all)
    assert Counter(read) == Counter(map(tuple, rows(500) + rows(300, "x")))
    assert query.more() == []
    if prune == "true":
        assert files(tmp_path) == []
    else:
        assert Counter(query.between({"txid": 0}, {"txid": 25})) == Counter(read)


def test_behind_an_opaque_spout_the_last_transaction_waits_for_the_next(cluster, tmp_path):
    spout = OpaqueMemoryTransactionalSpout([rows(400)], ["word", "n"], 20)
    query = Reading(tmp_path, SCHEMA)
    read = []
    cluster.submit("out", exporting(spout, tmp_path, Log()), {"topology.max.spout.pending": 4})

    def has_most():
        read.extend(query.more())
        return query.offset.get("txid", 0) >= 19

    cluster.wait_until(has_most)
    known = Counter(map(tuple, rows(400)))
    assert sum(Counter(read).values()) >= 380 and not Counter(read) - known


def test_the_transaction_id_comes_as_a_column(cluster, tmp_path):
    spout = MemoryTransactionalSpout([rows(40)], ["word", "n"], 10)
    cluster.submit("out", exporting(spout, tmp_path, Log()))
    query = Reading(tmp_path, f"{SCHEMA}, t BIGINT", txidColumn="t")
    read = []
    cluster.wait_until(lambda: read.extend(query.more()) or len(read) == 40)
    assert all(txid == n // 10 + 1 for _, n, txid in read)


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ("word STRING, m BIGINT", "component 'out': the schema has a column 'm', but the tuples have the fields"),
        ("word BIGINT", "component 'out': column 'word' is int64"),
    ],
)
def test_columns_that_do_not_fit_are_reported(cluster, tmp_path, schema, fault):
    spout = MemoryTransactionalSpout([rows(5)], ["word", "n"], 5)
    builder = TransactionalTopologyBuilder("wrong", "rows", spout)
    builder.set_bolt("out", ExportBatchBolt(tmp_path, schema)).shuffle_grouping("rows")
    cluster.submit("wrong", builder.create_topology())
    cluster.wait_until(lambda: any(fault in str(error) for _, error in cluster.errors("wrong")))


def test_tuples_of_an_ordinary_topology_are_acked_when_they_can_be_read(cluster, tmp_path):
    spout = FeederSpout(["n", "word"])
    builder = TopologyBuilder()
    builder.set_spout("rows", spout)
    builder.set_bolt("out", ExportBolt(tmp_path, SCHEMA, rows_per_segment=10), 2).shuffle_grouping("rows")
    cluster.submit("out", builder.create_topology())
    for word, n in rows(101):
        spout.feed([n, word], msg_id=n)
    query, read = Reading(tmp_path, SCHEMA), []
    cluster.wait_until(lambda: len(spout.acked) == 101)
    read = query.more()
    assert Counter(read) == Counter(map(tuple, rows(101)))
    assert set(query.offset) == {"0", "1"}


class Keep(BatchBolt, Committer):
    """Keeps the rows of each transaction, in the order of the commits."""

    def __init__(self, log):
        self.log, self.rows = log, []

    def execute(self, tup):
        self.rows.append(tuple(tup.values))

    def finish_batch(self):
        self.log.append((self.batch_id.txid, sorted(self.rows)))


def ingesting(directory, kept, fails, micro_batches=1):
    spout = TransactionalIngestSpout(directory, SCHEMA, micro_batches=micro_batches)
    builder = TransactionalTopologyBuilder("ingesting", "in", spout, parallelism=2)
    builder.set_bolt("keep", Keep(kept)).global_grouping("in")
    builder.set_bolt("fails", FailsNowAndThen(fails)).global_grouping("in")
    return builder.create_topology()


def last_of_each(kept):
    """What each transaction was when it committed last, and that its replays were the same."""
    seen = {}
    for txid, batch in kept:
        assert seen.setdefault(txid, batch) == batch
    return seen


def test_each_micro_batch_is_one_transaction_and_is_deleted_when_it_is_committed(cluster, tmp_path):
    kept, fails = Log(), Log()
    cluster.submit("in", ingesting(tmp_path, kept, fails), {"topology.max.spout.pending": 3})
    query = Feeding(tmp_path, SCHEMA)
    for number in range(20):
        query.feed(number, rows(10, f"{number}-"), rows(3, f"{number}+"))
    cluster.wait_until(lambda: len({txid for txid, _ in kept}) == 20)
    transactions = last_of_each(kept)
    for number in range(20):
        assert transactions[number + 1] == sorted(map(tuple, rows(10, f"{number}-") + rows(3, f"{number}+")))
    query.feed(20, rows(1))  # with the next transactions what is done is deleted
    query.feed(21, rows(1))
    cluster.wait_until(lambda: len({txid for txid, _ in kept}) == 22)
    assert len(files(tmp_path)) <= 3 * 3


def test_a_topology_goes_on_where_it_was_killed_and_takes_what_came_meanwhile(cluster, tmp_path):
    kept, fails, query = Log(), Log(), Feeding(tmp_path, SCHEMA)
    for run in range(3):
        cluster.submit("in", ingesting(tmp_path, kept, fails, micro_batches=2))
        for number in range(run * 10, run * 10 + 5):
            query.feed(number, rows(4, f"{number}-"))
        cluster.wait_until(lambda run=run: any(w.startswith(f"{run * 10 + 4}-") for _, b in kept for w, _ in b))
        cluster.kill("in")
        for number in range(run * 10 + 5, run * 10 + 10):
            query.feed(number, rows(4, f"{number}-"))
    cluster.submit("in", ingesting(tmp_path, kept, fails, micro_batches=2))
    cluster.wait_until(lambda: any(w.startswith("29-") for _, b in kept for w, _ in b))
    everything = Counter(row for batch in last_of_each(kept).values() for row in batch)
    assert everything == Counter((word, n) for number in range(30) for word, n in rows(4, f"{number}-"))


class FailsFirst(BasicBolt):
    """Fails each tuple the first time, and keeps it the second."""

    def __init__(self, kept, tries):
        self.kept, self.tries = kept, tries

    def execute(self, tup, collector):
        row = tuple(tup.values)
        if row not in self.tries:
            self.tries.append(row)
            raise FailedException("told to")
        self.kept.append(row)


def test_an_ordinary_topology_gets_every_row_and_again_what_failed(cluster, tmp_path):
    kept, query = Log(), Feeding(tmp_path, SCHEMA)
    builder = TopologyBuilder()
    builder.set_spout("in", IngestSpout(tmp_path, SCHEMA), 2)
    builder.set_bolt("keep", FailsFirst(kept, Log())).shuffle_grouping("in")
    for number in range(8):
        query.feed(number, rows(5, f"{number}-"), rows(5, f"{number}+"))
    cluster.submit("in", builder.create_topology())
    expected = Counter((word, n) for number in range(8) for mark in "-+" for word, n in rows(5, f"{number}{mark}"))
    cluster.wait_until(lambda: Counter(kept) >= expected)
    assert Counter(kept) == expected
    cluster.wait_until(lambda: files(tmp_path) == [])
