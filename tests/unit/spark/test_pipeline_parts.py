"""What a pipeline is made of, checked when its topology is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tupletree.connectors.delta import DeltaSink
from tupletree.errors import TopologyError
from tupletree.parallelism import task_counts
from tupletree.spark import MemorySource, ParquetDirectory, Pipeline, RedisHashes, RowSink, Sink, SqlState, TextFiles
from tupletree.transactional import (
    BatchBolt,
    GroupCommitter,
    OpaqueMemoryTransactionalSpout,
    SinkCommitter,
    TransactionalTopologyBuilder,
)
from tupletree.transactional.streams import COMMIT, COMMIT_STREAM
from tupletree.tuples import Tuple


@pytest.mark.parametrize(
    "make",
    [
        lambda path: SqlState(path / "words.db", "counts", "word", add="count"),
        lambda path: ParquetDirectory(path / "words"),
        lambda path: RedisHashes("redis://127.0.0.1/0", "words", "word", add="count"),
    ],
)
def test_two_sinks_for_one_target_are_refused(tmp_path: Path, make: object) -> None:
    class Twice(Pipeline):
        source = TextFiles(tmp_path)
        state: Sink = make(tmp_path)  # type: ignore[operator]
        sinks = [make(tmp_path)]  # type: ignore[operator]

    with pytest.raises(TopologyError, match=r"Twice has two sinks for .*words.*; one sink per target was expected"):
        Twice().topology()


def test_two_sinks_for_one_table_of_sqlite_are_refused_whatever_the_case_of_its_name(tmp_path: Path) -> None:
    class Twice(Pipeline):
        source = TextFiles(tmp_path)
        sinks = [SqlState(tmp_path / "words.db", table, "word", add="count") for table in ("Counts", "counts")]

    with pytest.raises(TopologyError, match=r"Twice has two sinks for table 'counts' of sqlite:.*words\.db"):
        Twice().topology()


class Numbers(Pipeline):
    source = MemorySource([[[1]], [[2]]], "number BIGINT", 1)
    outputs = ["number"]


def test_a_pipeline_has_one_task_whatever_the_configuration_of_the_topology_says() -> None:
    spec = Numbers().topology().spec()
    assert task_counts(spec, {"topology.tasks": 2})["pipeline"] == 1


def test_several_tasks_of_a_pipeline_are_refused() -> None:
    builder = Numbers().builder()
    builder.spout_declarer.set_num_tasks(2)
    with pytest.raises(TopologyError, match="the pipeline has 2 tasks, and each would commit a part"):
        builder.create_topology()


class Total(BatchBolt, GroupCommitter):
    def execute(self, tup: Tuple) -> None:
        pass


def test_transactions_of_a_pipeline_commit_one_by_one_although_bolts_behind_it_permit_groups() -> None:
    builder = Numbers().builder()
    builder.set_bolt("total", Total()).shuffle_grouping("pipeline")
    coordinator = builder.create_topology().components["pipeline:coordinator"]
    assert coordinator.outputs[COMMIT_STREAM] == COMMIT
    assert not coordinator.component.commits_in_groups


def test_a_sink_that_takes_nothing_back_is_refused_behind_an_opaque_source(tmp_path: Path) -> None:
    sink = DeltaSink(tmp_path, {"number": "bigint"})

    class Lake(Numbers):
        sinks = [RowSink(sink)]

    Lake().topology()
    Lake.source = MemorySource([[[1]]], "number BIGINT", 1, opaque=True)
    with pytest.raises(TopologyError, match=r"Lake\.sinks: .* cannot be written behind an opaque source: "):
        Lake().topology()
    spout = OpaqueMemoryTransactionalSpout([[[1]]], ["number"], 1)
    with pytest.raises(TopologyError, match="cannot be written behind the opaque spout 'numbers'"):
        TransactionalTopologyBuilder("a", "numbers", spout).set_bolt("out", SinkCommitter(sink, "a"))
