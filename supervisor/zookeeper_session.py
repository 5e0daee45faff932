"""The supervisor's access to ZooKeeper, which can be unavailable at any time, even at startup."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from tupletree._coord.store import Store
from tupletree._daemon.health import Readiness
from tupletree._daemon.zookeeper_session import ZooKeeperSession
from tupletree._log import event
from tupletree.errors import UnavailableError
from tupletree.v1.topology_pb2 import Presence

log = logging.getLogger(__name__)

_RETRY_S = 1.0

T = TypeVar("T")


class EventualSession:
    """A session that opens as soon as ZooKeeper answers. ``connected`` is set then, and stays set.

    The readiness check "zookeeper" shows the current state.
    """

    def __init__(self, conf: Mapping[str, Any], readiness: Readiness) -> None:
        self._conf = conf
        self._readiness = readiness
        self._session: ZooKeeperSession | None = None  # none has been opened yet
        self.connected = asyncio.Event()
        readiness.set("zookeeper", "connecting")

    async def connect(self, presence: Presence, wake: Callable[[], None]) -> None:
        """Open the session, register ``presence``, and have ``wake`` called (in the event loop) at every change of an
        assignment and after every reconnect. Returns when done, however long ZooKeeper is unavailable."""
        loop = asyncio.get_running_loop()
        session = self._session = await self._until_available(lambda: ZooKeeperSession.open(self._conf))
        session.report_to(self._readiness)
        self.connected.set()
        await self._until_available(lambda: session.register("supervisor", presence))
        self._readiness.set("zookeeper", None)

        def wake_loop() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the supervisor is shutting down
                loop.call_soon_threadsafe(wake)

        await asyncio.to_thread(session.store.watch_assignments, wake_loop)

    async def call(self, ask: Callable[[Store], T]) -> T:
        """Run ``ask`` in a thread and return its result. Raises UnavailableError while ZooKeeper is unavailable."""
        if self._session is None:
            raise UnavailableError("there is no session with ZooKeeper yet")
        return await asyncio.to_thread(ask, self._session.store)

    async def close(self) -> None:
        """Remove the presence and end the session."""
        if self._session is not None:
            await self._session.close()

    async def _until_available(self, attempt: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await attempt()
            except UnavailableError as error:
                self._readiness.set("zookeeper", str(error))
                event(log, "zookeeper.away", level=logging.WARNING, cause=str(error))
            await asyncio.sleep(_RETRY_S)
