"""Sessions with the module's ZooKeeper, ended with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from tupletree._coord.session import connect, disconnect
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper

Open = Callable[[], KazooClient]


@pytest.fixture
def open_session(zookeeper: EmbeddedZooKeeper) -> Iterator[Open]:
    sessions: list[KazooClient] = []

    def open_one(session_timeout_ms: int = 6000) -> KazooClient:
        conf: dict[str, Any] = {
            "zookeeper.servers": [zookeeper.host],
            "zookeeper.port": zookeeper.port,
            "zookeeper.session.timeout": session_timeout_ms,
            "zookeeper.connection.timeout": 10_000,
        }
        sessions.append(connect(conf))
        return sessions[-1]

    yield open_one
    for session in sessions:
        disconnect(session)


@pytest.fixture
def session(open_session: Open) -> KazooClient:
    return open_session()
