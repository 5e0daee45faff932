"""Opening a session where servers do not answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tupletree._coord.session import connect, disconnect
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree.errors import UnavailableError
from tupletree.testing import wait_until


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def conf(listener: socket.socket, timeout_ms: int) -> dict[str, Any]:
    return {
        "zookeeper.servers": ["127.0.0.1"],
        "zookeeper.port": listener.getsockname()[1],
        "zookeeper.session.timeout": 60_000,
        "zookeeper.connection.timeout": timeout_ms,
    }


def copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)


def test_a_server_that_forgets_the_first_connection_is_asked_again(
    listener: socket.socket, zookeeper: EmbeddedZooKeeper
) -> None:
    taken: list[socket.socket] = []

    def serve() -> None:
        """Never answer on the first connection, and lead the second one to ZooKeeper."""
        taken.append(listener.accept()[0])
        client = listener.accept()[0]
        server = socket.create_connection((zookeeper.host, zookeeper.port))
        taken.extend((client, server))
        threading.Thread(target=copy, args=(server, client), daemon=True).start()
        copy(client, server)

    threading.Thread(target=serve, daemon=True).start()
    session = connect(conf(listener, 10_000))
    try:
        assert session.exists("/zookeeper")
        assert len(taken) == 3
    finally:
        disconnect(session)
        for one in taken:
            one.close()


def test_a_session_outlives_a_server_that_comes_back_mute_for_a_moment(
    listener: socket.socket, zookeeper: EmbeddedZooKeeper
) -> None:
    taken: list[socket.socket] = []

    def serve() -> None:
        """Lead the first connection to ZooKeeper, never answer on the second, and lead the third to ZooKeeper."""
        for is_mute in (False, True, False):
            client = listener.accept()[0]
            taken.append(client)
            if is_mute:
                continue
            server = socket.create_connection((zookeeper.host, zookeeper.port))
            taken.append(server)
            threading.Thread(target=copy, args=(server, client), daemon=True).start()
            threading.Thread(target=copy, args=(client, server), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    session = connect(conf(listener, 10_000))
    try:
        assert session.exists("/zookeeper")
        for one in taken[:]:
            one.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: len(taken) == 5 and session.connected, 20, what="the session is back")
        assert session.exists("/zookeeper")
    finally:
        disconnect(session)
        for one in taken:
            one.close()


def test_a_server_that_never_answers_is_said_to_be_away(listener: socket.socket) -> None:
    with pytest.raises(UnavailableError, match="did not answer within 1 s"):
        connect(conf(listener, 1000))
