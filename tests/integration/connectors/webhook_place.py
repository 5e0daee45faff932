"""A topology behind a webhook spout in a cluster of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from queue_components import History, new_history, watched
from webhook_client import Reply, post

from tupletree import Backoff
from tupletree._net import ReservedPorts
from tupletree.connectors.formats import Text
from tupletree.connectors.http import WebhookSpout
from tupletree.testing import LocalCluster, wait_until
from tupletree.testing.simulation.external import current

FAST = Backoff(first_s=0.01, max_attempts=2)


class Place:
    """A topology behind a webhook, with the history of its bolt."""

    def __init__(self, cluster: LocalCluster, port: int) -> None:
        self.cluster = cluster
        self.port = port
        self._stand_in = new_history()
        self.history: History = current(self._stand_in)

    def submit(self, *, retry: Backoff = FAST, dead_letters: bool = False, **arguments: Any) -> None:
        spout = WebhookSpout(self.port, arguments.pop("format", Text()), **arguments)
        topology = watched(spout, self._stand_in, retry=retry, dead_letters=dead_letters)
        self.cluster.submit("hooks", topology)

    def start(self, **arguments: Any) -> None:
        self.submit(**arguments)
        wait_until(self.is_listening, 20, what="the spout listens")

    def is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def post(self, body: Any, **arguments: Any) -> Reply:
        return post(self.port, body, **arguments)

    def talk(self, data: bytes) -> bytes:
        """All that is answered to ``data`` until the server ends the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def new_place() -> Iterator[Place]:
    """A place with a port of its own, which ends with the block."""
    ports = ReservedPorts()
    try:
        with LocalCluster() as cluster:
            yield Place(cluster, ports.reserve(1)[0])
    finally:
        ports.release()
