"""Tables in PostgreSQL, as a sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tupletree._arrow import pa, pc
from tupletree._limits import shown
from tupletree._sinks.postgres_commits import commit, make_commits, make_table
from tupletree._sinks.postgres_rows import csv_of
from tupletree._sinks.postgres_statements import PostgresStatements, staged_rows
from tupletree._sinks.sql_plan import Kind
from tupletree._sinks.sql_rules import Writer, one_of_writers
from tupletree._stores.postgres import PostgresAddress
from tupletree.attempt import TransactionAttempt
from tupletree.connectors.arguments import check_seconds, check_text
from tupletree.connectors.column_sink import ColumnSink
from tupletree.connectors.transactional_sink import Row
from tupletree.errors import UsageError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_STAGING = "tupletree_rows"


class PostgresSink(ColumnSink):
    """A table in PostgreSQL, with one row for each key. A later row of a key replaces the earlier row.

        PostgresSink("postgresql://shop@db/shop", "totals", {"user": "string", "total": "bigint"}, key="user")

    A missing table is created by the first commit. An existing table is used as it is; it needs the columns, with
    fitting types, and a primary key or unique index on exactly the key, and can have more columns. Notes are kept
    beside the table, in ``tupletree_commits``. Each commit is one transaction of the database.

    ``url``: a connection string of libpq; PostgreSQL 12 or newer. ``columns``: the fields and their types
    (``ColumnSink``). ``timeout_s``: how long to wait for a connection and for a lock; a call is given up after twice
    this time. Raises UsageError for a wrong argument, and if the package psycopg is missing. Refuses text with a NUL,
    which PostgreSQL cannot store.
    """

    title: ClassVar[str] = "PostgreSQL"

    def __init__(
        self,
        url: str,
        table: str,
        columns: Mapping[str, str],
        key: str | Sequence[str],
        *,
        timeout_s: float = 10.0,
    ) -> None:
        super().__init__("PostgresSink", table, columns, key)
        check_text("PostgresSink", "url", url, is_secret=True)
        check_seconds("PostgresSink", "timeout_s", timeout_s)
        self._address = PostgresAddress("PostgresSink", url, timeout_s)
        self._timeout_s = timeout_s
        self._writer: Writer | None = None

    @property
    def target(self) -> str:
        return f"table {self.plan.table!r} of {self._address.where}"

    def open(self, owner: str, *, is_opaque: bool = False) -> None:
        self._writer = one_of_writers(self.plan.table, owner, is_opaque)

    def stored(self, rows: Sequence[Row]) -> pa.Table:
        table = self.arrow(rows)
        for column in self.plan.columns:
            values = table.column(column.name)
            if column.kind == Kind.STRING and pc.any(pc.match_substring(values, "\0")).as_py():
                raise UsageError(
                    f"table {self.plan.table!r}: the value {shown(values[0].as_py())} of field {column.name!r} cannot "
                    f"be stored: it has a NUL character"
                )
        return table

    def commit(self, attempt: TransactionAttempt, rows: Sequence[Row]) -> None:
        writer, stored = self._writer, self.stored(rows)
        assert writer is not None, "open comes first"

        def stage(connection: Connection, statements: PostgresStatements) -> str | None:
            return _staged(connection, statements, stored) if stored.num_rows else None

        def work(connection: Connection) -> None:
            make_commits(connection)
            with connection.transaction():
                commit(connection, writer, attempt, self.plan, lambda statements: stage(connection, statements))

        self._use(work)

    def write(self, rows: Sequence[Row]) -> None:
        stored, statements = self.stored(rows), PostgresStatements(self.plan)

        def work(connection: Connection) -> None:
            with connection.transaction():
                make_table(connection, statements)
                staged = _staged(connection, statements, stored)
                connection.execute(statements.upsert(statements.combined_rows(staged)))

        self._use(work)

    def close(self) -> None:
        self._address.close()

    def _use(self, work: Callable[[Connection], None]) -> None:
        self._address.use(self.plan.table, work, limit_s=2 * self._timeout_s)


def _staged(connection: Connection, statements: PostgresStatements, rows: pa.Table) -> str:
    """Copy rows to a table of this transaction, and return it as a FROM item."""
    connection.execute(statements.create_staging(_STAGING, is_temporary=True))
    with connection.cursor().copy(statements.copy(_STAGING)) as copy:
        for batch in rows.combine_chunks().to_batches():  # one, or none
            copy.write(csv_of(statements.plan, batch, (0, 0), 0))
    return staged_rows(_STAGING, [(0, 0)])
