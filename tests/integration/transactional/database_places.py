"""Where the databases under test are, and what their own clients can do to them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Protocol

import psycopg
import redis
from database_servers import PostgresServer, RedisServer, Server

from tupletree.transactional.databases import (
    Database,
    MemoryDatabase,
    PostgresDatabase,
    RedisDatabase,
    SqliteDatabase,
)


class Place(Protocol):
    """An empty database, a new one for each test."""

    def open(self) -> Database:
        """The database, as a user writes it."""

    def set_format(self, table: str, version: int) -> None:
        """Pretend that a table was written in another format."""

    def make_foreign(self, table: str) -> None:
        """Make a table of that name that is not Tupletree's."""


class MemoryPlace:
    """In this process."""

    def open(self) -> Database:
        return MemoryDatabase()

    def set_format(self, table: str, version: int) -> None:
        raise NotImplementedError

    def make_foreign(self, table: str) -> None:
        raise NotImplementedError


class SqlitePlace:
    """A file in a directory that is not there yet."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "not" / "yet" / "values.db"

    def open(self) -> Database:
        return SqliteDatabase(self.path)

    def set_format(self, table: str, version: int) -> None:
        self._execute(f"UPDATE tupletree_tables SET format = {version} WHERE name = '{table}'")

    def make_foreign(self, table: str) -> None:
        self._execute(f'CREATE TABLE "{table}" (name TEXT)')

    def _execute(self, statement: str) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute(statement)
        connection.close()


class ServerPlace(Protocol):
    """A place on a server."""

    server: Server

    def open(self, timeout_s: float = 10.0) -> Database:
        """The database, as a user writes it."""


class RedisPlace:
    """Keys of a prefix of their own."""

    def __init__(self, server: RedisServer, name: str) -> None:
        self.server: Server = server
        self.url = server.url
        self.prefix = name

    def open(self, timeout_s: float = 10.0) -> Database:
        return RedisDatabase(self.url, self.prefix, timeout_s=timeout_s)

    def set_format(self, table: str, version: int) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.hset(f"{self.prefix}:{table}:about", "format", str(version))

    def make_foreign(self, table: str) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.set(f"{self.prefix}:{table}", "theirs")


class PostgresPlace:
    """A schema of its own."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server: Server = server
        self.url = f"{server.url}&options=-csearch_path%3D{name}"
        self._execute(f"CREATE SCHEMA {name}")

    def open(self, timeout_s: float = 10.0) -> Database:
        return PostgresDatabase(self.url, timeout_s=timeout_s)

    def set_format(self, table: str, version: int) -> None:
        self._execute(f"UPDATE tupletree_tables SET format = {version} WHERE name = '{table}'")

    def make_foreign(self, table: str) -> None:
        self._execute(f'CREATE TABLE "{table}" (name text)')

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(statement)
