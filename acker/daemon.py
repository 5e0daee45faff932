"""The acker process: binds its ports, registers in ZooKeeper, rotates the ledgers and drains. Keeps nothing on disk.

start    bind both ports (exit if a port is in use) -> ZooKeeper -> presence under a new id -> announce -> ready
run      the service serves streams; ledgers rotate; ZooKeeper can be unavailable meanwhile
SIGTERM  not ready -> presence says draining -> nimbus moves the shards -> workers report the newer shard map, old
         trees complete -> streams end without an error -> exit 0
         after the drain timeout, streams end with an error instead: workers fail their trees pending here
SIGTERM  a second time: exit at once, as after kill -9
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import secrets
import time
import uuid
from contextlib import AsyncExitStack, suppress
from importlib.metadata import version
from typing import Any

from tupletree._compiled import NOT_COMPILED
from tupletree._coord.presence import Registration
from tupletree._daemon.announce import announce
from tupletree._daemon.health import Readiness
from tupletree._daemon.http import HttpServer, json_page
from tupletree._daemon.http_connection import Page
from tupletree._daemon.task_group import TaskGroup
from tupletree._daemon.zookeeper_session import ZooKeeperSession
from tupletree._log import event
from tupletree._rpc.server import start_server
from tupletree.errors import UnavailableError
from tupletree.v1 import acker_pb2, acker_pb2_grpc
from tupletree.v1 import topology_pb2 as pb

from .admission import Admission
from .config import AckerConfig
from .metrics import metrics_registry
from .registry import Registry
from .service import AckerService

logger = logging.getLogger(__name__)

_MIN_PAUSE_S, _MAX_PAUSE_S = 0.01, 0.5  # between two checks for due rotations
_DRAIN_POLL_S = 0.05
_UNTIMED_DRAIN_S = 30.0  # drain timeout if no topology has a message timeout
_DEREGISTER_S = 3.0
_LAST_VERDICTS_S = 2.0  # for ending streams to deliver their last verdicts


class AckerDaemon:
    """One run of the acker process."""

    def __init__(self, config: AckerConfig, announce_path: str | None) -> None:
        self._config = config
        self._announce_path = announce_path
        self._acker_id = f"acker-{uuid.uuid4().hex[:12]}"
        self._readiness = Readiness()
        self._readiness.set("zookeeper", "connecting")
        self._tasks = TaskGroup()
        self._registry = Registry(secrets.randbits(192))
        self._admission = Admission(config.max_pending)
        self._service = AckerService(
            self._acker_id, self._registry, self._admission, self._readiness, self._tasks.fail, config.namespaces
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set and the drain is complete."""
        async with AsyncExitStack() as ends:
            presence = await self._listen(ends)
            ends.push_async_callback(self._tasks.cancel)
            self._tasks.start(self._rotate_ledgers(), "rotation")
            session = await self._connect(stop)
            if session is not None:
                await self._serve(session, presence, stop)
        event(logger, "acker.stopped", id=self._acker_id)

    async def _listen(self, ends: AsyncExitStack) -> pb.Presence:
        """Bind both ports and serve; return the presence that names them."""
        config = self._config
        add = functools.partial(acker_pb2_grpc.add_AckerServicer_to_server, self._service)
        rpc = await start_server([add], config.bind_host, config.grpc_port, self._readiness)
        ends.push_async_callback(rpc.stop, _LAST_VERDICTS_S)
        metrics = metrics_registry(self._service, self._admission, self._readiness)
        http = HttpServer(self._readiness, metrics, {"/ledger": self._ledger})
        ends.push_async_callback(http.stop)
        return pb.Presence(
            id=self._acker_id,
            host=config.host,
            grpc_port=rpc.port,
            http_port=await http.start(config.bind_host, config.http_port),
            started_unix_s=time.time(),
            version=version("tupletree"),
            pid=os.getpid(),
            not_compiled=NOT_COMPILED,
        )

    async def _connect(self, stop: asyncio.Event) -> ZooKeeperSession | None:
        """Return the ZooKeeper session, or None if ``stop`` is set before the connection is established."""
        connecting = asyncio.create_task(ZooKeeperSession.open(self._config.conf))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({connecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        return connecting.result() if connecting.done() else None

    async def _serve(self, session: ZooKeeperSession, presence: pb.Presence, stop: asyncio.Event) -> None:
        """Serve as a registered acker.

        Raises the error, if any, that can have left a ledger inconsistent: the ledger must not be used any longer.
        """
        try:
            registration = await session.register("acker", presence)
            self._readiness.set("zookeeper", None)
            facts = {name: getattr(presence, name) for name in ("id", "host", "grpc_port", "http_port")}
            announce(self._announce_path, role="acker", **facts)
            event(logger, "acker.started", limit=self._admission.limit, **facts)
            await self._tasks.until(stop.wait())
            await self._tasks.until(self._drain(registration, presence))
        finally:
            # Bounded: an unavailable ZooKeeper must not delay the exit. The presence then expires with the session.
            with suppress(TimeoutError):
                async with asyncio.timeout(_DEREGISTER_S):
                    await session.close()

    async def _drain(self, registration: Registration, presence: pb.Presence) -> None:
        """Serve until the old trees have ended or the drain timeout expires, then end the streams."""
        self._readiness.set("draining", "finishing the trees it holds")
        self._registry.begin_drain()
        self._service.begin_drain()
        presence.draining = True
        registration.update(presence)
        limit_s = self._config.drain_timeout_s
        if limit_s is None:
            limit_s = self._registry.longest_timeout_s() or (_UNTIMED_DRAIN_S if self._registry.topologies else 0.0)
        event(logger, "drain.began", id=self._acker_id, limit_s=limit_s, streams=self._service.streams)
        deadline_s = time.monotonic() + limit_s
        while (left := self._left_to_drain()) and time.monotonic() < deadline_s:
            await asyncio.sleep(_DRAIN_POLL_S)
        event(logger, "drain.ended", id=self._acker_id, left=left or "nothing")
        gone = UnavailableError(f"acker {self._acker_id} ended before its drain was complete: {left}") if left else None
        self._service.end_streams(gone)
        last_s = time.monotonic() + _LAST_VERDICTS_S
        while self._service.streams and time.monotonic() < last_s:
            await asyncio.sleep(_DRAIN_POLL_S / 5)

    def _left_to_drain(self) -> str | None:
        """Return a short reason why the drain is not complete, or None if it is complete."""
        if waits_for := self._registry.drain_waits_for(time.monotonic()):
            return waits_for
        undelivered = self._service.undelivered
        return f"{undelivered} verdicts are not delivered" if undelivered else None

    async def _rotate_ledgers(self) -> None:
        """Rotate each topology at its own interval, forever, and forget topologies without streams."""
        while True:
            due_s = self._registry.next_rotation_s()
            pause_s = _MAX_PAUSE_S if due_s is None else due_s - time.monotonic()
            await asyncio.sleep(min(max(pause_s, _MIN_PAUSE_S), _MAX_PAUSE_S))
            now_s = time.monotonic()
            for addressed in self._registry.rotate(now_s):
                self._service.deliver(addressed)
                await asyncio.sleep(0)
            for topology_id in self._registry.forget_unattended(now_s):
                self._service.forget(topology_id)
                event(logger, "topology.forgotten", topology=topology_id)
            self._service.recount()

    def _ledger(self) -> Page:
        return json_page(ledger_json(self._service.describe()))


def ledger_json(reply: acker_pb2.DescribeLedgerReply) -> dict[str, Any]:
    """Return the reply of DescribeLedger as JSON types, with `topology_id` renamed to `topology`."""
    figures = [field.name for field in acker_pb2.ShardSummary.DESCRIPTOR.fields if field.name != "topology_id"]
    return {
        "acker_id": reply.acker_id,
        "draining": reply.draining,
        "ready": reply.ready,
        "reasons": list(reply.reasons),
        "shards": [
            {"topology": shard.topology_id, **{name: getattr(shard, name) for name in figures}}
            for shard in reply.shards
        ],
        "namespaces": [
            {field.name: getattr(one, field.name) for field in acker_pb2.NamespaceSummary.DESCRIPTOR.fields}
            for one in reply.namespaces
        ],
    }
