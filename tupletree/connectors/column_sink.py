"""Rows with typed columns, of which some are the key: what the sinks of databases have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tupletree._arrow import pa
from tupletree._sinks.sql_plan import Roles, check_table
from tupletree.connectors.arguments import check, checked_names
from tupletree.connectors.transactional_sink import Row, TransactionalSink, faults_of
from tupletree.connectors.typed_rows import SQL_TYPES, TypedRows, check_columns
from tupletree.errors import UsageError


class ColumnSink(TransactionalSink):
    """A table with one row for each key. A row replaces the row of its key; in one call, the last row of a key wins.

    ``user``: the class that the user wrote, named in errors; ``table_title``: its word for the table. ``columns``: the
    fields and their types, in Spark's terms: ``tinyint smallint int bigint float double decimal(p,s) string timestamp
    timestamp_ntz date boolean``. Values have the matching plain types of Python; a timestamp has a time zone, a
    timestamp_ntz has none. None is NULL, and is refused in a column of the key.
    """

    def __init__(
        self,
        user: str,
        table: str,
        columns: Mapping[str, str],
        key: str | Sequence[str],
        *,
        table_title: str = "table",
    ) -> None:
        check_table(user, table, table_title)
        check_columns(user, columns, SQL_TYPES)
        keys = checked_names(user, "key", [key] if isinstance(key, str) else key)
        check(user, "key", key, set(keys) <= set(columns), f"one or several of {', '.join(columns)}")
        values = [name for name in columns if name not in keys]
        self.plan = Roles(table, keys, replace=values, user=user).plan([(name, columns[name]) for name in columns])
        self._typed = TypedRows(user, columns, key=keys)
        self.fields = self._typed.fields
        self.key_fields = keys

    def faults(self, rows: Sequence[Row]) -> Mapping[int, UsageError]:
        return faults_of(self.stored, rows)

    @abstractmethod
    def stored(self, rows: Sequence[Row]) -> Any:
        """Return rows as the system takes them. UsageError if a value cannot be stored."""

    def arrow(self, rows: Sequence[Row]) -> pa.Table:
        """Return rows as a table with the plan's columns in order. UsageError if a value is not of its column's type.

        The error names the value if there is one row.
        """
        return self._typed.table(f"table {self.plan.table!r}", rows).select(self.plan.names)
