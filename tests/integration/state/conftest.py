"""The places of states. Those with a server share one for each module, which is started when a test needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from state_places import (
    NAMESPACE,
    State,
    StatePlace,
    memory_place,
    objects_place,
    own_place,
    postgres_place,
    redis_place,
    rocksdb_place,
    sqlite_place,
    zookeeper_place,
)

from tests.integration.state.object_servers import S3Server
from tests.integration.transactional.database_servers import PostgresServer, RedisServer, running
from tupletree._stores import zookeeper_nodes as transactional_zookeeper
from tupletree.state.names import readable_name

Opens = Callable[..., State]


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with running(RedisServer) as server:
        yield server


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    with running(PostgresServer) as server:
        yield server


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    with running(S3Server) as server:
        yield server


@pytest.fixture
def place_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], StatePlace]:
    """An empty place, by the name of its provider."""

    def made(name: str) -> StatePlace:
        match name:
            case "memory":
                return memory_place()
            case "own":
                return own_place()
            case "sqlite":
                return sqlite_place(tmp_path)
            case "rocksdb":
                return rocksdb_place(tmp_path)
            case "objects":
                return objects_place(request.getfixturevalue("s3_server"), tmp_path)
            case "postgres":
                return postgres_place(request.getfixturevalue("postgres_server"))
            case "redis":
                return redis_place(request.getfixturevalue("redis_server"))
            case _:
                zookeeper, root = request.getfixturevalue("zookeeper"), request.getfixturevalue("zookeeper_root")
                return zookeeper_place(zookeeper, root)

    return made


@pytest.fixture(params=["memory", "own", "sqlite", "rocksdb", "objects", "postgres", "redis", "zookeeper"])
def place(request: pytest.FixtureRequest, place_of: Callable[[str], StatePlace]) -> StatePlace:
    return place_of(request.param)


@pytest.fixture
def opened(place: StatePlace) -> Iterator[Opens]:
    """Opens states of the place, which are closed at the end of the test."""
    with ExitStack() as stack:

        def open_one(*arguments: Any, **changes: Any) -> State:
            state = place.open(*arguments, **changes)
            stack.callback(state.close)
            return state

        yield open_one
    assert not transactional_zookeeper._sessions


@pytest.fixture
def state(opened: Opens) -> State:
    """The state of the usual namespace."""
    return opened()


@pytest.fixture
def shared(place: StatePlace) -> Path:
    """The shared directory of a place of RocksDB."""
    return Path(place.provider_config["shared"])


@pytest.fixture
def folder(shared: Path) -> Path:
    """The folder of the namespace of the tests in it."""
    return shared / readable_name(NAMESPACE)
