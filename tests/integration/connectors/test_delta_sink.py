"""DeltaSink on a local directory: tables that exist already, notes that last, lives that are killed."""

from __future__ import annotations

import json
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from killed_lives import kill_lives

from tupletree.attempt import TransactionAttempt
from tupletree.connectors.delta import DeltaSink
from tupletree.errors import UsageError

COLUMNS = {"word": "string", "count": "bigint"}
SCHEMA = pa.schema([("more", pa.string()), ("count", pa.int64()), ("word", pa.string())])


def commit(sink: DeltaSink, txid: int, *rows: tuple[object, ...]) -> None:
    sink.open("words/count/0")
    sink.commit(TransactionAttempt(txid, 1), rows)


def rows(path: Path) -> list[tuple[object, ...]]:
    table = deltalake.DeltaTable(path).to_pyarrow_table().select(["word", "count"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_a_table_that_exists_keeps_its_partitions_and_its_further_columns(tmp_path: Path) -> None:
    deltalake.DeltaTable.create(tmp_path / "t", SCHEMA, partition_by=["word"])
    commit(DeltaSink(tmp_path / "t", COLUMNS), 1, ("a", 1), ("b", 2))
    assert rows(tmp_path / "t") == [("a", 1), ("b", 2)]
    assert sorted(path.name for path in (tmp_path / "t").glob("word=*")) == ["word=a", "word=b"]
    assert deltalake.DeltaTable(tmp_path / "t").to_pyarrow_table()["more"].null_count == 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"word": "string", "sum": "bigint"}, "has no column 'sum': add one of type int64"),
        ({"word": "string", "count": "int"}, "column 'count' is of type int64, and int32 was expected"),
    ],
)
def test_a_table_whose_columns_do_not_fit_is_refused(tmp_path: Path, columns: dict[str, str], message: str) -> None:
    deltalake.DeltaTable.create(tmp_path / "t", SCHEMA)
    with pytest.raises(UsageError, match=message):
        commit(DeltaSink(tmp_path / "t", columns), 1, ("a", 1))
    with pytest.raises(UsageError, match=message):
        DeltaSink(tmp_path / "t", columns).write([])
    assert rows(tmp_path / "t") == []


def test_a_column_that_takes_no_null_is_needed(tmp_path: Path) -> None:
    deltalake.DeltaTable.create(tmp_path / "t", pa.schema([*SCHEMA, pa.field("id", pa.int64(), nullable=False)]))
    with pytest.raises(UsageError, match="column 'id' takes no NULL, and the sink has no such column"):
        DeltaSink(tmp_path / "t", COLUMNS).write([])
    with pytest.raises(UsageError, match=r"Delta table .*id"):
        DeltaSink(tmp_path / "t", {**COLUMNS, "id": "bigint"}).write([("a", 1, None)])
    DeltaSink(tmp_path / "t", {**COLUMNS, "id": "bigint"}).write([("a", 1, 7)])
    assert rows(tmp_path / "t") == [("a", 1)]


def test_a_row_that_a_constraint_refuses_is_an_error_of_the_user_and_leaves_no_note(tmp_path: Path) -> None:
    table = deltalake.DeltaTable.create(tmp_path / "t", SCHEMA)
    table.alter.add_constraint({"few": "count < 100"})
    sink = DeltaSink(tmp_path / "t", COLUMNS)
    with pytest.raises(UsageError, match="1 rows failed validation check"):
        commit(sink, 1, ("a", 100))
    commit(sink, 1, ("a", 99))
    assert rows(tmp_path / "t") == [("a", 99)]


def test_a_note_outlives_checkpoints_compaction_and_the_entries_of_the_log(tmp_path: Path) -> None:
    configuration = {"delta.logRetentionDuration": "interval 0 days", "delta.checkpointInterval": "10"}
    table = deltalake.DeltaTable.create(tmp_path / "t", SCHEMA, configuration=configuration)
    first = DeltaSink(tmp_path / "t", COLUMNS)
    commit(first, 7, ("first", 7))
    other = DeltaSink(tmp_path / "t", COLUMNS)
    other.open("words/count/1")
    for txid in range(1, 12):
        other.commit(TransactionAttempt(txid, 1), [("other", txid)])
    table.update_incremental()
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.create_checkpoint()
    table.cleanup_metadata()
    entries = [json.loads(line) for path in (tmp_path / "t" / "_delta_log").glob("*.json") for line in path.open()]
    assert not [entry for entry in entries if entry.get("txn", {}).get("appId") == "tupletree/words/count/0"]
    for sink in (first, DeltaSink(tmp_path / "t", COLUMNS)):
        commit(sink, 7, ("first", 8))
        commit(sink, 7, ("first", 9))
    commit(first, 8, ("first", 10))
    assert rows(tmp_path / "t") == [("first", 7), ("first", 10), *(("other", txid) for txid in range(1, 12))]


def test_lists_structs_and_nulls_are_stored(tmp_path: Path) -> None:
    lines = pa.list_(pa.struct({"sku": pa.string(), "n": pa.int32()}))
    sink = DeltaSink(tmp_path / "t", pa.schema({"id": pa.int16(), "lines": lines}))
    commit(sink, 1, (1, [{"sku": "a", "n": 2}, {}]), (2, []), (3, None))
    assert sorted(deltalake.DeltaTable(tmp_path / "t").to_pyarrow_table().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "lines": [{"sku": "a", "n": 2}, {"sku": None, "n": None}]},
        {"id": 2, "lines": []},
        {"id": 3, "lines": None},
    ]


@pytest.mark.nightly
def test_lives_that_are_killed_write_each_transaction_once(tmp_path: Path) -> None:
    sinks = [DeltaSink(tmp_path / "t", COLUMNS, timeout_s=60) for _ in range(2)]
    expected = kill_lives(sinks, transactions=40, kills=3)
    assert rows(tmp_path / "t") == sorted(expected)
