"""The places of states. Those with a server share one for each module, which is started when a test needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from state_places import (
    State,
    StatePlace,
    memory_place,
    own_place,
    postgres_place,
    redis_place,
    sqlite_place,
    zookeeper_place,
)

from tests.integration.transactional.database_servers import PostgresServer, RedisServer, running
from tupletree._stores import zookeeper_nodes as transactional_zookeeper

Opens = Callable[..., State]


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with running(RedisServer) as server:
        yield server


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    with running(PostgresServer) as server:
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
            case "postgres":
                return postgres_place(request.getfixturevalue("postgres_server"))
            case "redis":
                return redis_place(request.getfixturevalue("redis_server"))
            case _:
                zookeeper, root = request.getfixturevalue("zookeeper"), request.getfixturevalue("zookeeper_root")
                return zookeeper_place(zookeeper, root)

    return made


@pytest.fixture(params=["memory", "own", "sqlite", "postgres", "redis", "zookeeper"])
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
