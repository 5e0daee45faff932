"""Parquet files given out and read by row group."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_topology import Topology, rows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tupletree.connectors import parquet
from tupletree.errors import ReportedFailedException, UsageError
from tupletree.spark.sources.parquet import ParquetFiles


def write(path: Path, *groups: list[int]) -> None:
    """A file with a row group for each list."""
    schema = pa.schema([("number", pa.int64()), ("word", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for numbers in groups:
            writer.write_table(pa.table({"number": numbers, "word": [f"w{n}" for n in numbers]}, schema))


def test_a_batch_is_of_so_many_row_groups_over_all_files(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [1, 2], [3], [4])
    write(tmp_path / "b.parquet", [5], [6])
    topology = Topology(ParquetFiles(tmp_path, 2))
    assert topology.rest() == [[1, 2, 3], [4, 5], [6]]
    assert topology.coordinator.lag() == {"row_groups": 0, "files": 0}


def test_a_file_joins_when_it_has_its_footer(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", [1])
    topology = Topology(ParquetFiles(tmp_path))
    assert topology.rest() == [[1]]
    write(tmp_path / "whole", [2], [3])
    data = (tmp_path / "whole").read_bytes()
    (tmp_path / "whole").unlink()
    for half in (b"", data[: len(data) // 2]):
        (tmp_path / "a.parquet").write_bytes(half)
        assert topology.rest() == []
    (tmp_path / "a.parquet").write_bytes(data)
    assert topology.rest() == [[2, 3]]


def test_a_file_that_a_writer_has_only_opened_keeps_no_other_waiting(tmp_path: Path) -> None:
    schema = pa.schema([("number", pa.int64()), ("word", pa.string())])
    write(tmp_path / "b.parquet", [1])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema) as writer:
        assert (tmp_path / "a.parquet").read_bytes() == parquet.MAGIC
        topology = Topology(ParquetFiles(tmp_path))
        assert topology.rest() == [[1]]
        writer.write_table(pa.table({"number": [2], "word": ["w"]}, schema))
    assert topology.rest() == [[2]]


def test_what_spark_leaves_beside_the_files_is_not_read(tmp_path: Path) -> None:
    for name in ("_SUCCESS", ".part.crc"):
        (tmp_path / name).write_bytes(b"PAR1 and so on PAR1")
    write(tmp_path / "part", [1])
    assert Topology(ParquetFiles(tmp_path)).rest() == [[1]]


@pytest.mark.parametrize("data", [b"PAR1 and so on PAR1", b"PAR1" + bytes(50) + b"\x14\0\0\0PAR1"])
def test_a_file_that_is_none_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ReportedFailedException, match=f"file {tmp_path}/a cannot be read: "):
        Topology(ParquetFiles(tmp_path)).begin()


def test_many_files_join_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "FOOTERS_PER_LOOK", 2)
    for number in range(5):
        write(tmp_path / str(number), [number])
    assert Topology(ParquetFiles(tmp_path)).rest() == [[0, 1], [2, 3], [4]]


def test_row_groups_are_spread_over_tasks(tmp_path: Path) -> None:
    write(tmp_path / "a", [1], [2], [3])
    write(tmp_path / "b", [4])
    source = ParquetFiles(tmp_path)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    divided = source.divide([[a, 0, 3], [b, 0, 1]], 2)
    assert [rows(source, [share]) for share in divided] == [[1, 2], [3, 4]]
    assert [rows(source, [share]) for share in source.divide([[a, 0, 3], [b, 0, 1]], 9)] == [[1], [2], [3], [4]]


def test_columns_are_read_by_name_and_one_that_is_not_there_is_null(tmp_path: Path) -> None:
    write(tmp_path / "a", [1])
    source = ParquetFiles(tmp_path, schema=StructType([StructField(n, StringType()) for n in ("word", "new")]))
    [batch] = source.read([str(tmp_path / "a"), 0, 1])
    assert (batch.schema.names, batch.to_pylist()) == (["word", "new"], [{"word": "w1", "new": None}])


def test_rows_are_counted_also_where_a_file_has_none_of_the_columns(tmp_path: Path) -> None:
    write(tmp_path / "a", [1, 2])
    source = ParquetFiles(tmp_path, schema=StructType([StructField("new", LongType())]))
    assert rows(source, [[str(tmp_path / "a"), 0, 1]]) == [None, None]


def test_a_file_that_changed_or_vanished_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, [1])
    source = ParquetFiles(tmp_path)
    with pytest.raises(
        ReportedFailedException,
        match=f"file {path}: row group 1 was expected, but the file has only 1 row groups: a Parquet",
    ):
        rows(source, [[str(path), 0, 2]])
    path.write_bytes(b"no Parquet at all")
    with pytest.raises(ReportedFailedException, match=f"file {path} cannot be read: "):
        rows(source, [[str(path), 0, 1]])
    path.unlink()
    with pytest.raises(ReportedFailedException, match=f"file {path} cannot be read: "):
        rows(source, [[str(path), 0, 1]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"files": None}, "files is None; a file, a directory or a pattern was expected"),
        ({"max_row_groups_per_batch": 0}, "max_row_groups_per_batch is 0; at least 1 was expected"),
        ({"max_row_groups_per_batch": "8"}, "max_row_groups_per_batch is '8'; at least 1"),
        ({"schema": 7}, "schema is 7; columns in Spark's DDL were expected, such as 'value STRING'"),
    ],
)
def test_a_mistake_in_the_arguments_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"ParquetFiles: {message}"):
        ParquetFiles(**({"files": "/data"} | arguments))


def test_what_is_still_being_written_below_a_folder_is_not_read(tmp_path: Path) -> None:
    for folder in ("_staging/3.7", "_temporary/0/task_1", "_day=1", "txid=3"):
        (tmp_path / folder).mkdir(parents=True)
        write(tmp_path / folder / "part.parquet", [len(folder)])
    assert Topology(ParquetFiles(tmp_path / "**" / "*.parquet")).rest() == [[len("_day=1"), len("txid=3")]]
    write(tmp_path / "_staging" / "more.parquet", [1])
    assert Topology(ParquetFiles(tmp_path / "_staging" / "*.parquet")).rest() == [[1]]


def test_a_file_that_has_its_size_before_its_footer_joins(tmp_path: Path) -> None:
    write(tmp_path / "whole", [2])
    data = (tmp_path / "whole").read_bytes()
    (tmp_path / "whole").rename(tmp_path / "a")
    os.truncate(tmp_path / "a", 0)
    os.truncate(tmp_path / "a", len(data))
    os.utime(tmp_path / "a", (1, 1))
    topology = Topology(ParquetFiles(tmp_path))
    assert topology.rest() == []
    (tmp_path / "a").write_bytes(data)
    assert topology.rest() == [[2]]
