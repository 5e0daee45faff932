"""Tables in an SQLite file, as a sink."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import ClassVar

from tupletree._sinks.sql_rules import Writer, one_of_writers
from tupletree._sinks.sqlite_commits import Rows, SqliteTables, rows_of
from tupletree.attempt import TransactionAttempt
from tupletree.connectors.arguments import check, check_seconds
from tupletree.connectors.column_sink import ColumnSink
from tupletree.connectors.transactional_sink import Row
from tupletree.errors import UsageError


class SqliteSink(ColumnSink):
    """A table in an SQLite file, with one row for each key. A later row of a key replaces the earlier row.

        SqliteSink("/var/lib/shop.db", "totals", {"user": "string", "total": "bigint"}, key="user")

    The file must be on a local disk, in a directory that exists, and all tasks that write to it on its machine. The
    file and a missing table are created by the first commit. An existing table is used as it is; it needs the columns,
    with fitting types, and a primary key or unique index on exactly the key, and can have more columns. Notes are kept
    beside the table, in ``tupletree_commits``. Each commit is one transaction, durable when it returns.

    ``columns``: the fields and their types (``ColumnSink``). ``timeout_s``: how long to wait for other writers.
    Raises UsageError for a wrong argument. Refuses NaN, which SQLite cannot store.
    """

    title: ClassVar[str] = "SQLite"

    def __init__(
        self,
        path: str | os.PathLike[str],
        table: str,
        columns: Mapping[str, str],
        key: str | Sequence[str],
        *,
        timeout_s: float = 10.0,
    ) -> None:
        super().__init__("SqliteSink", table, columns, key)
        is_path = isinstance(path, str | os.PathLike) and os.fspath(path) not in ("", ":memory:")
        is_path = is_path and "://" not in str(path)
        check("SqliteSink", "path", path, is_path, "the path of a file, such as '/var/lib/shop.db',")
        check_seconds("SqliteSink", "timeout_s", timeout_s)
        self._tables = SqliteTables("SqliteSink", os.fspath(path), timeout_s)
        self._writer: Writer | None = None

    @property
    def target(self) -> str:
        return f"table {self.plan.table!r} of {self._tables.where}"

    def open(self, owner: str, *, is_opaque: bool = False) -> None:
        self._writer = one_of_writers(self.plan.table, owner, is_opaque)

    def stored(self, rows: Sequence[Row]) -> Rows:
        return rows_of(self.plan, self.arrow(rows))

    def commit(self, attempt: TransactionAttempt, rows: Sequence[Row]) -> None:
        assert self._writer is not None, "open comes first"
        self._see_directory()
        self._tables.commit(self._writer, attempt, self.plan, self.stored(rows))

    def write(self, rows: Sequence[Row]) -> None:
        self._see_directory()
        self._tables.write(self.plan, self.stored(rows))

    def close(self) -> None:
        self._tables.close()

    def _see_directory(self) -> None:
        """Raise UsageError if the directory of the file does not exist: a path with a mistake gets no directory."""
        directory = os.path.dirname(self._tables.path)
        if not os.path.isdir(directory):
            raise UsageError(f"SqliteSink: path is {self._tables.path}, and there is no directory {directory}")
