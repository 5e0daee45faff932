"""The places of the tests of transactional sinks, and what their own clients see and do there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import duckdb
import psycopg
import pyarrow.parquet as pq
import redis
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from tests.integration.transactional.database_servers import PostgresServer, RedisServer
from tupletree._sinks.file_commits import owner_name
from tupletree.connectors.delta import DeltaSink
from tupletree.connectors.file_sinks import FileSink, ParquetSink
from tupletree.connectors.formats import Json
from tupletree.connectors.iceberg import IcebergSink
from tupletree.connectors.postgres import PostgresSink
from tupletree.connectors.redis_hashes import RedisHashSink
from tupletree.connectors.sqlite import SqliteSink
from tupletree.connectors.transactional_sink import TransactionalSink

COLUMNS = {"word": "string", "count": "bigint"}


class SinkPlace(Protocol):
    """An empty table ``counts`` of words, a new one for each test.

    ``has_keys``: a row replaces the row of its key; otherwise rows are appended.
    """

    has_keys: bool

    def sink(self) -> TransactionalSink:
        """The sink, as a user writes it. It gives up after a second."""

    def counts(self) -> Sequence[tuple[str, int]]:
        """The rows of the table in any order, read by the system's own client."""

    def run(self, statement: str) -> None:
        """Run a statement of SQL."""

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts, no commit comes to an end."""

    def cut(self) -> None:
        """Break every connection."""


class SqlitePlace:
    """A file."""

    has_keys = True

    def __init__(self, directory: Path) -> None:
        self.path = directory / "sink.db"

    def sink(self) -> TransactionalSink:
        return SqliteSink(self.path, "counts", COLUMNS, key="word", timeout_s=1)

    def counts(self) -> Sequence[tuple[str, int]]:
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'counts'").fetchone():
                return []
            return connection.execute("SELECT word, count FROM counts").fetchall()

    def run(self, statement: str) -> None:
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            connection.execute(statement)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")

    def cut(self) -> None:
        """Do nothing: a file has no connection that breaks."""


class PostgresPlace:
    """A schema of a server."""

    has_keys = True

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.schema = f"s{uuid.uuid4().hex[:12]}"
        self.url = f"{server.url}&options=-csearch_path%3D{self.schema}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {self.schema}")

    def sink(self) -> TransactionalSink:
        return PostgresSink(self.url, "counts", COLUMNS, key="word", timeout_s=1)

    def counts(self) -> Sequence[tuple[str, int]]:
        with psycopg.connect(self.url) as connection:
            if connection.execute("SELECT to_regclass('counts')").fetchone() == (None,):
                return []
            return connection.execute("SELECT word, count FROM counts").fetchall()

    def run(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        with psycopg.connect(self.url) as connection:
            connection.execute("LOCK TABLE tupletree_commits IN ACCESS EXCLUSIVE MODE")
            yield
            connection.rollback()

    def cut(self) -> None:
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tupletree'"
            )


class RedisPlace:
    """A prefix of a server."""

    has_keys = True

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._prefix = f"s{uuid.uuid4().hex[:12]}"

    def sink(self) -> TransactionalSink:
        return RedisHashSink(self._server.url, self._prefix, COLUMNS, key="word", timeout_s=1)

    def counts(self) -> Sequence[tuple[str, int]]:
        with redis.Redis.from_url(self._server.url, decode_responses=True) as client:
            names = client.keys(f"{self._prefix}:*")
            return [(name.split(":")[1], int(client.hget(name, "count"))) for name in names]

    def run(self, statement: str) -> None:
        """Raise AssertionError: Redis has no SQL."""
        raise AssertionError(statement)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        [process, *_] = self._server.processes()
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def cut(self) -> None:
        with redis.Redis.from_url(self._server.url) as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal")


class FilesPlace:
    """A directory of JSON lines."""

    has_keys = False

    def __init__(self, directory: Path) -> None:
        self.path = directory / "counts of words"

    def sink(self) -> TransactionalSink:
        return FileSink(self.path, Json(list(COLUMNS)), timeout_s=1)

    def rows(self, file: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in file.read_text().splitlines()]

    def counts(self) -> Sequence[tuple[str, int]]:
        files = self.path.glob("[!_.]*.*")
        return [(row["word"], row["count"]) for file in files for row in self.rows(file)]

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        folder = self.path / "_tupletree" / owner_name("words/count/0")
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def cut(self) -> None:
        """Do nothing: a directory has no connection that breaks."""


class ParquetPlace(FilesPlace):
    """The same, of Parquet files."""

    def sink(self) -> TransactionalSink:
        return ParquetSink(self.path, COLUMNS, timeout_s=1)

    def rows(self, file: Path) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = pq.read_table(file).to_pylist()
        return found


class DeltaPlace:
    """A directory. The judge is DuckDB."""

    has_keys = False

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lake" / "counts"

    def sink(self) -> TransactionalSink:
        return DeltaSink(self.path, COLUMNS, timeout_s=1)

    def counts(self) -> Sequence[tuple[str, int]]:
        if not DeltaTable.is_deltatable(str(self.path)):
            return []
        files = DeltaTable(self.path).file_uris()
        return duckdb.execute("SELECT word, count FROM read_parquet(?)", [files]).fetchall() if files else []

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Take the name of the next entry of the log: data files are written, and no commit is."""
        entry = self.path / "_delta_log" / f"{DeltaTable(self.path).version() + 1:020}.json"
        entry.mkdir()
        try:
            yield
        finally:
            entry.rmdir()

    def cut(self) -> None:
        """Do nothing: a file has no connection that breaks."""


class IcebergPlace:
    """A catalog in a file of SQLite, and a directory. The judge is DuckDB."""

    has_keys = False

    def __init__(self, directory: Path) -> None:
        self.path = directory / "catalog.db"
        uri, warehouse = f"sqlite:///{self.path}?timeout=1", f"file://{directory / 'warehouse'}"
        self.catalog = {"name": "lake", "type": "sql", "uri": uri, "warehouse": warehouse}
        load_catalog(**self.catalog)  # makes the tables of the catalog, which two clients at a time cannot

    def sink(self) -> TransactionalSink:
        return IcebergSink(self.catalog, "words.counts", COLUMNS, timeout_s=2)

    def counts(self) -> Sequence[tuple[str, int]]:
        try:
            table = load_catalog(**self.catalog).load_table("words.counts")
        except NoSuchTableError:
            return []
        files = [task.file.file_path for task in table.scan().plan_files()]
        return duckdb.execute("SELECT word, count FROM read_parquet(?)", [files]).fetchall() if files else []

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock of the catalog's file: data files are written, and no commit is."""
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")

    def cut(self) -> None:
        """Do nothing: a file has no connection that breaks."""
