"""Rows with typed columns, as tables of Arrow: what sinks with columns have in common."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tupletree._limits import shown
from tupletree._sinks.sql_plan import Column, Kind, Role
from tupletree.connectors.arguments import check
from tupletree.connectors.transactional_sink import Row, check_lengths
from tupletree.errors import UsageError

_ARROW: Mapping[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "date": pa.date32(),
    "boolean": pa.bool_(),
}
_PYTHON: Mapping[Kind, frozenset[type]] = {
    Kind.INTEGER: frozenset({int}),
    Kind.FLOAT: frozenset({float, int}),
    Kind.DECIMAL: frozenset({Decimal, int}),
    Kind.STRING: frozenset({str}),
    Kind.TIMESTAMP: frozenset({dt.datetime}),
    Kind.TIMESTAMP_NTZ: frozenset({dt.datetime}),
    Kind.DATE: frozenset({dt.date}),
    Kind.BOOLEAN: frozenset({bool}),
}
"""The accepted types of each kind. Arrow would take more, and change values: 1.5 into the integer 1."""


def check_columns(user: str, columns: Mapping[str, str]) -> None:
    """Raise UsageError, which names the class ``user``, unless ``columns`` are fields with their types."""
    is_dict = isinstance(columns, Mapping) and bool(columns)
    is_dict = is_dict and all(isinstance(part, str) and part for item in columns.items() for part in item)
    expected = "a dict from each field to its type, such as {'word': 'string', 'count': 'bigint'},"
    check(user, "columns", columns, is_dict, expected)
    for name, kind in columns.items():
        check(user, f"columns[{name!r}]", kind, _is_type(kind), f"one of {', '.join(_ARROW)}, decimal(p,s)")


def _is_type(text: str) -> bool:
    """Return true for a type of a column. A decimal has at most 38 digits, 10 by default."""
    if text in _ARROW:
        return True
    found = re.fullmatch(r"decimal(?:\((\d+)(?:,\s*(\d+))?\))?", text)
    return found is not None and int(found[2] or 0) <= int(found[1] or 10) <= 38 and found[1] != "0"


def arrow_table(
    user: str, where: str, fields: Sequence[str], columns: Sequence[Column], rows: Sequence[Row]
) -> pa.Table:
    """Return rows of ``fields`` as a table with the columns in order. UsageError if a value has not its column's type.

    The error names ``where``, and the value if there is one row.
    """
    check_lengths(user, fields, rows)
    places = [fields.index(column.name) for column in columns]
    arrays = [
        _array(where, column, [row[place] for row in rows]) for column, place in zip(columns, places, strict=True)
    ]
    return pa.Table.from_arrays(arrays, [column.name for column in columns])


def _array(where: str, column: Column, values: list[Any]) -> pa.Array:
    try:
        if odd := set(map(type, values)) - _PYTHON[column.kind] - {type(None)}:
            raise ValueError(f"it is of type {odd.pop().__qualname__}")
        if column.role == Role.KEY and None in values:
            raise ValueError("it is part of the key")
        if column.kind == Kind.TIMESTAMP and any(value.tzinfo is None for value in values if value is not None):
            raise ValueError("it has no time zone")
        if column.kind == Kind.TIMESTAMP_NTZ and any(value.tzinfo is not None for value in values if value is not None):
            raise ValueError("it has a time zone")
        return pa.array(values, _arrow_type(column))
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise UsageError(
            f"{where}: the value {shown(values[0])} of field {column.name!r} cannot be stored as {column.type}: {error}"
        ) from error


def _arrow_type(column: Column) -> pa.DataType:
    if column.kind == Kind.DECIMAL:
        precision, _, scale = column.type.removeprefix("decimal").strip("()").partition(",")
        return pa.decimal128(int(precision or 10), int(scale or 0))
    return _ARROW[column.type]
