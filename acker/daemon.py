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
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from kazoo.client import KazooClient

from tupletree._coord.presence import Registration
from tupletree._coord.session import connect, disconnect, end_process
from tupletree._daemon.announce import announce
from tupletree._daemon.health import Readiness
from tupletree._daemon.http import HttpServer, json_page
from tupletree._daemon.http_connection import Page
from tupletree._log import event
from tupletree._rpc.server import RpcServer, start_server
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
_LEAVE_S = 3.0  # to deregister from ZooKeeper
_LAST_WORDS_S = 2.0  # for ending streams to deliver their last verdicts


class AckerDaemon:
    """One run of the acker process."""

    def __init__(self, config: AckerConfig, announce_path: str | None) -> None:
        self._config = config
        self._announce_path = announce_path
        self._acker_id = f"acker-{uuid.uuid4().hex[:12]}"
        self._readiness = Readiness()
        self._registry = Registry(secrets.randbits(192))
        self._admission = Admission(config.max_pending)
        self._service = AckerService(self._acker_id, self._registry, self._admission, self._readiness)
        self._http = HttpServer(
            self._readiness,
            metrics_registry(self._service, self._admission, self._readiness),
            {"/ledger": self._ledger},
        )
        self._presence = pb.Presence(
            id=self._acker_id,
            host=config.host,
            started_unix_s=time.time(),
            version=version("tupletree"),
            pid=os.getpid(),
        )

    async def run(self, stop: asyncio.Event) -> int:
        """Serve until ``stop`` is set and the drain is complete. Returns the exit status."""
        self._readiness.set("zookeeper", "connecting")
        rpc = await self._listen()
        timekeeper = asyncio.create_task(self._keep_time())
        try:
            client = await self._reach_zookeeper(stop)
            if client is not None:
                await self._serve(client, stop, timekeeper)
        finally:
            timekeeper.cancel()
            await rpc.stop(_LAST_WORDS_S)
            await self._http.stop()
        event(logger, "acker.stopped", id=self._acker_id)
        return 0

    async def _listen(self) -> RpcServer:
        add = functools.partial(acker_pb2_grpc.add_AckerServicer_to_server, self._service)
        rpc = await start_server([add], self._config.bind_host, self._config.grpc_port, self._readiness)
        self._presence.grpc_port = rpc.port
        try:
            self._presence.http_port = await self._http.start(self._config.bind_host, self._config.http_port)
        except BaseException:
            await rpc.stop(0)
            raise
        return rpc

    async def _reach_zookeeper(self, stop: asyncio.Event) -> KazooClient | None:
        """Return the ZooKeeper session, or None if ``stop`` is set before the connection is established."""
        connecting = asyncio.create_task(asyncio.to_thread(connect, self._config.conf, end_process))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({connecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not connecting.done():
            return None
        return connecting.result()

    async def _serve(self, client: KazooClient, stop: asyncio.Event, timekeeper: asyncio.Task[None]) -> None:
        registration = Registration(client, self._config.root, "acker", self._presence)
        try:
            await asyncio.to_thread(registration.start)
            await self._serve_registered(registration, stop, timekeeper)
        finally:
            # Bounded: an unavailable ZooKeeper must not delay the exit. The presence then expires with the session.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await asyncio.to_thread(registration.stop)
                    await asyncio.to_thread(disconnect, client)

    async def _serve_registered(
        self, registration: Registration, stop: asyncio.Event, timekeeper: asyncio.Task[None]
    ) -> None:
        self._readiness.set("zookeeper", None)
        facts: dict[str, Any] = {
            "id": self._acker_id,
            "host": self._presence.host,
            "grpc_port": self._presence.grpc_port,
            "http_port": self._presence.http_port,
        }
        announce(self._announce_path, role="acker", **facts)
        event(logger, "acker.started", limit=self._admission.limit, **facts)
        stopping, failed = asyncio.create_task(stop.wait()), asyncio.create_task(self._service.failed.wait())
        await asyncio.wait({stopping, failed, timekeeper}, return_when=asyncio.FIRST_COMPLETED)
        self._raise_failure(timekeeper)
        draining = asyncio.create_task(self._drain(registration))
        await asyncio.wait({draining, failed, timekeeper}, return_when=asyncio.FIRST_COMPLETED)
        self._raise_failure(timekeeper)
        await draining

    def _raise_failure(self, timekeeper: asyncio.Task[None]) -> None:
        """Raise the error, if any, that can have left a ledger inconsistent: the ledger must not be used any longer."""
        if self._service.failure is not None:
            raise self._service.failure
        if timekeeper.done():
            timekeeper.result()

    async def _drain(self, registration: Registration) -> None:
        """Serve until the old trees have ended or the drain timeout expires, then end the streams."""
        self._readiness.set("draining", "finishing the trees it holds")
        self._service.draining = True
        self._registry.begin_drain()
        self._presence.draining = True
        registration.update(self._presence)
        limit_s = self._config.drain_timeout_s
        if limit_s is None:
            limit_s = self._registry.longest_timeout_s() or (_UNTIMED_DRAIN_S if self._registry.topologies else 0.0)
        event(logger, "drain.began", id=self._acker_id, limit_s=limit_s, streams=self._service.streams)
        deadline_s = time.monotonic() + limit_s
        while (waits_for := self._waits_for()) and time.monotonic() < deadline_s:
            await asyncio.sleep(_DRAIN_POLL_S)
        event(logger, "drain.ended", id=self._acker_id, left=waits_for or "nothing")
        gone = UnavailableError(f"acker {self._acker_id} has ended, although {waits_for}") if waits_for else None
        self._service.end_streams(gone)
        last_s = time.monotonic() + _LAST_WORDS_S
        while self._service.streams and time.monotonic() < last_s:
            await asyncio.sleep(_DRAIN_POLL_S / 5)

    def _waits_for(self) -> str | None:
        if waits_for := self._registry.drain_waits_for(time.monotonic()):
            return waits_for
        undelivered = self._service.undelivered
        return f"{undelivered} verdicts are not delivered" if undelivered else None

    async def _keep_time(self) -> None:
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
    }
