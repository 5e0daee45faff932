"""The SQL of a plan for SQLite, and the mapping of Spark's types.

    integer        INTEGER         decimal         TEXT, '1.50'      exact, of any length
    float, double  REAL            timestamp       TIMESTAMP         text in UTC, '2024-01-31 10:00:00'; with six
    string         TEXT            timestamp_ntz   TIMESTAMP         decimals if there is a fraction
    boolean        BOOLEAN, 0 1    date            DATE              text, '2024-01-31'

The text of times and dates sorts chronologically. The text of decimals does not sort numerically: decimals are added
and compared by functions that Tupletree registers on its connection.
"""

from __future__ import annotations  # pure

import decimal
from collections.abc import Mapping, Sequence

from tupletree._sinks.sql_plan import Column, Kind, Plan, Role, StoredColumn, StoredTable
from tupletree._sinks.sql_statements import Statements, quoted

_TYPES = {
    Kind.INTEGER: "INTEGER",
    Kind.FLOAT: "REAL",
    Kind.DECIMAL: "TEXT",
    Kind.STRING: "TEXT",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIMESTAMP_NTZ: "TIMESTAMP",
    Kind.DATE: "DATE",
    Kind.BOOLEAN: "BOOLEAN",
}

_TIMES = (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ, Kind.DATE)
_FITTING = {
    "INTEGER": (Kind.INTEGER, Kind.BOOLEAN),
    "TEXT": (Kind.STRING, Kind.DECIMAL, *_TIMES),
    "REAL": (Kind.FLOAT,),
    "NUMERIC": (Kind.INTEGER, Kind.BOOLEAN, Kind.FLOAT, *_TIMES),
    "BLOB": tuple(Kind),
}
"""The kinds that a column of each affinity can store and return unchanged."""

_EXACT = decimal.Context(prec=200)


class SqliteStatements(Statements):
    """The statements for one plan, for SQLite."""

    def type_of(self, column: Column) -> str:
        return _TYPES[column.kind]

    def create(self) -> str:
        return super().create() + " WITHOUT ROWID"  # rows are looked up by key only: one tree instead of two

    def sum(self, column: Column, old: str, new: str) -> str:
        if column.kind == Kind.DECIMAL:
            return f"tupletree_decimal_sum({old}, {new})"
        # On integer overflow sum() raises an error, while "+" would return a float.
        return f"(SELECT sum(v) FROM (SELECT {old} AS v UNION ALL SELECT {new}))"

    def extreme(self, column: Column, old: str, new: str) -> str:
        function = "min" if column.role == Role.MIN else "max"
        if column.kind == Kind.DECIMAL:
            return f"tupletree_decimal_{function}({old}, {new})"
        return f"coalesce({function}({old}, {new}), {old}, {new})"

    def reaches(self, column: Column, old: str, new: str) -> str:
        if column.kind == Kind.DECIMAL:
            return f"tupletree_decimal_max({old}, {new}) = {new}"
        return f"{new} >= {old}"

    def upsert_row(self) -> str:
        """Return the upsert of one row, given as parameters."""
        return self.upsert(f"VALUES ({', '.join('?' * len(self.plan.columns))})")

    def fill_undo_row(self) -> str:
        """Save one row, whose key is given as parameters."""
        keys = ", ".join(f"? AS {quoted(key.name)}" for key in self.plan.keys)
        return self.fill_undo(f"(SELECT {keys}) AS touched")


def stored_table(
    plan: Plan, columns: Sequence[tuple[str, str, bool, bool, int]], indexes: Sequence[Sequence[str | None]]
) -> StoredTable:
    """Return a table as described by SQLite, which treats ``Word`` and ``word`` as the same name.

    ``columns``: name, type, NOT NULL, has a default, and its position in the primary key, from 1. ``indexes``: the
    columns of each unique index; None is an expression.
    """
    spelling = {name.lower(): name for name in plan.names}

    def spelled(name: str) -> str:
        return spelling.get(name.lower(), name)

    primary = [spelled(name) for name, _, _, _, place in columns if place]
    found: dict[str, StoredColumn] = {}
    for name, declared, not_null, has_default, place in columns:
        numbers_itself = place and len(primary) == 1 and declared.upper() == "INTEGER"
        required = bool(not_null and not has_default and not numbers_itself)
        found[spelled(name)] = StoredColumn(declared or "BLOB", _FITTING[affinity(declared)], required)
    unique = [frozenset(map(spelled, filter(None, index))) for index in indexes if None not in index]
    return StoredTable(found, [*unique, *([frozenset(primary)] if primary else [])])


def affinity(declared: str) -> str:
    """Return the affinity of a declared type, by SQLite's five rules, in their order."""
    upper = declared.upper()
    rules: Mapping[str, Sequence[str]] = {
        "INTEGER": ("INT",),
        "TEXT": ("CHAR", "CLOB", "TEXT"),
        "BLOB": ("BLOB",),
        "REAL": ("REAL", "FLOA", "DOUB"),
    }
    for result, parts in rules.items():
        if any(part in upper for part in parts) or (result == "BLOB" and not upper):
            return result
    return "BLOB" if upper == "ANY" else "NUMERIC"  # ANY: in a STRICT table, which stores values unchanged


def decimal_sum(old: str | None, new: str | None) -> str | None:
    """Return the exact sum of two decimals; NULL adds nothing."""
    if old is None or new is None:
        return new if old is None else old
    return format(_EXACT.add(decimal.Decimal(old), decimal.Decimal(new)), "f")


def decimal_min(old: str | None, new: str | None) -> str | None:
    """Return the smaller of two decimals; NULL is ignored."""
    if old is None or new is None:
        return new if old is None else old
    return old if decimal.Decimal(old) < decimal.Decimal(new) else new


def decimal_max(old: str | None, new: str | None) -> str | None:
    """Return the greater of two decimals; NULL is ignored."""
    if old is None or new is None:
        return new if old is None else old
    return old if decimal.Decimal(old) > decimal.Decimal(new) else new


FUNCTIONS = {
    "tupletree_decimal_sum": decimal_sum,
    "tupletree_decimal_min": decimal_min,
    "tupletree_decimal_max": decimal_max,
}
"""SQL functions used by the statements, each with two arguments."""
