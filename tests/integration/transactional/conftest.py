"""The databases under test. Those with a server share one for each module, which is started when a test needs it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from database_places import MemoryPlace, Place, PostgresPlace, RedisPlace, SqlitePlace
from database_servers import PostgresServer, RedisServer, running

from tupletree.transactional.databases import Database


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with running(RedisServer) as server:
        yield server


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    with running(PostgresServer) as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    name = f"test_{uuid.uuid4().hex[:12]}"
    match request.param:
        case "memory":
            return MemoryPlace()
        case "sqlite":
            return SqlitePlace(tmp_path)
        case "redis":
            return RedisPlace(request.getfixturevalue("redis_server"), name)
        case _:
            return PostgresPlace(request.getfixturevalue("postgres_server"), name)


@pytest.fixture
def database(place: Place) -> Iterator[Database]:
    database = place.open()
    yield database
    database.close()
