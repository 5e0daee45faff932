"""What the conformance suite asks of a queue: a real server, and what a person with the client library sees in it."""

from __future__ import annotations

import contextlib
import shutil
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from tests.integration.transactional.database_servers import Server
from tupletree._net import ReservedPorts
from tupletree.connectors.formats import Format
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.sinks import SinkBolt

PORTS = ReservedPorts()
"""Ports that connections do not take, so that they are free when a server comes back, too."""


def free_port() -> int:
    [port] = PORTS.reserve(1)
    return port


class QueueServer(Server):
    """A server on a port of the loopback interface, which keeps messages over a crash."""

    program = ""

    def __init__(self) -> None:
        super().__init__(self.program)
        self.port = free_port()

    @classmethod
    def missing(cls) -> str:
        found = shutil.which(cls.program, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin")
        return "" if found else f"{cls.program} is not installed: sh deploy/setup/servers.sh"

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


class QueuePlace(ABC):
    """A queue of its own at a server.

    ``rejects``: the queue sets messages that are given up aside, and ``rejected`` counts them there. ``port``: of the
    server, or of a proxy before it, which spouts and bolts connect to. ``max_bytes``: the size of the largest message
    that the server takes, if a test can reach it. ``many``: messages that take the server some seconds.
    """

    rejects = True
    knows_lag = True
    many = 6_000
    max_bytes: int | None = None

    def __init__(self, server: Any, name: str) -> None:
        self.server = server
        self.name = name
        self.port: int = server.port

    @abstractmethod
    def spout(self, format: Format, max_in_flight: int = 1000) -> QueueSpout:
        """A spout on the queue."""

    @abstractmethod
    def bolt(self, format: Format) -> SinkBolt:
        """A bolt that writes to the queue."""

    @abstractmethod
    def put(self, messages: Sequence[bytes]) -> None:
        """Put messages into the queue."""

    @abstractmethod
    def unacknowledged(self) -> int:
        """The number of messages that are in the queue, delivered or not, without those set aside."""

    @abstractmethod
    def rejected(self) -> int:
        """The number of messages set aside."""

    @abstractmethod
    def drain(self) -> list[bytes]:
        """Take and return all messages."""
