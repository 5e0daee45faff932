"""State in a SQL table: the results of batches, combined row by row."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tupletree._sinks.sql_plan import Plan, Roles
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError
from tupletree.spark.sink import Sink, SinkScope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SqlState(Sink):
    """A table in SQLite or PostgreSQL. The rows of each result are combined with the rows of the table, exactly once.

    The columns of ``key`` identify a row. Each other column of the result has one role::

        SqlState("sqlite:///log.db", "packages", key="package", add="actions", min="first", last={"state": "at"})

    Each argument takes one name or a sequence of names. sql_plan.py describes the effect of each role on NULLs and on
    several rows of one key. A NULL in a key column is an error. Columns can be numbers, strings, times, dates or
    booleans.

    A missing table is created by the first commit, with the types of the result; an ``add`` column gets the widest type
    of its kind. An existing table is used as it is. It must have the columns, with fitting types, and a primary key or
    unique index on exactly the key. It may have more columns, and no columns are added: notes are kept beside the table
    in ``tupletree_commits``, and in ``tupletree_undo_<table>`` if the source is opaque. **A table belongs to one
    SqlState of one pipeline**; while it is in use, other programs must not write to these columns.

    Each commit is one database transaction, durable when it returns. With SQLite the rows of a batch are collected in
    the driver, so a batch's result must fit into the driver's memory, and the file is on the driver's machine. With
    PostgreSQL Spark's tasks write the rows to an unlogged table, with one connection per task, and the commit reads
    them from there.

    Args:
        url: ``sqlite:///relative.db`` (relative to the directory in which this object is made),
            ``sqlite:////absolute.db``, or a path that ends in ``.db``; ``postgresql://user@host/database``, which
            executors must be able to reach as well, with ``pip install 'tupletree[postgres]'`` on them and here.
        table: the name of the table.
        timeout_s: time to wait for a connection and for a lock.

    Raises, besides UnavailableError if the database is unavailable, full or locked: UsageError if result and table do
    not fit (``stage``), a value cannot be stored, or the table belongs to another pipeline.
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
        """The table and its database. No two sinks of a pipeline may share both."""
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
    """The tables of one database, SQLite or PostgreSQL. The methods are those of a Sink."""

    @property
    def where(self) -> str:
        """The database, without a password."""

    def known_as(self, table: str) -> str:
        """Return the canonical name of a table, equal for all names of the same table."""

    def open(self, table: str, scope: SinkScope) -> None: ...

    def stage(self, attempt: TransactionAttempt, plan: Plan, result: DataFrame) -> Any: ...

    def commit(self, attempt: TransactionAttempt, staged: Any) -> None: ...

    def discard(self, table: str, attempt: TransactionAttempt) -> None: ...

    def close(self) -> None: ...


def _tables(url: str, timeout_s: float) -> Tables:
    """Return the tables that a URL refers to."""
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
