"""Where the tables of the tests of SqlState are, and what the databases' own clients see and do there."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import psycopg

from tupletree.spark.sinks.sql import SqlState

sys.path.append(str(Path(__file__).parent.parent / "transactional"))
from database_servers import PostgresServer

__all__ = ["PostgresServer", "PostgresTablesPlace", "SqlPlace", "SqliteTablesPlace"]


class SqlPlace(Protocol):
    """An empty database, a new one for each test."""

    name: str
    url: str

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement, committed; its rows."""

    def tables(self) -> set[str]:
        """The names of all tables."""

    def hold(self, table: str) -> Callable[[], None]:
        """Keep everybody else from writing to a table until what is returned is called."""


def state(place: SqlPlace, key: Any = "word", **roles: Any) -> SqlState:
    """A SqlState on the table ``counts``."""
    return SqlState(place.url, "counts", key, **roles)


class SqliteTablesPlace:
    """A file in a directory that is not there yet."""

    name = "sqlite"

    def __init__(self, directory: Path) -> None:
        self.path = directory / "not" / "yet" / "state.db"
        self.url = f"sqlite:///{self.path}"

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, isolation_level=None)
        rows = connection.execute(statement).fetchall()
        connection.close()
        return rows

    def tables(self) -> set[str]:
        return {name for (name,) in self.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def hold(self, table: str) -> Callable[[], None]:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        return connection.close


class PostgresTablesPlace:
    """A schema of its own."""

    name = "postgres"

    def __init__(self, server: PostgresServer, schema: str) -> None:
        self.server = server
        self.url = f"{server.url}&options=-csearch_path%3D{schema}"
        self.schema = schema
        self.execute(f"CREATE SCHEMA {schema}")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def tables(self) -> set[str]:
        return {name for (name,) in self.execute(f"SELECT tablename FROM pg_tables WHERE schemaname = '{self.schema}'")}

    def hold(self, table: str) -> Callable[[], None]:
        connection = psycopg.connect(self.url)
        connection.execute(f'LOCK TABLE "{table}"'.encode())
        return connection.close
