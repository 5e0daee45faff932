"""Rows with typed columns, as tables of Arrow: what sinks with columns have in common.

Values are checked before Arrow takes them. Arrow alone would take more, and change values: 1.5 into the integer 1.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias, cast, get_args, get_origin, get_type_hints

from tupletree._arrow import pa
from tupletree._limits import shown
from tupletree.connectors.arguments import check
from tupletree.connectors.transactional_sink import Row, check_lengths
from tupletree.errors import UsageError
from tupletree.tuples import record_fields

Columns: TypeAlias = Mapping[str, str] | pa.Schema | type
"""The fields and their types: names of Spark's types, a schema of Arrow, or a NamedTuple or dataclass."""

_SPARK: Mapping[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "date": pa.date32(),
    "boolean": pa.bool_(),
}
SQL_TYPES: Final = [name for name in _SPARK if name != "binary"]
"""The types of the columns of databases, besides decimal."""

_OF_PYTHON: Mapping[Any, str] = {
    int: "bigint",
    float: "double",
    str: "string",
    bytes: "binary",
    bool: "boolean",
    dt.datetime: "timestamp",
    dt.date: "date",
}
_ACCEPTED: Mapping[pa.DataType, frozenset[type]] = {
    **dict.fromkeys([pa.int8(), pa.int16(), pa.int32(), pa.int64()], frozenset({int})),
    **dict.fromkeys([pa.float32(), pa.float64()], frozenset({float, int})),
    **dict.fromkeys([pa.string(), pa.large_string()], frozenset({str})),
    **dict.fromkeys([pa.binary(), pa.large_binary()], frozenset({bytes})),
    **dict.fromkeys([pa.timestamp("us"), pa.timestamp("us", "UTC")], frozenset({dt.datetime})),
    pa.date32(): frozenset({dt.date}),
    pa.bool_(): frozenset({bool}),
}
"""The accepted types of the values of each type that has no parameters."""

_TOO_LARGE_FOR_FLOAT: Final = (2 - 2**-24) * 2.0**127
"""The least number that becomes infinite when it is rounded to a float of 32 bits."""


class TypedRows:
    """Columns with types of Arrow, and rows that have values for them.

    ``user``: the class that the user wrote, named in errors. ``columns``: the fields and their types, as one of

    * a dict with the names of Spark's types: ``tinyint smallint int bigint float double decimal(p,s) string binary
      timestamp timestamp_ntz date boolean``;
    * a NamedTuple or dataclass: int is bigint, float double, str string, bytes binary, datetime timestamp; date, bool,
      and lists of these;
    * a schema of Arrow with these types, lists and structs.

    Values have the matching plain types of Python. A timestamp has a time zone, and is of the years 1 to 9999 in UTC; a
    timestamp_ntz has none. None is NULL, and is refused in the columns of ``key``. Raises UsageError for other columns.
    """

    def __init__(self, user: str, columns: Columns, *, key: Collection[str] = ()) -> None:
        self._user = user
        fields, self._types = _fields(user, columns)
        self._key = frozenset(key)
        self.fields = [field.name for field in fields]
        self.schema = pa.schema([field.with_nullable(field.nullable and field.name not in key) for field in fields])

    def table(self, target: str, rows: Sequence[Row]) -> pa.Table:
        """Return rows as a table of the schema. UsageError if a value is not of its column's type.

        The error names ``target``, and the value if there is one row.
        """
        check_lengths(self._user, self.fields, rows)
        arrays = [self._array(target, place, [row[place] for row in rows]) for place in range(len(self.fields))]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _array(self, target: str, place: int, values: list[Any]) -> pa.Array:
        field = self.schema.field(place)
        null_fault = "it is part of the key" if field.name in self._key else "the column takes no NULL"
        try:
            _check_values(values, field, "it", null_fault)
            return pa.array(values, field.type)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise UsageError(
                f"{target}: the value {shown(values[0])} of field {field.name!r} cannot be stored as "
                f"{self._types[place]}: {error}"
            ) from error


def check_columns(user: str, columns: Mapping[str, str], types: Collection[str]) -> None:
    """Raise UsageError, naming the class ``user``, unless each field of ``columns`` has one of the types or decimal."""
    is_dict = isinstance(columns, Mapping) and bool(columns)
    is_dict = is_dict and all(isinstance(part, str) and part for item in columns.items() for part in item)
    expected = "a dict from each field to its type, such as {'word': 'string', 'count': 'bigint'},"
    check(user, "columns", columns, is_dict, expected)
    for name, kind in columns.items():
        is_type = kind in types or _decimal(kind) is not None
        check(user, f"columns[{name!r}]", kind, is_type, f"one of {', '.join(types)}, decimal(p,s)")


def _fields(user: str, columns: Columns) -> tuple[list[pa.Field], list[str]]:
    """Return the fields, and the names of their types as the user knows them."""
    if isinstance(columns, Mapping):
        check_columns(user, columns, _SPARK)
        fields = [pa.field(name, _SPARK.get(kind) or _decimal(kind)) for name, kind in columns.items()]
        return fields, list(columns.values())
    if isinstance(columns, pa.Schema):
        fields = list(columns)
        types = [str(field.type) for field in fields]
    else:
        fields = [pa.field(name, _of_hint(user, name, hint)) for name, hint in _hints(user, columns).items()]
        types = [_spark_name(field.type) for field in fields]
    names = [field.name for field in fields]
    are_names = bool(names) and all(names) and len(set(names)) == len(names)
    check(user, "columns", names, are_names, "at least one column, each with a name of its own,")
    for field, kind in zip(fields, types, strict=True):
        if not _is_accepted(field.type):
            raise _unknown(user, field.name, kind)
    return fields, types


def _hints(user: str, record: Any) -> Mapping[str, Any]:
    try:
        names = record_fields(record)
    except TypeError:
        raise UsageError(
            f"{user}: columns is {shown(record)}; a dict from each field to its type, such as "
            f"{{'word': 'string', 'count': 'bigint'}}, a NamedTuple, a dataclass or a schema of Arrow was expected"
        ) from None
    hints = get_type_hints(record)
    return {name: hints[name] for name in names}


def _decimal(text: str) -> pa.DataType | None:
    """Return the type of a text such as ``decimal(10,2)``. A decimal has at most 38 digits, 10 by default."""
    found = re.fullmatch(r"decimal(?:\((\d+)(?:,\s*(\d+))?\))?", text)
    if found is None:
        return None
    precision, scale = int(found[1] or 10), int(found[2] or 0)
    return pa.decimal128(precision, scale) if max(scale, 1) <= precision <= 38 else None


def _of_hint(user: str, column: str, hint: Any) -> pa.DataType:
    given = [each for each in get_args(hint) if each is not type(None)]
    if get_origin(hint) is list:
        return pa.list_(_of_hint(user, column, given[0]))
    if len(given) == 1:  # X | None
        return _of_hint(user, column, given[0])
    if hint not in _OF_PYTHON:
        raise _unknown(user, column, getattr(hint, "__name__", str(hint)))
    return _SPARK[_OF_PYTHON[hint]]


def _spark_name(kind: pa.DataType) -> str:
    return next((name for name, each in _SPARK.items() if each == kind), str(kind))


def _unknown(user: str, column: str, kind: str) -> UsageError:
    return UsageError(
        f"{user}: columns[{column!r}] is {kind}; one of {', '.join(_SPARK)}, decimal(p,s), or a type of Python or "
        f"Arrow that corresponds to one of these was expected"
    )


def _is_list(kind: pa.DataType) -> bool:
    return cast(bool, pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_accepted(kind: pa.DataType) -> bool:
    if _is_list(kind):
        return _is_accepted(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_accepted(field.type) for field in kind)
    return kind in _ACCEPTED or pa.types.is_decimal128(kind)


def _accepted(kind: pa.DataType) -> frozenset[type]:
    """Return the types of Python that a type of Arrow stands for."""
    if _is_list(kind):
        return frozenset({list, tuple})
    if pa.types.is_struct(kind):
        return frozenset({dict})
    return _ACCEPTED.get(kind, frozenset({Decimal, int}))


def _check_values(values: Sequence[Any], field: pa.Field, what: str, null_fault: str = "") -> None:
    """Raise ValueError if a value is not of a type of Python that the field's type of Arrow stands for."""
    kind, present = field.type, [value for value in values if value is not None]
    if odd := set(map(type, present)) - _accepted(kind):
        wanted = " or ".join(sorted(one.__qualname__ for one in _accepted(kind)))
        raise ValueError(f"{what} is of type {odd.pop().__qualname__}, not {wanted}")
    if len(present) < len(values) and not field.nullable:
        raise ValueError(null_fault or f"{what} is NULL")
    if _is_list(kind):
        _check_values([item for value in present for item in value], kind.value_field, "an item")
    elif pa.types.is_struct(kind):
        if unknown := {name for value in present for name in value} - {child.name for child in kind}:
            raise ValueError(f"{what} has a field {unknown.pop()!r}")
        for child in kind:
            _check_values([value.get(child.name) for value in present], child, f"its {child.name!r}")
    elif fault := _range_fault(present, kind):
        raise ValueError(f"{what} {fault}")


def _range_fault(values: Sequence[Any], kind: pa.DataType) -> str:
    """Return what is wrong with one of the values, which have a type of Python that fits; empty if nothing is."""
    if pa.types.is_float32(kind):
        is_too_large = any(_TOO_LARGE_FOR_FLOAT <= abs(value) < math.inf for value in values)
        return "is out of the range of a float" if is_too_large else ""
    if not pa.types.is_timestamp(kind):
        return ""
    if any((value.tzinfo is None) == bool(kind.tz) for value in values):
        return "has no time zone" if kind.tz else "has a time zone"
    return "" if all(map(_is_in_utc, values)) else "is not of the years 1 to 9999 in UTC"


def _is_in_utc(at: dt.datetime) -> bool:
    """Return false for a time such as the first of the year 1 in Berlin, which is of the year 0 in UTC."""
    if at.tzinfo is None or dt.MINYEAR < at.year < dt.MAXYEAR:
        return True
    try:
        at.astimezone(dt.UTC)
    except OverflowError:
        return False
    return True
