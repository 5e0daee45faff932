"""Columns of sinks, given in three ways, and the values that fit them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from tupletree.connectors.typed_rows import TypedRows
from tupletree.errors import UsageError

BERLIN = dt.timezone(dt.timedelta(hours=1))
NEW_YORK = dt.timezone(dt.timedelta(hours=-5))


def kept(columns: Any, **more: Any) -> TypedRows:
    return TypedRows("Kept", columns, **more)


def table(rows: TypedRows, *values: Sequence[Any]) -> pa.Table:
    return rows.table("table 'kept'", values)


class Sale(NamedTuple):
    shop: str
    amount: int
    price: float | None
    at: dt.datetime
    day: dt.date
    paid: bool
    raw: bytes
    tags: list[str]


@dataclass
class Point:
    x: float
    y: float = 0.0


def test_a_record_gives_fields_and_types() -> None:
    assert kept(Sale).schema == pa.schema(
        {
            "shop": pa.string(),
            "amount": pa.int64(),
            "price": pa.float64(),
            "at": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "paid": pa.bool_(),
            "raw": pa.binary(),
            "tags": pa.list_(pa.string()),
        }
    )
    assert list(kept(Point).fields) == ["x", "y"]


def test_names_of_spark_and_a_schema_of_arrow_give_the_same_table() -> None:
    by_name = kept({"price": "decimal(10,2)", "at": "timestamp_ntz", "small": "smallint"})
    by_schema = kept(pa.schema({"price": pa.decimal128(10, 2), "at": pa.timestamp("us"), "small": pa.int16()}))
    row = [Decimal("1.50"), dt.datetime(2024, 5, 6), None]
    assert table(by_name, row) == table(by_schema, row)
    assert table(by_name, row).to_pylist() == [dict(zip(by_name.fields, row, strict=True))]


def test_lists_and_structs_are_stored() -> None:
    sink = kept(pa.schema({"lines": pa.list_(pa.struct({"sku": pa.string(), "n": pa.int64()}))}))
    rows = [[[{"sku": "a", "n": 1}, {"sku": "b"}]], [None], [()]]
    assert table(sink, *rows)["lines"].to_pylist() == [[{"sku": "a", "n": 1}, {"sku": "b", "n": None}], None, []]


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (pa.int64(), 1.0, "int64: it is of type float"),
        (pa.int64(), True, "int64: it is of type bool"),
        (pa.int8(), 128, "int8: "),
        (pa.float32(), -3.5e38, "float: it is out of the range of a float"),
        (pa.string(), b"a", "string: it is of type bytes"),
        (pa.date32(), dt.datetime(2024, 5, 6), r"date32\[day\]: it is of type datetime"),
        (pa.timestamp("us", "UTC"), dt.datetime(2024, 5, 6), "it has no time zone"),
        (pa.timestamp("us"), dt.datetime(2024, 5, 6, tzinfo=BERLIN), "it has a time zone"),
        (pa.timestamp("us", "UTC"), dt.datetime.min.replace(tzinfo=BERLIN), "it is not of the years 1 to 9999 in UTC"),
        (pa.timestamp("us", "UTC"), dt.datetime.max.replace(tzinfo=NEW_YORK), "it is not of the years 1 to 9999 in"),
        (pa.decimal128(4, 2), Decimal("1.234"), r"decimal128\(4, 2\): "),
        (pa.decimal128(4, 2), 1.5, "it is of type float"),
        (pa.list_(pa.int64()), [1, "2"], "an item is of type str"),
        (pa.list_(pa.int64()), "12", "it is of type str"),
        (pa.struct({"a": pa.int64()}), {"a": 1.5}, "its 'a' is of type float"),
        (pa.struct({"a": pa.int64()}), {"b": 1}, "it has a field 'b'"),
        (pa.struct([pa.field("a", pa.int64(), nullable=False)]), {}, "its 'a' is NULL"),
    ],
)
def test_a_value_of_another_type_is_named(kind: pa.DataType, value: Any, reason: str) -> None:
    sink = kept(pa.schema({"v": kind, "w": pa.int64()}))
    assert table(sink, [None, 1]).num_rows == 1
    with pytest.raises(UsageError, match=rf"table 'kept': the value .* of field 'v' cannot be stored as .*{reason}"):
        table(sink, [value, 1])


def test_the_first_and_the_last_time_are_stored() -> None:
    times = [dt.datetime.min.replace(tzinfo=NEW_YORK), dt.datetime.max.replace(tzinfo=BERLIN)]
    assert table(kept({"at": "timestamp"}), *([at] for at in times))["at"].to_pylist() == times


def test_a_float_is_rounded_and_an_infinite_one_stays() -> None:
    values = [3.4028235e38, -math.inf, 1e-60, 0.1]
    stored = table(kept({"f": "float"}), *([value] for value in values))["f"].to_pylist()
    assert stored == pytest.approx(values) and stored[0] < math.inf


def test_a_column_that_is_not_nullable_takes_no_null() -> None:
    sink = kept(pa.schema([pa.field("v", pa.int64(), nullable=False)]))
    with pytest.raises(
        UsageError, match="the value None of field 'v' cannot be stored as int64: the column takes no NULL"
    ):
        table(sink, [None])


def test_a_column_of_the_key_takes_no_null() -> None:
    sink = kept({"k": "string", "v": "string"}, key=["k"])
    assert table(sink, ["a", None]).num_rows == 1
    with pytest.raises(
        UsageError, match="the value None of field 'k' cannot be stored as string: it is part of the key"
    ):
        table(sink, [None, "a"])


class Odd(NamedTuple):
    price: Decimal


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "columns is {}; a dict from each field to its type"),
        (
            ["word"],
            "a dict from each field to its type, .* a NamedTuple, a dataclass or a schema of Arrow was expected",
        ),
        (str, "a dict from each field to its type"),
        ({"v": "time"}, r"columns\['v'\] is 'time'; one of tinyint, smallint"),
        ({"v": 1}, "a dict from each field to its type"),
        ({"v": "decimal(a)"}, r"columns\['v'\] is 'decimal\(a\)'; one of"),
        ({"v": "decimal(4,5)"}, r"columns\['v'\] is 'decimal\(4,5\)'; one of"),
        (Odd, r"columns\['price'\] is Decimal; one of .* was expected"),
        (pa.schema({}), r"columns is \[\]; at least one column"),
        (pa.schema({"v": pa.uint8()}), r"columns\['v'\] is uint8; one of"),
        (pa.schema({"v": pa.timestamp("us", "Europe/Berlin")}), r"columns\['v'\] is timestamp"),
        (pa.schema({"v": pa.list_(pa.time64("us"))}), r"columns\['v'\] is list<item: time64"),
        (
            pa.schema([("v", pa.int8()), ("v", pa.int8())]),
            "columns is .*; at least one column, each with a name of its own",
        ),
    ],
)
def test_columns_that_no_table_can_have_are_refused(columns: Any, message: str) -> None:
    with pytest.raises(UsageError, match=f"^Kept: .*{message}"):
        kept(columns)
