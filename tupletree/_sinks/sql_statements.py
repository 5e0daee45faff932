"""The SQL of a plan, common to SQLite and PostgreSQL. Each has a subclass for the differences.

In the upsert clause, ``stored`` is the existing row and ``excluded`` the new row.
"""

from __future__ import annotations  # pure

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tupletree._sinks.sql_plan import Column, Plan, Role
from tupletree._sinks.sql_rules import undo_table

EXISTED = "tupletree_existed"
"""The column of an undo table that is true if the row existed before. User columns cannot have this name."""


def quoted(name: str) -> str:
    """Quote a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def listed(columns: Sequence[Column], prefix: str = "") -> str:
    """Return the quoted names of columns, separated by commas."""
    return ", ".join(prefix + quoted(column.name) for column in columns)


class Statements(ABC):
    """The statements for one plan. ``undo``: the name of the undo table, if it is not named by its table."""

    def __init__(self, plan: Plan, undo: str = "") -> None:
        self.plan = plan
        self.table = quoted(plan.table)
        self.undo_name = undo or undo_table(plan.table)
        self.undo = quoted(self.undo_name)
        self.keys = listed(plan.keys)
        self.columns = listed(plan.columns)

    @abstractmethod
    def type_of(self, column: Column) -> str:
        """Return the SQL type for creating a column."""

    @abstractmethod
    def sum(self, column: Column, old: str, new: str) -> str:
        """Return the sum of two values; NULL adds nothing."""

    @abstractmethod
    def extreme(self, column: Column, old: str, new: str) -> str:
        """Return the smaller or the greater of two values, by the role of the column; NULL is ignored."""

    @abstractmethod
    def reaches(self, column: Column, old: str, new: str) -> str:
        """Return the condition that a new ordering value is at least the old value. NULL can stand for false."""

    def types(self) -> dict[str, str]:
        """Return the SQL type for creating each column."""
        return {column.name: self.type_of(column) for column in self.plan.columns}

    def create(self) -> str:
        """Return the statement that creates the table."""
        lines = [f"{quoted(column.name)} {self.type_of(column)}" for column in self.plan.columns]
        required = [line + " NOT NULL" for line in lines[: len(self.plan.keys)]]
        return (
            f"CREATE TABLE {self.table} ({', '.join([*required, *lines[len(required) :]])}, PRIMARY KEY ({self.keys}))"
        )

    def upsert(self, rows: str) -> str:
        """Return the statement that merges rows (a VALUES clause or a SELECT) into the table."""
        return f"INSERT INTO {self.table} AS stored ({self.columns}) {rows} {self._on_conflict()}"

    def combined(self, column: Column) -> str:
        """Return the new value of a column of a stored row."""
        old, new = (f"{row}.{quoted(column.name)}" for row in ("stored", "excluded"))
        match column.role:
            case Role.ADD:
                return self.sum(column, old, new)
            case Role.MIN | Role.MAX:
                return self.extreme(column, old, new)
            case Role.LAST:
                by = next(other for other in self.plan.values if other.name == column.by)
                old_by, new_by = (f"{row}.{quoted(by.name)}" for row in ("stored", "excluded"))
                reached = self.reaches(by, old_by, new_by)
                return f"CASE WHEN {old_by} IS NULL OR {reached} THEN {new} ELSE {old} END"
            case _:
                return new

    def _on_conflict(self) -> str:
        if not self.plan.values:
            return f"ON CONFLICT ({self.keys}) DO NOTHING"
        changes = ", ".join(f"{quoted(column.name)} = {self.combined(column)}" for column in self.plan.values)
        return f"ON CONFLICT ({self.keys}) DO UPDATE SET {changes}"

    def create_undo(self) -> str:
        """Return the statement that creates an undo table, with the types of the table."""
        values = "".join(f", {quoted(column.name)}" for column in self.plan.values)
        return (
            f"CREATE TABLE {self.undo} AS SELECT {self.keys}, 1 = 1 AS {EXISTED}{values} FROM {self.table} WHERE 1 = 0"
        )

    def fill_undo(self, touched: str) -> str:
        """Save the current rows of the keys in ``touched``, a FROM item named ``touched``."""
        values = "".join(f", stored.{quoted(column.name)}" for column in self.plan.values)
        same = " AND ".join(f"stored.{quoted(key.name)} = touched.{quoted(key.name)}" for key in self.plan.keys)
        return (
            f"INSERT INTO {self.undo} SELECT {listed(self.plan.keys, 'touched.')},"
            f" stored.{quoted(self.plan.keys[0].name)} IS NOT NULL{values}"
            f" FROM {touched} LEFT JOIN {self.table} AS stored ON {same}"
        )

    def restore(self, kept: Sequence[str]) -> list[str]:
        """Restore the rows from the undo table. ``kept``: the undo table's columns, from the plan that filled it."""
        keys = [key.name for key in self.plan.keys]
        values = [name for name in kept if name != EXISTED and name not in keys]
        columns = ", ".join(map(quoted, [*keys, *values]))
        changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in values)
        return [
            f"DELETE FROM {self.table} WHERE ({self.keys}) IN"
            f" (SELECT {self.keys} FROM {self.undo} WHERE NOT {EXISTED})",
            f"INSERT INTO {self.table} ({columns}) SELECT {columns} FROM {self.undo} WHERE {EXISTED}"
            f" ON CONFLICT ({self.keys}) DO " + (f"UPDATE SET {changes}" if changes else "NOTHING"),
        ]

    def undo_columns(self) -> list[str]:
        """Return the columns of the undo table that this plan fills."""
        return [*(key.name for key in self.plan.keys), EXISTED, *(column.name for column in self.plan.values)]
