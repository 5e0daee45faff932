"""The databases under test. Those with a server share one for each module, which is started when a test needs it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from database_places import MemoryPlace, Place, PostgresPlace, RedisPlace, SqlitePlace
from database_servers import PostgresServer, RedisServer

from tupletree.transactional.databases import Database


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    if reason := RedisServer.missing():
        pytest.skip(reason)
    server = RedisServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    if reason := PostgresServer.missing():
        pytest.skip(reason)
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


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
