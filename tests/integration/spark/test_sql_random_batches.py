"""Whatever batches, replays and crashes, a table is what the last attempt of each transaction makes of it.

Rows are staged as Spark's tasks stage them, without Spark.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from sql_places import PostgresTablesPlace, SqliteTablesPlace, SqlPlace

from tests.integration.transactional.database_servers import PostgresServer, running
from tupletree._sinks.postgres_statements import PostgresStatements, staging_table
from tupletree._sinks.sql_plan import Roles
from tupletree._sinks.sqlite_commits import rows_of
from tupletree.attempt import TransactionAttempt
from tupletree.spark.sink import SinkScope
from tupletree.spark.sinks.postgres import PostgresTables, Staged
from tupletree.spark.sinks.postgres_writer import csv_of
from tupletree.spark.sinks.sqlite import SqliteTables, StagedRows

COLUMNS = {
    **{"k": "string", "j": "bigint", "added": "bigint", "low": "double", "high": "string"},
    **{"new": "string", "status": "string", "at": "bigint"},
}
ARROW = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
SCHEMA = pa.schema([(name, ARROW[kind]) for name, kind in COLUMNS.items()])
PLAN = Roles("t", ["k", "j"], "added", "low", "high", "new", {"status": "at"}).plan(list(COLUMNS.items()))


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    with running(PostgresServer) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> SqlPlace:
    if request.param == "sqlite":
        return SqliteTablesPlace(tmp_path)
    return PostgresTablesPlace(request.getfixturevalue("postgres_server"), f"test_{uuid.uuid4().hex[:12]}")


class Driver:
    """Commits batches to a table."""

    def __init__(self, place: SqlPlace, is_opaque: bool) -> None:
        self._place = place
        path = place.path if isinstance(place, SqliteTablesPlace) else None
        self.tables: Any = SqliteTables(str(path), 10.0) if path else PostgresTables(place.url, 10.0)
        self.tables.open("t", SinkScope("random", is_opaque, cast(SparkSession, None)))

    def stage(self, attempt: TransactionAttempt, rows: list[dict[str, Any]]) -> Any:
        table = pa.Table.from_pylist(rows, SCHEMA)
        if isinstance(self.tables, SqliteTables):
            return StagedRows(PLAN, rows_of(PLAN, table))
        staging = staging_table("random", "t", attempt)
        statements = PostgresStatements(PLAN)
        winners = []
        with psycopg.connect(self._place.url) as connection:
            connection.execute(statements.create_staging(staging).encode())
            for partition, batch in enumerate(table.to_batches(max_chunksize=5)):
                with connection.cursor().copy(statements.copy(staging).encode()) as copy:
                    copy.write(csv_of(PLAN, batch, (partition, 100 - partition), 0))
                winners.append((partition, 100 - partition))
        return Staged(PLAN, staging, tuple(winners), len(rows))


def some_rows(rng: random.Random) -> list[dict[str, Any]]:
    def maybe(value: Any) -> Any:
        return value if rng.random() < 0.8 else None

    return [
        {
            **{"k": rng.choice(["", "a", "ä", 'q"'] + [str(n) for n in range(8)]), "j": rng.randrange(2)},
            **{"added": maybe(rng.randrange(-5, 100)), "low": maybe(rng.random()), "high": maybe(rng.choice("abZä"))},
            **{"new": maybe(str(rng.random())), "status": maybe(str(rng.random())), "at": maybe(rng.randrange(5))},
        }
        for _ in range(rng.randrange(25))
    ]


def combined(table: dict[Any, dict[str, Any]], rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """The rules of sql_plan.py, row by row."""
    table = {key: dict(row) for key, row in table.items()}
    for row in rows:
        old = table.get((row["k"], row["j"]))
        if old is None:
            table[row["k"], row["j"]] = dict(row)
            continue
        if old["at"] is None or (row["at"] is not None and row["at"] >= old["at"]):
            old["status"] = row["status"]
        for name, function in {"added": sum, "low": min, "high": max, "at": max}.items():
            values = [value for value in (old[name], row[name]) if value is not None]
            old[name] = function(values) if values else None  # type: ignore[operator]
        old["new"] = row["new"]
    return table


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_opaque", [False, True])
def test_a_table_is_what_the_last_attempt_of_each_transaction_makes_of_it(
    place: SqlPlace, is_opaque: bool, seed: int
) -> None:
    rng = random.Random(seed)
    model: dict[Any, dict[str, Any]] = {}
    driver = Driver(place, is_opaque)
    number = 0
    for txid in range(1, 12):
        rows = some_rows(rng)
        before = model
        for replay in range(rng.choice([1, 1, 2, 3])):
            number += 1
            attempt = TransactionAttempt(txid, number)
            if replay and is_opaque:
                rows = some_rows(rng)
            if rng.random() < 0.3:
                driver = Driver(place, is_opaque)  # the last one has crashed, with its commit made and not recorded
            staged = driver.stage(attempt, rows)
            for _ in range(rng.choice([1, 2])):
                driver.tables.commit(attempt, staged)
            model = combined(before, rows)
            names = PLAN.names
            stored = place.execute(f"SELECT {', '.join(names)} FROM t")
            assert {row[:2]: dict(zip(names, row, strict=True)) for row in stored} == model
