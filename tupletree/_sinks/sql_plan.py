"""The effect of a batch's rows on a SQL table: the columns that identify a row, and how the other columns combine.

    role      the stored value becomes                              NULL in the batch
    key       identifies the row                                    an error
    add       stored + new                                          adds nothing
    min, max  the smaller, the greater                              is ignored
    replace   new                                                   is stored
    last      new, if the row's ordering column is >= the stored    is stored
              value, where NULL is the lowest value

The ordering column of a ``last`` column is stored too, and is itself a ``max`` column. Rows of one batch with the same
key are combined by the same rules. If two rows have equal ordering values, the row that Spark puts later wins.
"""

from __future__ import annotations  # pure

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tupletree.errors import UsageError

_NAME = re.compile(r"(?!sqlite_|tupletree_|pg_)[A-Za-z0-9_]{1,48}", re.IGNORECASE | re.ASCII)
"""Valid table names. With the prefix ``tupletree_undo_`` they still fit PostgreSQL's limit."""


class Role(StrEnum):
    """The role of a column."""

    KEY = "key"
    ADD = "add"
    MIN = "min"
    MAX = "max"
    REPLACE = "replace"
    LAST = "last"


class Kind(StrEnum):
    """Kinds of Spark's types, distinguished by how they are stored."""

    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    STRING = "string"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    DATE = "date"
    BOOLEAN = "boolean"


_KINDS = {
    "tinyint": Kind.INTEGER,
    "smallint": Kind.INTEGER,
    "int": Kind.INTEGER,
    "bigint": Kind.INTEGER,
    "float": Kind.FLOAT,
    "double": Kind.FLOAT,
    "decimal": Kind.DECIMAL,
    "string": Kind.STRING,
    "timestamp": Kind.TIMESTAMP,
    "timestamp_ntz": Kind.TIMESTAMP_NTZ,
    "date": Kind.DATE,
    "boolean": Kind.BOOLEAN,
}
_NUMBERS = (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL)
_WIDEST = {Kind.INTEGER: "bigint", Kind.FLOAT: "double"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the result.

    Attributes:
        type: the stored type, in Spark's terms: ``decimal(10,2)``. An ``add`` column has the widest type of its kind.
        by: the ordering column of a ``last`` column.
    """

    name: str
    type: str
    kind: Kind
    role: Role
    by: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The columns of a batch's result, key columns first, and the target table."""

    table: str
    keys: tuple[Column, ...]
    values: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.keys + self.values

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def null_key(self, column: str) -> UsageError:
        """Return the error for a NULL in a key column."""
        return UsageError(
            f"table {self.table!r}: column {column!r} of the result is part of the key and NULL in some row: a value"
            " was expected; drop such rows or fill them"
        )


class Roles:
    """The roles that the user assigned to columns, checked. UsageError for invalid assignments.

    ``user``: the class that the user wrote, named in errors.
    """

    def __init__(
        self,
        table: str,
        key: str | Sequence[str],
        add: str | Sequence[str] = (),
        min: str | Sequence[str] = (),
        max: str | Sequence[str] = (),
        replace: str | Sequence[str] = (),
        last: Mapping[str, str] | Sequence[str] = (),
        user: str = "SqlState",
    ) -> None:
        self._user = user
        self.table = check_table(user, table)
        self.key = _names(user, "key", key)
        if not self.key:
            raise UsageError(
                f"{user}, table {table!r}: key names no column; the columns that identify a row were expected"
            )
        if not isinstance(last, Mapping) and last != ():
            raise UsageError(
                f"{user}, table {table!r}: last={last!r}: a dict from each column to its ordering column was"
                " expected, such as {'status': 'at'}"
            )
        self.last = dict(last) if isinstance(last, Mapping) else {}
        given = {
            Role.KEY: self.key,
            Role.ADD: _names(user, "add", add),
            Role.MIN: _names(user, "min", min),
            Role.MAX: _names(user, "max", max),
            Role.REPLACE: _names(user, "replace", replace),
            Role.LAST: _names(user, "last", list(self.last)),
        }
        self.of: dict[str, Role] = {}
        for role, names in given.items():
            for name in names:
                self._give(name, role)
        for name in dict.fromkeys(_names(user, "last", list(self.last.values()))):
            if self.of.get(name) != Role.MAX:  # an ordering column may be named in max as well
                self._give(name, Role.MAX, "the ordering column of last")

    def _give(self, name: str, role: Role, what: str = "") -> None:
        if name in self.of:
            raise UsageError(
                f"{self._user}, table {self.table!r}: column {name!r} is in {self.of[name].value} and in"
                f" {what or role.value}: one role for each column was expected"
            )
        self.of[name] = role

    def plan(self, schema: Sequence[tuple[str, str]]) -> Plan:
        """Return the plan for a result with these columns (name, Spark type). UsageError if they do not fit."""
        if twice := [name for name, count in Counter(name for name, _ in schema).items() if count > 1]:
            raise self._error(twice[0], "occurs twice in the result: different names were expected")
        types = dict(schema)
        for name, role in self.of.items():
            if name not in types:
                raise self._error(name, f"is named in {role.value} but is not in the result, which has {_list(types)}")
        for name in types:
            if name not in self.of:
                raise self._error(
                    name,
                    "of the result has no role: name it in key, add, min, max, replace or last, or leave it out",
                )
        columns = [self._column(name, types[name]) for name in [*self.key, *(n for n in types if n not in self.key)]]
        count = len(self.key)
        return Plan(self.table, tuple(columns[:count]), tuple(columns[count:]))

    def _column(self, name: str, spark_type: str) -> Column:
        role = self.of[name]
        column = typed_column(f"table {self.table!r}", name, spark_type, role, self.last.get(name, ""))
        if role != Role.ADD:
            return column
        if column.kind not in _NUMBERS:
            raise self._error(name, f"is in add and of type {spark_type}: a number was expected")
        if column.kind == Kind.DECIMAL:
            return replace(column, type=f"decimal(38,{spark_type.strip('()').rpartition(',')[2]})")
        return replace(column, type=_WIDEST[column.kind])

    def _error(self, column: str, what: str) -> UsageError:
        return UsageError(f"table {self.table!r}: column {column!r} {what}")


def typed_column(where: str, name: str, spark_type: str, role: Role = Role.REPLACE, by: str = "") -> Column:
    """Return a column of a type in Spark's terms. Raises UsageError, which names ``where``, for any other type."""
    base, arguments = re.match(r"(\w*)(.*)", spark_type, re.DOTALL).groups()  # type: ignore[union-attr]
    kind = _KINDS.get(base)
    if kind is None:
        raise UsageError(f"{where}: column {name!r} is of type {spark_type}, and one of {_list(_KINDS)} was expected")
    return Column(name, base + arguments if kind == Kind.DECIMAL else base, kind, role, by)


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of an existing table. ``is_required``: True if a row cannot be inserted without the column."""

    type: str
    kinds: Collection[Kind]
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class StoredTable:
    """An existing table: its columns by name, and the sets of columns that are unique."""

    columns: Mapping[str, StoredColumn]
    unique: Sequence[frozenset[str]]

    def check(self, plan: Plan, ideal: Mapping[str, str]) -> None:
        """Raise UsageError unless the rows of a plan fit. ``ideal``: the type for creating each column."""
        for column in plan.columns:
            stored = self.columns.get(column.name)
            if stored is None:
                what = f"has no column {column.name!r}: add one of type {ideal[column.name]}"
                raise UsageError(f"table {plan.table!r} exists and {what}")
            if column.kind not in stored.kinds:
                raise UsageError(
                    f"table {plan.table!r}: column {column.name!r} has type {stored.type}, but the rows have values of"
                    f" type {column.type}: {ideal[column.name]} was expected in the table"
                )
        for name, stored in self.columns.items():
            if stored.is_required and name not in plan.names:
                raise UsageError(
                    f"table {plan.table!r}: column {name!r} is NOT NULL without a default, and the rows have no such"
                    " column: give it a default, or add it to the rows"
                )
        if frozenset(column.name for column in plan.keys) not in self.unique:
            keys = ", ".join(column.name for column in plan.keys)
            raise UsageError(
                f"table {plan.table!r} has no primary key or unique index on exactly ({keys}): add one, so that"
                " rows can be found by their key"
            )


def check_table(user: str, name: str, title: str = "table") -> str:
    """Return the name of a table. UsageError, naming ``user`` and its ``title`` for the table, for a wrong name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{user}: {title} {name!r}: a name has 1 to 48 letters, digits and underscores, and does not begin with"
            " sqlite_, pg_ or tupletree_"
        )
    return name


def _names(user: str, role: str, given: str | Sequence[str]) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if not isinstance(name, str) or not name or "\0" in name:
            raise UsageError(f"{user}: {role}={given!r}: names of columns were expected")
        if name.lower().startswith("tupletree_"):
            raise UsageError(f"{user}: {role}: column {name!r} begins with tupletree_, which is a reserved prefix")
    return names


def _list(names: Collection[str] | Iterator[str]) -> str:
    return ", ".join(names)
