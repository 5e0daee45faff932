"""The DRPC server process: binds its ports and serves. Keeps nothing on disk, and needs no ZooKeeper.

start    bind both ports (exit if a port is in use) -> announce -> ready
SIGTERM  not ready, no further requests -> pending requests are answered, for at most ``GRACE_S`` -> the others end as
         shutdown, each once -> exit 0
kill -9  the calls of all pending requests break; what topologies answer later goes nowhere
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from contextlib import AsyncExitStack
from typing import Final

from tupletree._daemon.announce import announce
from tupletree._daemon.health import Readiness
from tupletree._daemon.http import HttpServer, json_page
from tupletree._daemon.http_connection import Limits, Page, Prefix, Route
from tupletree._daemon.task_group import TaskGroup
from tupletree._log import event
from tupletree._rpc.server import MAX_CONTROL_BYTES, start_server
from tupletree.v1 import drpc_pb2_grpc

from .config import DrpcConfig
from .desk import Desk
from .metrics import metrics_registry
from .pages import PREFIX, Pages
from .service import DrpcService
from .topology_owners import TopologyOwners

logger = logging.getLogger(__name__)

GRACE_S: Final = 3.0
_LAST_REPLIES_S: Final = 1.0
_SPARE_CONNECTIONS: Final = 128


class DrpcDaemon:
    """One run of the DRPC server process."""

    def __init__(self, config: DrpcConfig, announce_path: str | None) -> None:
        self._config = config
        self._announce_path = announce_path
        self._readiness = Readiness()
        self._readiness.set("drpc", "starting")
        self._tasks = TaskGroup()
        self._desk = Desk(config.max_pending, config.timeout_s, config.functions, config.max_pending_bytes)
        self._owners = TopologyOwners(config.seeds)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then drain."""
        config = self._config
        async with AsyncExitStack() as ends:
            add = functools.partial(drpc_pb2_grpc.add_DrpcServicer_to_server, DrpcService(self._desk, self._owners))
            rpc = await start_server(
                [add], config.bind_host, config.grpc_port, self._readiness, max_message_bytes=MAX_CONTROL_BYTES
            )
            ends.push_async_callback(rpc.stop, _LAST_REPLIES_S)
            limits = Limits(connections=config.max_pending + _SPARE_CONNECTIONS)
            routes: dict[str, Route] = {PREFIX: Prefix(Pages(self._desk).call, MAX_CONTROL_BYTES)}
            routes["/functions"] = self._functions
            http = HttpServer(self._readiness, metrics_registry(self._desk, self._readiness), routes, limits)
            ends.push_async_callback(http.stop)
            http_port = await http.start(config.bind_host, config.http_port)
            ends.push_async_callback(self._tasks.cancel)
            self._tasks.start(self._desk.sweep(), "deadlines")
            self._readiness.set("drpc", None)
            id = f"drpc-{uuid.uuid4().hex[:12]}"
            announce(self._announce_path, role="drpc", id=id, host=config.host, grpc_port=rpc.port, http_port=http_port)
            event(logger, "drpc.started", id=id, grpc_port=rpc.port, http_port=http_port)
            await self._tasks.until(stop.wait())
            self._readiness.set("draining", "finishing the requests it holds")
            await self._tasks.until(self._desk.close(GRACE_S))
        event(logger, "drpc.stopped", id=id)

    def _functions(self) -> Page:
        names = ("queued", "sent", "serving_tasks")
        return json_page({
            name: dict(zip(names, numbers, strict=True)) for name, numbers in self._desk.requests.functions.items()
        })  # fmt: skip
