"""A daemon's session with ZooKeeper: opened once, with the daemon's presence, and closed once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from tupletree._coord.caching import CachingStore
from tupletree._coord.paths import PresenceKind
from tupletree._coord.presence import Registration
from tupletree._coord.session import connect, disconnect
from tupletree._daemon.health import Readiness
from tupletree._daemon.run import EXIT_FAILED, end_now
from tupletree._log import event
from tupletree.v1.topology_pb2 import Presence

log = logging.getLogger(__name__)


def end_process() -> None:
    """End the process: the ``on_death`` of daemons, which without a session would neither work nor be replaced."""
    end_now(EXIT_FAILED)


class ZooKeeperSession:
    """An open session. It survives losses of the connection; while there is none, calls raise UnavailableError."""

    def __init__(self, client: KazooClient, root: str) -> None:
        self.client = client
        self.store = CachingStore(client, root)
        self._root = root
        self._registrations: list[Registration] = []

    @classmethod
    async def open(cls, conf: Mapping[str, Any]) -> Self:
        """Connect. Raises UnavailableError if ZooKeeper does not answer within ``zookeeper.connection.timeout``."""
        return cls(await asyncio.to_thread(connect, conf, end_process), str(conf["zookeeper.root"]))

    def report_to(self, readiness: Readiness) -> None:
        """Have the readiness check "zookeeper" follow the connection from now on."""

        def on_state(state: str) -> None:  # called in kazoo's thread
            readiness.set("zookeeper", None if state == KazooState.CONNECTED else "ZooKeeper does not answer")
            event(log, "zookeeper.state", state=state)

        self.client.add_listener(on_state)

    async def register(self, kind: PresenceKind, presence: Presence) -> Registration:
        """Register the daemon's presence until ``close``. Raises UnavailableError."""
        registration = Registration(self.client, self._root, kind, presence)
        await asyncio.to_thread(registration.start)
        self._registrations.append(registration)
        return registration

    async def close(self) -> None:
        """Remove the presence and end the session."""
        for registration in self._registrations:
            await asyncio.to_thread(registration.stop)
        await asyncio.to_thread(disconnect, self.client)
