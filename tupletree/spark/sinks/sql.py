"""State in a SQL table: what batches computed, combined row by row."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError
from tupletree.spark.sink import Sink, SinkScope
from tupletree.spark.sinks.sql_plan import Plan, Roles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SqlState(Sink):
    """A table in SQLite or PostgreSQL: the rows of each result are combined with those that it has, exactly once.

    The columns of ``key`` identify a row. Each other column of the result has one role::

        SqlState("sqlite:///log.db", "packages", key="package", add="actions", min="first", last={"state": "at"})

    One name or a sequence of names may be given. sql_plan.py has what each role does with NULLs and with several rows
    of one key, and a NULL in a key column is an error. Columns are of numbers, strings, times, dates or booleans.

    A table that is not there is made with the first commit, with the types of the result; a column that is added to
    gets the widest type of its kind. One that is there is used as it is: it must have the columns, of fitting types,
    and a primary key or unique index on exactly the key. It may have more columns, and gets none: notes are kept beside
    it in ``tupletree_commits``, and in ``tupletree_undo_<table>`` where the source is opaque. **A table belongs to one
    SqlState of one pipeline**; whoever else writes to it while it is used must not write to these columns.

    Each commit is one transaction of the database, durable when it returns. With SQLite the rows of a batch are
    collected in the driver, so a batch's result must fit into its memory, and the file is on the driver's machine. With
    PostgreSQL Spark's tasks write them to an unlogged table, on a connection for each task, from where the commit takes
    them.

    Args:
        url: ``sqlite:///relative.db`` (from where this object is made), ``sqlite:////absolute.db``, or a path that
            ends in ``.db``; ``postgresql://user@host/database``, which executors must be able to reach as well, with
            ``pip install 'tupletree[postgres]'`` on them and here.
        table: its name.
        timeout_s: how long to wait for a connection and for a lock of others.

    Raises, besides UnavailableError if the database is away, full or locked: UsageError if result and table do not fit
    (``stage``), a value cannot be stored, or the table belongs to another pipeline.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        table: str,
        key: str | Sequence[str],
        *,
        add: str | Sequence[str] = (),
        min: str | Sequence[str] = (),
        max: str | Sequence[str] = (),
        replace: str | Sequence[str] = (),
        last: Mapping[str, str] | Sequence[str] = (),
        timeout_s: float = 10.0,
    ) -> None:
        self._roles = Roles(table, key, add, min, max, replace, last)
        self._tables = _tables(os.fspath(url), timeout_s)
        self.table = table

    def __repr__(self) -> str:
        return f"<SqlState, {self.target}>"

    @property
    def target(self) -> str:
        """The table and where it is: what no two sinks of a pipeline may share."""
        return f"table {self._tables.known_as(self.table)!r} of {self._tables.where}"

    def open(self, scope: SinkScope) -> None:
        self._tables.open(self.table, scope)

    def stage(self, attempt: TransactionAttempt, result: DataFrame) -> Any:
        schema = [(field.name, field.dataType.simpleString()) for field in result.schema.fields]
        return self._tables.stage(attempt, self._roles.plan(schema), result)

    def commit(self, attempt: TransactionAttempt, staged: Any) -> None:
        self._tables.commit(attempt, staged)

    def discard(self, attempt: TransactionAttempt, staged: Any) -> None:
        self._tables.discard(self.table, attempt)

    def close(self) -> None:
        self._tables.close()


class Tables(Protocol):
    """The tables of one database, of either kind. The methods are those of a Sink."""

    @property
    def where(self) -> str:
        """The database, without a password."""

    def known_as(self, table: str) -> str:
        """The name of a table, the same for all names that are of one table."""

    def open(self, table: str, scope: SinkScope) -> None: ...

    def stage(self, attempt: TransactionAttempt, plan: Plan, result: DataFrame) -> Any: ...

    def commit(self, attempt: TransactionAttempt, staged: Any) -> None: ...

    def discard(self, table: str, attempt: TransactionAttempt) -> None: ...

    def close(self) -> None: ...


def _tables(url: str, timeout_s: float) -> Tables:
    """What a URL stands for."""
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/"):
        from tupletree.spark.sinks.sqlite import SqliteTables

        return SqliteTables(rest[1:], timeout_s)
    if not separator and url.endswith(".db") and not url.startswith("sqlite:"):
        from tupletree.spark.sinks.sqlite import SqliteTables

        return SqliteTables(url, timeout_s)
    if separator and scheme in ("postgresql", "postgres"):
        from tupletree.spark.sinks.postgres import PostgresTables

        return PostgresTables(url, timeout_s)
    shown = f"{scheme}://…" if separator else url  # there may be a password in it
    raise UsageError(
        f"SqlState: url {shown!r}: 'sqlite:///relative.db', 'sqlite:////absolute.db', a path that ends in .db or"
        " 'postgresql://user@host/database' was expected"
    )
