"""SinkCommitter on a LocalCluster: every row of a batch is written once, whatever fails."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tupletree import BasicBolt
from tupletree.connectors.formats import Json
from tupletree.connectors.kafka import KafkaSink
from tupletree.connectors.sqlite import SqliteSink
from tupletree.errors import TopologyError
from tupletree.testing import LocalCluster, wait_until
from tupletree.transactional import (
    BatchBolt,
    Committer,
    FailedException,
    MemoryTransactionalSpout,
    OpaqueMemoryTransactionalSpout,
    SinkCommitter,
    TransactionalTopologyBuilder,
)

ROWS = [[f"w{number}", number] for number in range(40)]


class FailOnce(BatchBolt, Committer):
    """Fails the commit of every second batch once, beside the sink."""

    failed: set[int] = set()

    def execute(self, tup: Any) -> None:
        pass

    def finish_batch(self) -> None:
        if self.batch_id.txid % 2 and self.batch_id.txid not in self.failed:
            self.failed.add(self.batch_id.txid)
            raise FailedException("once")


class Keep(BasicBolt):
    got: list[Any] = []

    def execute(self, tup: Any, collector: Any) -> None:
        self.got.append(tup.values[-2:])


class Table:
    """A table that logs its writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.query("CREATE TABLE counts (word TEXT PRIMARY KEY, count INTEGER)")
        self.query("CREATE TABLE log (word TEXT)")
        self.query("CREATE TRIGGER i AFTER INSERT ON counts BEGIN INSERT INTO log VALUES (new.word); END")
        self.query("CREATE TRIGGER u AFTER UPDATE ON counts BEGIN INSERT INTO log VALUES (new.word); END")

    def query(self, statement: str) -> list[Any]:
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()

    def sink(self) -> SqliteSink:
        return SqliteSink(self.path, "counts", {"word": "string", "count": "bigint"}, key="word")

    def counts(self) -> dict[str, int]:
        return dict(self.query("SELECT word, count FROM counts"))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "words.db")


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    FailOnce.failed.clear()
    Keep.got.clear()
    with LocalCluster() as running:
        yield running


def builder(table: Table, rows: list[Any], spout: Any = MemoryTransactionalSpout) -> TransactionalTopologyBuilder:
    made = TransactionalTopologyBuilder("words", "words", spout({0: rows}, ["word", "count"], 5))
    made.set_bolt("out", SinkCommitter(table.sink(), "words"), 2).fields_grouping("words", "word")
    made.set_bolt("fail", FailOnce()).global_grouping("words")
    return made


def test_a_batch_that_is_committed_again_finds_its_note(cluster: LocalCluster, table: Table) -> None:
    cluster.submit("words", builder(table, ROWS).create_topology())
    wait_until(lambda: table.counts() == dict(ROWS), 60, what="every row is written")
    wait_until(lambda: len(FailOnce.failed) == 4, 60, what="every second batch has failed once")
    assert table.query("SELECT word, count(*) FROM log GROUP BY word HAVING count(*) > 1") == []
    notes = table.query("SELECT name FROM tupletree_commits ORDER BY name")
    assert notes == [("counts/words/out/0 of 2",), ("counts/words/out/1 of 2",)]


def test_behind_an_opaque_spout_a_failed_attempt_is_taken_back(cluster: LocalCluster, table: Table) -> None:
    cluster.submit("words", builder(table, ROWS, OpaqueMemoryTransactionalSpout).create_topology())
    wait_until(lambda: table.counts() == dict(ROWS), 60, what="every row is written")
    assert table.query("SELECT count(*) FROM sqlite_master WHERE name LIKE 'tupletree_undo_%'") == [(2,)]


def test_a_sink_that_cannot_take_back_rows_is_refused_behind_an_opaque_spout() -> None:
    sink = KafkaSink("localhost:9092", "totals", Json(["word", "count"]))
    for spout in (MemoryTransactionalSpout, OpaqueMemoryTransactionalSpout):
        made = TransactionalTopologyBuilder("words", "words", spout({0: ROWS}, ["word", "count"], 5))
        if spout is MemoryTransactionalSpout:
            made.set_bolt("out", SinkCommitter(sink, "words"))
            continue
        with pytest.raises(TopologyError, match=r"'totals' .* behind the opaque spout 'words': another attempt can"):
            made.set_bolt("out", SinkCommitter(sink, "words"))


def test_a_column_that_the_input_does_not_have_is_refused(tmp_path: Path) -> None:
    made = TransactionalTopologyBuilder("words", "words", MemoryTransactionalSpout({0: ROWS}, ["word", "number"], 5))
    sink = SqliteSink(tmp_path / "words.db", "counts", {"word": "string", "count": "bigint"}, key="word")
    with pytest.raises(TopologyError, match="bolt 'out': needs field 'count' of every input, which stream 'default'"):
        made.set_bolt("out", SinkCommitter(sink, "words")).fields_grouping("words", "word")


def test_a_value_that_cannot_be_stored_is_rejected(cluster: LocalCluster, table: Table) -> None:
    made = builder(table, [*ROWS[:7], ["bad", "many"], *ROWS[7:]])
    made.set_bolt("rejected", Keep()).shuffle_grouping("out", "rejected")
    cluster.submit("words", made.create_topology())
    wait_until(lambda: table.counts() == dict(ROWS), 60, what="every other row is written")
    assert Keep.got[0][0] == ["bad", "many"]
    assert Keep.got[0][1].startswith("table 'counts': the value 'many' of field 'count' cannot be stored as bigint")


def test_a_row_that_the_table_refuses_fails_its_batch_until_the_table_takes_it(
    cluster: LocalCluster, table: Table
) -> None:
    table.query(
        "CREATE TRIGGER few BEFORE INSERT ON counts WHEN new.count >= 1000 BEGIN SELECT RAISE(ABORT, 'too many'); END"
    )
    cluster.submit("words", builder(table, [*ROWS[:7], ["bad", 1000], *ROWS[7:]]).create_topology())
    cluster.wait_until(lambda: cluster.errors("words"), 60)
    assert "too many" in str(cluster.errors("words")[0])
    table.query("DROP TRIGGER few")
    wait_until(lambda: table.counts() == {**dict(ROWS), "bad": 1000}, 60, what="every row is written")
