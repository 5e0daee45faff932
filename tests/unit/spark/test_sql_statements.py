"""The SQL that is built from plans, and values on their way into it."""

from __future__ import annotations

import datetime
import decimal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tupletree._sinks.postgres_statements import PostgresStatements, staged_rows, staging_prefix, staging_table
from tupletree._sinks.sql_plan import Plan, Roles
from tupletree._sinks.sqlite_commits import rows_of
from tupletree._sinks.sqlite_statements import SqliteStatements, affinity, decimal_max, decimal_min, decimal_sum
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError
from tupletree.spark.sinks.postgres_writer import csv_of
from tupletree.spark.sinks.sql import SqlState


def plan(key: Any, columns: dict[str, str], table: str = "t", **given: Any) -> Plan:
    everything: dict[str, Any] = dict(add=(), min=(), max=(), replace=(), last={}) | given
    return Roles(table, key, **everything).plan(list(columns.items()))


COUNT = plan("word", {"word": "string", "count": "int"}, add="count")


def test_the_statements_of_a_count() -> None:
    sqlite, postgres = SqliteStatements(COUNT), PostgresStatements(COUNT)
    assert sqlite.create() == (
        'CREATE TABLE "t" ("word" TEXT NOT NULL, "count" INTEGER, PRIMARY KEY ("word")) WITHOUT ROWID'
    )
    assert postgres.create() == 'CREATE TABLE "t" ("word" text NOT NULL, "count" bigint, PRIMARY KEY ("word"))'
    assert sqlite.upsert_row() == (
        'INSERT INTO "t" AS stored ("word", "count") VALUES (?, ?) ON CONFLICT ("word") DO UPDATE SET'
        ' "count" = (SELECT sum(v) FROM (SELECT stored."count" AS v UNION ALL SELECT excluded."count"))'
    )
    assert postgres.upsert(postgres.combined_rows("staged")) == (
        'INSERT INTO "t" AS stored ("word", "count") SELECT "word", sum("count") FROM staged GROUP BY "word"'
        ' ON CONFLICT ("word") DO UPDATE SET'
        ' "count" = coalesce(stored."count" + excluded."count", stored."count", excluded."count")'
    )


def test_names_of_any_kind_are_quoted() -> None:
    odd = plan('a"b', {'a"b': "string", "select %s": "int"}, add="select %s")
    assert SqliteStatements(odd).create().startswith('CREATE TABLE "t" ("a""b" TEXT NOT NULL, "select %s" INTEGER')


def test_a_last_value_is_taken_if_its_time_is_reached() -> None:
    last = plan("k", {"k": "int", "s": "string", "at": "string"}, last={"s": "at"})
    assert (
        's" = CASE WHEN stored."at" IS NULL OR excluded."at" >= stored."at" THEN excluded."s" ELSE stored."s" END'
        in (SqliteStatements(last).upsert_row())
    )
    postgres = PostgresStatements(last)
    assert (
        '(array_agg("s" ORDER BY "at" COLLATE "C" DESC NULLS LAST, tupletree_partition DESC, tupletree_row DESC))[1]'
        in postgres.combined_rows("staged")
    )
    assert 'excluded."at" COLLATE "C" >= stored."at" COLLATE "C"' in postgres.upsert("")


def test_only_the_winners_rows_are_read() -> None:
    assert staged_rows("s", [(0, 7), (1, 9)]) == (
        '(SELECT * FROM "s" WHERE (tupletree_partition, tupletree_task) IN ((0, 7), (1, 9))) AS staged'
    )


def test_names_of_staging_tables_fit_into_postgresql_and_tell_pipelines_and_tables_apart() -> None:
    longest = staging_table("x" * 200, "t" * 48, TransactionAttempt(2**63 - 1, 2**63 - 1))
    assert len(longest) <= 63
    assert longest.startswith(staging_prefix("x" * 200, "t" * 48))
    assert len({staging_prefix(name, table) for name in ("a", "b") for table in ("t", "u")}) == 4


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        *[("INT", "INTEGER"), ("UNSIGNED BIG INT", "INTEGER"), ("VARCHAR(10)", "TEXT"), ("CLOB", "TEXT")],
        *[("", "BLOB"), ("blob", "BLOB"), ("ANY", "BLOB"), ("DOUBLE PRECISION", "REAL"), ("float", "REAL")],
        *[("NUMERIC", "NUMERIC"), ("DECIMAL(10,5)", "NUMERIC"), ("BOOLEAN", "NUMERIC"), ("DATETIME", "NUMERIC")],
        *[("CHARINT", "INTEGER"), ("FLOATING POINT", "INTEGER")],
    ],
)
def test_the_affinity_of_a_declared_type(declared: str, expected: str) -> None:
    assert affinity(declared) == expected


def test_decimals_as_text_are_exact() -> None:
    assert decimal_sum("0.10", "0.2") == "0.30"
    assert decimal_sum("9" * 38, "1") == "1" + "0" * 38
    assert decimal_sum("0.0000000001", "-0.0000000001") == "0.0000000000"
    assert (decimal_min("9", "10.0"), decimal_max("9", "10.0")) == ("9", "10.0")
    for function in (decimal_sum, decimal_min, decimal_max):
        assert (function(None, "1"), function("1", None), function(None, None)) == ("1", "1", None)


def test_times_and_decimals_become_text_for_sqlite() -> None:
    columns = {"k": "decimal(20,10)", "ts": "timestamp", "tn": "timestamp_ntz", "d": "date"}
    at = datetime.datetime(2024, 5, 1, 10, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "d": [datetime.date(2024, 5, 1), None],
            "k": pa.array([decimal.Decimal(0), decimal.Decimal("-1.5")], pa.decimal128(20, 10)),
            "ts": pa.array([at, at + datetime.timedelta(microseconds=5)], pa.timestamp("us", "America/New_York")),
            "tn": pa.array([at.replace(tzinfo=None), None], pa.timestamp("us")),
        }
    )
    assert rows_of(plan("k", columns, replace=["ts", "tn", "d"]), table) == [
        ("0.0000000000", "2024-05-01 10:00:00", "2024-05-01 10:00:00", "2024-05-01"),
        ("-1.5000000000", "2024-05-01 10:00:00.000005", None, None),
    ]


def test_nan_is_a_mistake_for_sqlite() -> None:
    floats = plan("k", {"k": "int", "x": "double"}, add="x")
    with pytest.raises(UsageError, match="table 't': column 'x' of the result is NaN in some row"):
        rows_of(floats, pa.table({"k": [1, 2], "x": [float("nan"), None]}))
    assert rows_of(floats, pa.table({"k": [1, 2], "x": [float("inf"), None]})) == [(1, float("inf")), (2, None)]


def test_rows_become_csv_with_tags_in_the_order_of_the_plan() -> None:
    batch = pa.RecordBatch.from_pydict({"count": pa.array([1, None]), "word": ['say "a"', ""]})
    assert csv_of(COUNT, batch, (3, 8), 10) == b'3,8,10,"say ""a""",1\n3,8,11,"",\n'
    with pytest.raises(UsageError, match="column 'word' of the result is part of the key and NULL"):
        csv_of(COUNT, pa.RecordBatch.from_pydict({"count": [1], "word": pa.array([None], pa.string())}), (0, 0), 0)


@pytest.mark.parametrize("url", ["mysql://me:secret@host/db", "sqlite:relative.db", "counts", "sqlite://", ""])
def test_a_url_of_another_kind_is_a_mistake_and_no_password_is_shown(url: str) -> None:
    with pytest.raises(UsageError, match=r"'sqlite:///relative\.db'") as raised:
        SqlState(url, "t", "word")
    assert "secret" not in str(raised.value)


def test_a_relative_path_is_one_of_where_the_state_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///x.db", "x.db", Path("x.db"), f"sqlite:///{tmp_path}/x.db"):
        assert SqlState(url, "t", "word").target == f"table 't' of sqlite:///{tmp_path}/x.db"
    with pytest.raises(UsageError, match="a path of an SQLite file was expected"):
        SqlState("sqlite:///:memory:", "t", "word")


def test_where_a_table_in_postgresql_is_shows_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SqlState("postgresql://me:secret@there:5433/things", "t", "word")
    assert repr(state) == "<SqlState, table 't' of PostgreSQL at there:5433, database 'things'>"
    with pytest.raises(UsageError, match="SqlState: url: ") as raised:
        SqlState("postgresql://me:secret@there:port:5/things?x", "t", "word")
    assert "secret" not in str(raised.value)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match=r"SqlState needs the package psycopg: pip install 'tupletree\[postgres\]'"):
        SqlState("postgresql://there/things", "t", "word")
