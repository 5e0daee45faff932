"""Files of every kind, read by a real Spark."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tupletree.spark.source import Source
from tupletree.spark.sources.csv_lines import CsvFiles
from tupletree.spark.sources.json_lines import JsonLines
from tupletree.spark.sources.memory import MemorySource
from tupletree.spark.sources.parquet import ParquetFiles
from tupletree.spark.sources.text import TextFiles

JSON = """{"a": 1, "b": "x"}

{"a": "one", "b": "y"}
{"b": "z", "c": 7}
no json
"""
CSV = """number;text
1;x
#2;a comment

3;'a;b'
four;y
5
6;z;7
"""


def written(path: Path, text: str) -> list[Any]:
    """A file with this text, as a split."""
    path.write_text(text)
    return [str(path), 0, len(text.encode())]


def collected(source: Source, spark: SparkSession, splits: Sequence[Any], tasks: int = 1) -> list[Any]:
    return [tuple(row) for row in source.dataframe(spark, source.divide(splits, tasks)).collect()]


def csv(path: Path, schema: str = "a INT, b STRING", **arguments: Any) -> CsvFiles:
    return CsvFiles(path, schema, header=True, separator=";", options={"quote": "'", "comment": "#"}, **arguments)


def test_lines_of_text_are_read_by_as_many_tasks_as_there_are(spark: SparkSession, tmp_path: Path) -> None:
    numbers = [f"{number:0500}" for number in range(7_000)]
    split = written(tmp_path / "numbers", "\n".join(numbers) + "\n")
    source = TextFiles(tmp_path)
    frame = source.dataframe(spark, source.divide([split], 3))
    assert frame.rdd.getNumPartitions() == 3
    assert [row.value for row in frame.collect()] == numbers
    assert source.dataframe(spark, []).count() == 0


def test_an_error_of_the_reader_names_file_and_byte(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\n\xff\n")
    with pytest.raises(PySparkException, match=f"ValueError: file {tmp_path}/a: byte 4, in the line"):
        collected(TextFiles(tmp_path), spark, [[str(tmp_path / "a"), 0, 6]])


def test_a_bad_json_line_is_a_row_of_what_could_be_read(spark: SparkSession, tmp_path: Path) -> None:
    split = written(tmp_path / "a", JSON)
    assert collected(JsonLines(tmp_path, "a INT, b STRING"), spark, [split]) == [
        (1, "x"),
        (None, "y"),
        (None, "z"),
        (None, None),
    ]
    assert collected(JsonLines(tmp_path, "a INT, _corrupt_record STRING"), spark, [split]) == [
        (1, None),
        (None, '{"a": "one", "b": "y"}'),
        (None, None),
        (None, "no json"),
    ]


def test_a_bad_json_line_can_be_dropped(spark: SparkSession, tmp_path: Path) -> None:
    source = JsonLines(tmp_path, "a INT, b STRING", mode="DROPMALFORMED")
    frame = source.dataframe(spark, [written(tmp_path / "a", JSON)])
    assert frame.columns == ["a", "b"]
    assert [tuple(row) for row in frame.where("b > ''").collect()] == [(1, "x"), (None, "z")]


def test_a_bad_json_line_can_fail_the_batch_and_is_in_the_error(spark: SparkSession, tmp_path: Path) -> None:
    source = JsonLines(tmp_path, "a INT, b STRING", mode="FAILFAST")
    with pytest.raises(Py4JJavaError, match=r'MALFORMED_RECORD.*\{"a": "one", "b": "y"\}'):
        collected(source, spark, [written(tmp_path / "a", JSON)])


def test_a_bad_csv_line_is_a_row_of_what_could_be_read(spark: SparkSession, tmp_path: Path) -> None:
    split = written(tmp_path / "a", CSV)
    assert collected(csv(tmp_path), spark, [split]) == [(1, "x"), (3, "a;b"), (None, "y"), (5, None), (6, "z")]
    bad = csv(tmp_path, "a INT, b STRING, _corrupt_record STRING")
    assert [row[2] for row in collected(bad, spark, [split])] == [None, None, "four;y", "5", "6;z;7"]


def test_a_bad_csv_line_can_be_dropped(spark: SparkSession, tmp_path: Path) -> None:
    split = written(tmp_path / "a", CSV)
    assert collected(csv(tmp_path, mode="DROPMALFORMED"), spark, [split]) == [(1, "x"), (3, "a;b")]
    bad = csv(tmp_path, "a INT, b STRING, _corrupt_record STRING", mode="DROPMALFORMED")
    assert collected(bad, spark, [split]) == [(1, "x", None), (3, "a;b", None)]


def test_a_bad_csv_line_can_fail_the_batch_and_is_in_the_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Py4JJavaError, match=r"MALFORMED_RECORD.*four;y"):
        collected(csv(tmp_path, mode="FAILFAST"), spark, [written(tmp_path / "a", CSV)])


def test_lines_are_parsed_once_whatever_is_asked_of_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        frame = JsonLines(tmp_path, "a INT, b STRING", mode=mode).dataframe(spark, [["/none", 0, 1]])
        plan = frame.where("a > 1 and b is not null")._jdf.queryExecution().executedPlan().toString()
        assert plan.count("from_json") == 1


def test_the_schema_of_parquet_files_is_that_of_the_first_one(spark: SparkSession, tmp_path: Path) -> None:
    noon = datetime.datetime(2024, 5, 1, 12, 0)
    table = pa.table({"n": pa.array([1, 2, 3], pa.int32()), "at": pa.array([noon] * 3, pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "a", row_group_size=2)
    pq.write_table(table.select(["n"]), tmp_path / "b")
    source = ParquetFiles(tmp_path)
    splits = [[str(tmp_path / "a"), 0, 2], [str(tmp_path / "b"), 0, 1]]
    frame = source.dataframe(spark, source.divide(splits, 3))
    assert frame.dtypes == [("n", "int"), ("at", "timestamp_ntz")]
    assert [tuple(row) for row in frame.collect()] == [(n, noon) for n in (1, 2, 3)] + [(n, None) for n in (1, 2, 3)]


def test_a_schema_chooses_columns_of_parquet_files_and_their_types(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([1], pa.int32()), "word": ["x"]}), tmp_path / "a")
    source = ParquetFiles(tmp_path, schema="word STRING, n BIGINT")
    assert collected(source, spark, [[str(tmp_path / "a"), 0, 1]]) == [("x", 1)]
    wrong = ParquetFiles(tmp_path, schema="word INT")
    with pytest.raises(PySparkException, match=f"file {tmp_path}/a, column 'word' is not int32: "):
        collected(wrong, spark, [[str(tmp_path / "a"), 0, 1]])


def test_rows_in_memory(spark: SparkSession) -> None:
    source = MemorySource([[["a", 1], ["b", 2]], [["c", None]]], "word STRING, n INT", 2)
    assert collected(source, spark, [[0, 1, 2], [1, 0, 1]]) == [("b", 2), ("c", None)]
