"""What is SQLite's own in SqlState, on real files; rows are staged without Spark."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tupletree._sinks.sql_plan import Roles
from tupletree._sinks.sqlite_statements import SqliteStatements
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError, UsageError
from tupletree.spark.sink import SinkScope
from tupletree.spark.sinks.sqlite import SqliteTables, StagedRows

A = TransactionAttempt
NO_SPARK: Any = None
PLAN = Roles("counts", "word", "count", (), (), (), {}).plan([("word", "string"), ("count", "bigint")])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def opened(path: Path, is_opaque: bool = False) -> SqliteTables:
    tables = SqliteTables(str(path), 10.0)
    tables.open("counts", SinkScope("words", is_opaque, NO_SPARK))
    return tables


def commit(tables: SqliteTables, txid: int, *rows: tuple[str, int]) -> None:
    tables.commit(A(txid, txid), StagedRows(PLAN, rows))


def execute(path: Path, statement: str) -> list[Any]:
    connection = sqlite3.connect(path, isolation_level=None)
    rows = connection.execute(statement).fetchall()
    connection.close()
    return rows


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE counts (id INTEGER PRIMARY KEY NOT NULL, Word TEXT UNIQUE, COUNT INT)",
        "CREATE TABLE Counts (word TEXT PRIMARY KEY, count INTEGER) STRICT",
        "CREATE TABLE counts (word, count, x NOT NULL DEFAULT 1, UNIQUE (word))",
        "CREATE TABLE counts (word TEXT PRIMARY KEY COLLATE NOCASE, count NUMERIC) WITHOUT ROWID",
    ],
)
def test_tables_of_many_kinds_are_used_as_they_are(path: Path, table: str) -> None:
    execute(path, table)
    tables = opened(path, is_opaque=True)
    commit(tables, 1, ("a", 1), ("b", 1))
    tables.commit(A(1, 2), StagedRows(PLAN, [("a", 3)]))
    commit(tables, 3, ("a", 1))
    assert execute(path, "SELECT word, count FROM counts") == [("a", 4)]
    assert len(execute(path, "SELECT * FROM tupletree_commits")) == 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "CREATE TABLE counts (word TEXT, count INT); CREATE UNIQUE INDEX i ON counts (word) WHERE count > 0",
            "exactly",
        ),
        ("CREATE TABLE counts (word TEXT, count INT); CREATE UNIQUE INDEX i ON counts (lower(word))", "exactly"),
        ("CREATE VIEW counts AS SELECT 'a' AS word, 1 AS count", "'word'|exactly"),
        (
            "CREATE TABLE counts (id TEXT NOT NULL PRIMARY KEY, word TEXT UNIQUE, count INT)",
            "'id' is NOT NULL without a default",
        ),
    ],
)
def test_tables_that_cannot_take_the_rows_are_mistakes(path: Path, table: str, message: str) -> None:
    for statement in table.split("; "):
        execute(path, statement)
    with pytest.raises(UsageError, match=message):
        commit(opened(path), 1, ("a", 1))


def test_a_constraint_of_the_users_is_a_mistake_and_nothing_is_written(path: Path) -> None:
    execute(path, "CREATE TABLE counts (word TEXT PRIMARY KEY, count INT CHECK (count < 10))")
    tables = opened(path)
    with pytest.raises(UsageError, match=r"state\.db, table 'counts': CHECK constraint failed"):
        commit(tables, 1, ("a", 1), ("b", 11))
    assert execute(path, "SELECT * FROM counts") == []


def test_a_full_disk_makes_it_unavailable_and_writes_nothing(path: Path) -> None:
    tables = opened(path)
    commit(tables, 1, ("a", 1))
    tables._tables._file.use(lambda connection: connection.execute("PRAGMA max_page_count = 20"))
    many = [(f"word {number}", 1) for number in range(10_000)]
    with pytest.raises(UnavailableError, match="database or disk is full"):
        commit(tables, 2, *many)
    assert execute(path, "SELECT * FROM counts") == [("a", 1)]
    commit(tables, 2, *many)
    assert execute(path, "SELECT count(*) FROM counts") == [(10_001,)]


def test_a_file_that_is_deleted_while_in_use_is_unavailable_until_it_is_back(path: Path) -> None:
    tables = opened(path)
    commit(tables, 1, ("a", 1))
    path.rename(path.with_name("away"))
    with pytest.raises(UnavailableError, match=r"state\.db was deleted or replaced while it was in use"):
        commit(tables, 2, ("a", 1))
    path.with_name("away").rename(path)
    commit(tables, 2, ("a", 1))
    assert execute(path, "SELECT * FROM counts") == [("a", 2)]


def test_a_file_that_is_no_database_is_a_mistake(path: Path) -> None:
    path.write_text("no database, " * 1000)
    with pytest.raises(UsageError, match=r"state\.db, table 'counts': file is not a database"):
        commit(opened(path), 1, ("a", 1))


def test_rows_are_found_by_the_key_and_never_by_looking_at_all(path: Path) -> None:
    tables = opened(path, is_opaque=True)
    commit(tables, 1, ("a", 1))
    statements = SqliteStatements(PLAN)
    for statement, values in [
        (statements.fill_undo_row(), ("a",)),
        *((statement, ()) for statement in statements.restore(statements.undo_columns())),
    ]:
        connection = sqlite3.connect(path)
        plan = [line[3] for line in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        connection.close()
        known = ("undo_counts", "touched", "CONSTANT ROW")
        assert not [line for line in plan if line.startswith("SCAN") and not line.endswith(known)], plan
