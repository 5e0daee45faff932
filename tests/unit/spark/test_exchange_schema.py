"""Columns: in Spark's DDL, in Arrow files, and out of tuples."""

from __future__ import annotations

import datetime as dt
import decimal
import io

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from tupletree.errors import UsageError
from tupletree.spark.streaming import rows
from tupletree.spark.streaming.ddl import parse_schema


def schema(ddl):
    return rows.arrow_schema(parse_schema(ddl).json())


@pytest.mark.parametrize(
    ("ddl", "simple"),
    [
        ("word STRING, count BIGINT", "struct<word:string,count:bigint>"),
        ("a int , b: double,c timestamp", "struct<a:int,b:double,c:timestamp>"),
        ("price DECIMAL(12, 2), n decimal", "struct<price:decimal(12,2),n:decimal(10,0)>"),
        ("`a, b` STRING, `c``d` DATE", "struct<a, b:string,c`d:date>"),
        (
            "m MAP<STRING, ARRAY<STRUCT<x: INT, y DOUBLE>>>, b binary",
            "struct<m:map<string,array<struct<x:int,y:double>>>,b:binary>",
        ),
    ],
)
def test_ddl_is_understood_as_spark_does(ddl, simple):
    assert parse_schema(ddl).simpleString() == simple


@pytest.mark.parametrize(
    ("ddl", "fault"),
    [
        ("", "names no columns"),
        ("word", "ends where a type was expected"),
        ("word STRING,", "ends where the name of a column was expected"),
        ("word STRING count BIGINT", "cannot be parsed at 'count'"),
        ("word VARCHAR(3)", "has the type VARCHAR; one of BOOLEAN"),
        ("a ARRAY<INT", "an end where '>' was expected"),
        ("a DECIMAL(x)", "cannot be parsed at 'x'"),
        ("a INT, A STRING", "names a column twice"),
        ("a; INT", "cannot be parsed at ';'"),
        (StructType(), "names no columns"),
    ],
)
def test_ddl_that_is_none_is_refused_in_a_sentence(ddl, fault):
    with pytest.raises(UsageError) as error:
        parse_schema(ddl)
    assert fault in str(error.value)


def test_columns_are_taken_out_of_a_tuple_by_name():
    select = rows.selector(("attempt", "count", "word"), schema("word STRING, count BIGINT"))
    assert tuple(select(["x", 3, "a"])) == ("a", 3)
    assert tuple(rows.selector(("attempt", "n"), schema("n INT"))(["x", 3])) == (3,)
    with pytest.raises(UsageError, match="has a column 'word', but the tuples have the fields attempt, count"):
        rows.selector(("attempt", "count"), schema("word STRING"))


VALUES = {
    "b BOOLEAN": True,
    "n BIGINT": -(2**62),
    "d DOUBLE": 0.5,
    "p DECIMAL(10, 2)": decimal.Decimal("1.50"),
    "s STRING": "äö",
    "x BINARY": b"\x00\xff",
    "day DATE": dt.date(2024, 2, 29),
    "at TIMESTAMP": dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=dt.UTC),
    "l ARRAY<INT>": [1, None],
    "t STRUCT<x: INT, y: STRING>": {"x": 1, "y": None},
}


@pytest.mark.parametrize("ddl", VALUES)
def test_values_come_out_of_a_file_as_they_went_in(ddl, tmp_path):
    table = rows.table([[VALUES[ddl]], [None]], schema(ddl))
    with open(tmp_path / "f.arrow", "wb") as file:
        assert rows.write_batches(file, iter(table.to_batches()), schema(ddl)) == 2
    [batch] = rows.read_batches(str(tmp_path / "f.arrow"), schema(ddl))
    assert batch.column(0).to_pylist() == [VALUES[ddl], None]


@pytest.mark.parametrize(("ddl", "value"), [("n BIGINT", 1.5), ("n BIGINT", "1"), ("s STRING", 1), ("n INT", 2**40)])
def test_a_value_of_another_type_is_an_error_that_names_the_column(ddl, value):
    with pytest.raises(UsageError, match=f"column '{ddl[0]}' is "):
        rows.table([[value]], schema(ddl))


def test_no_rows_are_a_file_without_rows():
    out = io.BytesIO()
    assert rows.write_batches(out, iter(rows.table([], schema("a INT")).to_batches()), schema("a INT")) == 0
    assert pa.ipc.open_file(out.getvalue()).read_all().num_rows == 0


def test_a_file_of_older_columns_is_read_with_the_present_ones():
    batch = pa.RecordBatch.from_pydict({"old": pa.array([1]), "n": pa.array([2], pa.int32())})
    made = rows.conformed(batch, schema("n BIGINT, added STRING"))
    assert made.to_pylist() == [{"n": 2, "added": None}]
    with pytest.raises(UsageError, match="column 'old' should be"):
        rows.conformed(batch, schema("old DATE"))
