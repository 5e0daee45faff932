"""Rows in memory as a source, with replays that are the same and, where it is opaque, such that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from file_topology import Splits, attempt, context

from tupletree.errors import UsageError
from tupletree.spark.source import record_batches
from tupletree.spark.sources.memory import MemorySource
from tupletree.transactional.spouts import OpaquePartitionedTransactionalSpout, PartitionedTransactionalSpout

PARTITIONS = [[["a", 1], ["b", 2], ["c", 3]], [["d", 4]]]


def emitted(source: MemorySource, txid: int, partition: int, previous: Any) -> tuple[Any, list[Any]]:
    """What a new batch of a partition leaves as metadata, and its rows."""
    emitter: Any = source.spout().emitter({}, context())
    kept = Splits()
    new = "emit_partition_batch" if source.is_opaque else "emit_partition_batch_new"
    metadata = getattr(emitter, new)(attempt(txid), kept, partition, previous)
    return metadata, [row for split in kept.splits for row in source.read(split)]


@pytest.mark.parametrize("opaque", [False, True])
def test_batches_take_so_many_rows_of_each_partition(opaque: bool) -> None:
    source = MemorySource(PARTITIONS, "word STRING, number INT", 2, opaque=opaque)
    coordinator: Any = source.spout().coordinator({}, context())
    assert coordinator.num_partitions() == 2
    first, rows = emitted(source, 1, 0, None)
    assert rows == [["a", 1], ["b", 2]]
    assert coordinator.has_more(0, first)
    second, rows = emitted(source, 2, 0, first)
    assert rows == [["c", 3]]
    assert not coordinator.has_more(0, second)
    assert emitted(source, 3, 0, second)[1] == []
    assert emitted(source, 1, 1, None)[1] == [["d", 4]]


def test_a_replay_is_the_same() -> None:
    source = MemorySource({1: PARTITIONS[1], 0: PARTITIONS[0]}, "word STRING, number INT", 2)
    emitter: Any = source.spout().emitter({}, context())
    metadata, rows = emitted(source, 1, 0, None)
    kept = Splits()
    emitter.emit_partition_batch(attempt(1), kept, 0, metadata)
    assert [row for split in kept.splits for row in source.read(split)] == rows


def test_a_replay_of_an_opaque_source_may_differ(tmp_path: Path) -> None:
    source = MemorySource(PARTITIONS, "word STRING, number INT", 3, opaque=True, away=tmp_path)
    coordinator: Any = source.spout().coordinator({}, context())
    (tmp_path / "0").write_text("1")
    assert emitted(source, 1, 0, None) == ([0, 1], [["a", 1]])
    (tmp_path / "0").write_text("")
    assert not coordinator.has_more(0, None)
    assert emitted(source, 1, 0, None) == ([0, 0], [])
    assert emitted(source, 1, 0, [0, 1]) == ([1, 1], [])
    (tmp_path / "0").unlink()
    assert emitted(source, 1, 0, None)[1] == PARTITIONS[0]


def test_its_spout_says_which_rule_it_takes() -> None:
    assert isinstance(MemorySource([[]], "a INT", 1).spout(), PartitionedTransactionalSpout)
    assert isinstance(MemorySource([[]], "a INT", 1, opaque=True).spout(), OpaquePartitionedTransactionalSpout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_rows_per_batch": 0}, "max_rows_per_batch is 0; at least 1 was expected"),
        ({"schema": None}, "schema is None; columns in Spark's DDL were expected"),
        ({"partitions": {0: [], 2: []}}, "the partitions are 0, 2; the numbers 0, 1, 2, … were expected"),
        ({"partitions": 7}, "partitions is 7; a list of lists of rows was expected"),
        ({"partitions": ["ab"]}, "partition 0 is 'ab'; a list of rows was expected"),
        ({"partitions": [["ab"]]}, "row 0 of partition 0 is 'ab'; a list of values was expected"),
        ({"partitions": [[[1]], [[1, 2]]]}, r"row 0 of partition 1 is \[1, 2\]; a list of 1 values, as in the rows"),
        ({"away": "/away"}, "'away' requires an opaque source"),
    ],
)
def test_a_mistake_in_the_arguments_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"MemorySource: {message}"):
        MemorySource(**({"partitions": [[]], "schema": "a INT", "max_rows_per_batch": 1} | arguments))


def test_a_fraction_is_not_cut_off_to_be_an_integer() -> None:
    schema = pa.schema([("n", pa.int32())])
    (batch,) = record_batches(iter([[1], [2.0], [None]]), schema)
    assert batch.to_pydict() == {"n": [1, 2, None]}
    for number in (1.5, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"column 'n' is int32, but a row has the value {number}"):
            list(record_batches(iter([[1], [number]]), schema))
