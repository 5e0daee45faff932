"""Tables of a lakehouse behind the bolts that write to transactional sinks: every row once, whatever fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from replayed_rows import PositionedWords
from sink_places import DeltaPlace, IcebergPlace, SinkPlace

from tupletree import BasicBolt, TopologyBuilder
from tupletree.attempt import TransactionAttempt
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.lake_sink import LakeSink, OvertakenError
from tupletree.connectors.row_sinks import RowSinkBolt
from tupletree.testing import LocalCluster, wait_until
from tupletree.transactional import (
    BatchBolt,
    Committer,
    FailedException,
    MemoryTransactionalSpout,
    SinkCommitter,
    TransactionalTopologyBuilder,
)

ROWS: list[tuple[str, Any]] = [(f"w{number}", number) for number in range(40)]


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
    """Keeps what it gets."""

    got: list[list[Any]] = []

    def execute(self, tup: Any, collector: Any) -> None:
        self.got.append(tup.values)


@pytest.fixture(params=["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> SinkPlace:
    return DeltaPlace(tmp_path) if request.param == "delta" else IcebergPlace(tmp_path)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    FailOnce.failed.clear()
    Keep.got.clear()
    with LocalCluster() as running:
        yield running


def test_a_life_that_is_overtaken_between_its_look_and_its_commit_writes_nothing(place: SinkPlace) -> None:
    old, new = place.sink(), place.sink()
    assert isinstance(old, LakeSink)
    new.open("words/out/0")
    new.commit(TransactionAttempt(1, 1), ROWS[:1])
    old.load()
    assert old.noted("words/out/0") == 1
    new.commit(TransactionAttempt(2, 1), ROWS[1:2])
    with pytest.raises(OvertakenError):
        old.append(old.arrow(ROWS[1:2]), "words/out/0", 2)
    assert sorted(place.counts()) == sorted(ROWS[:2])
    old.close()
    new.close()


def test_rows_of_checkpoints_are_written_once_and_a_value_that_does_not_fit_is_rejected(
    cluster: LocalCluster, place: SinkPlace, tmp_path: Path
) -> None:
    builder = TopologyBuilder()
    builder.set_spout("words", PositionedWords([*ROWS[:5], ("bad", "many"), *ROWS[5:]]))
    builder.set_bolt("out", ExactlyOnceSinkBolt(place.sink()), 2).fields_grouping("words", "word")
    builder.set_bolt("rejected", Keep()).shuffle_grouping("out", "rejected")
    conf = {
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 100,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    cluster.submit("words", builder.create_topology(), conf)
    wait_until(lambda: sorted(place.counts()) == sorted(ROWS), 60, what="every row is written once")
    [[row, reason]] = Keep.got
    assert row == ["bad", "many"]
    assert "the value 'many' of field 'count' cannot be stored as bigint: it is of type str" in reason


def test_a_batch_that_is_committed_again_finds_its_note(cluster: LocalCluster, place: SinkPlace) -> None:
    rows = [list(row) for row in ROWS]
    builder = TransactionalTopologyBuilder("words", "words", MemoryTransactionalSpout({0: rows}, ["word", "count"], 5))
    builder.set_bolt("out", SinkCommitter(place.sink(), "words"), 2).fields_grouping("words", "word")
    builder.set_bolt("fail", FailOnce()).global_grouping("words")
    cluster.submit("words", builder.create_topology())
    wait_until(lambda: len(FailOnce.failed) == 4, 60, what="every second batch has failed once")
    wait_until(lambda: sorted(place.counts()) == sorted(ROWS), 60, what="every row is written once")


def test_any_topology_appends_rows_at_least_once(cluster: LocalCluster, place: SinkPlace) -> None:
    builder = TopologyBuilder()
    builder.set_spout("words", PositionedWords(ROWS))
    builder.set_bolt("out", RowSinkBolt(place.sink())).shuffle_grouping("words")
    cluster.submit("words", builder.create_topology(), {})
    wait_until(lambda: set(place.counts()) == set(ROWS), 60, what="every row is written")
