"""The supervisor's ZooKeeper session. ZooKeeper can be unavailable at any time, even at startup."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from tupletree._coord.presence import Registration
from tupletree._coord.session import connect, disconnect, end_process
from tupletree._coord.store import Store
from tupletree._daemon.health import Readiness
from tupletree._log import event
from tupletree.errors import UnavailableError
from tupletree.v1.topology_pb2 import Presence

log = logging.getLogger(__name__)

_RETRY_S = 1.0

T = TypeVar("T")


class ZooKeeperSession:
    """Connects in the background with retries. ``connected`` is set after the first connection and stays set.

    The readiness check "zookeeper" shows the current state.
    """

    def __init__(self, conf: Mapping[str, Any], readiness: Readiness) -> None:
        self._conf = conf
        self._readiness = readiness
        self._client: KazooClient | None = None
        self._store: Store | None = None
        self._registration: Registration | None = None
        self.connected = asyncio.Event()
        readiness.set("zookeeper", "connecting")

    async def connect(self, presence: Presence, wake: Callable[[], None]) -> None:
        """Open the session, register ``presence``, and have ``wake`` called (in the event loop) at every change of an
        assignment and after every reconnect. Returns when done, however long ZooKeeper is unavailable."""
        loop = asyncio.get_running_loop()
        client = await self._until_available(lambda: connect(self._conf, end_process))
        self._client = client
        root = str(self._conf["zookeeper.root"])
        self._store = Store(client, root)
        client.add_listener(self._on_state)
        self.connected.set()
        registration = Registration(client, root, "supervisor", presence)
        await self._until_available(registration.start)
        self._registration = registration
        self._readiness.set("zookeeper", None)

        def wake_loop() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the supervisor is shutting down
                loop.call_soon_threadsafe(wake)

        await asyncio.to_thread(self._store.watch_assignments, wake_loop)

    async def call(self, ask: Callable[[Store], T]) -> T:
        """Run ``ask`` in a thread and return its result. Raises UnavailableError while ZooKeeper is unavailable."""
        if self._store is None:
            raise UnavailableError("there is no session with ZooKeeper yet")
        return await asyncio.to_thread(ask, self._store)

    async def close(self) -> None:
        """Remove the presence and end the session."""
        if self._registration is not None:
            await asyncio.to_thread(self._registration.stop)
        if self._client is not None:
            await asyncio.to_thread(disconnect, self._client)

    async def _until_available(self, attempt: Callable[[], T]) -> T:
        while True:
            try:
                return await asyncio.to_thread(attempt)
            except UnavailableError as error:
                self._readiness.set("zookeeper", str(error))
                event(log, "zookeeper.away", level=logging.WARNING, cause=str(error))
            await asyncio.sleep(_RETRY_S)

    def _on_state(self, state: str) -> None:
        # Called in kazoo's thread.
        away = state != KazooState.CONNECTED
        self._readiness.set("zookeeper", "ZooKeeper does not answer" if away else None)
        event(log, "zookeeper.state", state=state)
