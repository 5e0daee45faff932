"""Rows with typed columns, of which some are the key: what the sinks of databases have in common."""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tupletree._limits import shown
from tupletree._sinks.sql_plan import Column, Kind, Plan, Role, Roles
from tupletree.connectors.transactional_sink import Row, TransactionalSink
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


class ColumnSink(TransactionalSink):
    """A table with one row for each key. A row replaces the row of its key; in one call, the last row of a key wins.

    ``user``: the class that the user wrote, named in errors. ``columns``: the fields and their types, in Spark's terms:
    ``tinyint smallint int bigint float double decimal(p,s) string timestamp timestamp_ntz date boolean``. Values have
    the matching plain types of Python; a timestamp has a time zone, a timestamp_ntz has none. None is NULL, and is
    refused in a column of the key.
    """

    def __init__(self, user: str, table: str, columns: Mapping[str, str], key: str | Sequence[str]) -> None:
        if not isinstance(columns, Mapping) or not columns or not all(isinstance(one, str) for one in columns.values()):
            raise UsageError(
                f"{user}: columns is {shown(columns)}; a dict from each field to its type was expected, such as "
                f"{{'word': 'string', 'count': 'bigint'}}"
            )
        keys = [key] if isinstance(key, str) else list(key)
        values = [name for name in columns if name not in keys]
        self.plan = Roles(table, keys, replace=values, user=user).plan([(name, columns[name]) for name in columns])
        self.fields = list(columns)
        self._user = user
        self._places = [self.fields.index(column.name) for column in self.plan.columns]

    def faults(self, rows: Sequence[Row]) -> Mapping[int, UsageError]:
        try:
            self.stored(rows)
        except UsageError:
            return {index: fault for index, row in enumerate(rows) if (fault := self._fault(row)) is not None}
        return {}

    def _fault(self, row: Row) -> UsageError | None:
        try:
            self.stored([row])
        except UsageError as error:
            return error
        return None

    @abstractmethod
    def stored(self, rows: Sequence[Row]) -> Any:
        """Return rows as the system takes them. UsageError if a value cannot be stored."""

    def arrow(self, rows: Sequence[Row]) -> pa.Table:
        """Return rows as a table with the plan's columns in order. UsageError if a value is not of its column's type.

        The error names the value if there is one row.
        """
        if any(len(row) != len(self.fields) for row in rows):
            raise UsageError(f"{self._user}: a row has {len(self.fields)} values, those of {', '.join(self.fields)}")
        arrays = [
            _array(self.plan, column, [row[place] for row in rows])
            for column, place in zip(self.plan.columns, self._places, strict=True)
        ]
        return pa.Table.from_arrays(arrays, self.plan.names)


def _array(plan: Plan, column: Column, values: list[Any]) -> pa.Array:
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
            f"table {plan.table!r}: the value {shown(values[0])} of field {column.name!r} cannot be stored as "
            f"{column.type}: {error}"
        ) from error


def _arrow_type(column: Column) -> pa.DataType:
    if column.kind == Kind.DECIMAL:
        precision, _, scale = column.type.removeprefix("decimal").strip("()").partition(",")
        return pa.decimal128(int(precision or 10), int(scale or 0))
    return _ARROW[column.type]
