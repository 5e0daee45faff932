"""The nimbus process: ports, ZooKeeper session, leader election, scheduling and bundle replication.

Each part starts in the order shown. Shutdown runs in reverse order.

gRPC, HTTP bound -> ZooKeeper -> registered -> bundles complete -> stands for election -> elected: schedules
                                                    |
                                                    +-- bundle unavailable: stands down, not ready, retries
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import ssl
import time
import uuid
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from tupletree._coord.acls import open_nodes
from tupletree._coord.leader import Front, LeaderElection
from tupletree._coord.owners import find_acl
from tupletree._coord.presence import Registration
from tupletree._coord.session import connect, credentials, disconnect
from tupletree._coord.store import Leadership, Store
from tupletree._coord.watch import TreeWatch
from tupletree._daemon.announce import announce
from tupletree._daemon.certificates import CertificateWatch
from tupletree._daemon.health import Readiness
from tupletree._daemon.zookeeper_session import end_process
from tupletree._log import event
from tupletree._rpc.server import MAX_CONTROL_BYTES, RpcServer, start_server
from tupletree._security.audit import AuditLog
from tupletree._security.current import current
from tupletree._security.guard import Gatekeeper
from tupletree._security.rights import Acl
from tupletree.errors import TupletreeError, UnavailableError
from tupletree.v1.nimbus_pb2_grpc import add_NimbusServicer_to_server
from tupletree.v1.topology_pb2 import Presence, TopologyRecord

from .config import NimbusConfig
from .leader.leader_state import LeaderState
from .leader.leader_watch import LeaderWatch
from .leader.reconciler import Reconciler
from .leader_api import LeaderApi
from .metrics import NimbusMetrics
from .rpc_clients import address_of
from .service import NimbusService
from .submission.blob_store import BlobStore
from .submission.replication import Replication
from .submission.submission import Submissions
from .threads import widen_calls
from .web.app import WebApplication
from .web.server import WebServer

log = logging.getLogger("tupletree.nimbus")

_RETRY_S = 1.0
_GRACE_S = 1.0


class NimbusDaemon:
    """A nimbus process. ``run`` starts the nimbus and serves until shutdown."""

    store: Store
    election: LeaderElection
    uploads: Submissions
    address: str

    def __init__(self, config: NimbusConfig, announce_path: str | None = None) -> None:
        self._config = config
        self._announce_path = announce_path
        self.identity = f"nimbus-{uuid.uuid4().hex[:10]}"
        self._readiness = Readiness()
        self._readiness.set("zookeeper", "connecting")
        self._loop = asyncio.get_running_loop()
        self._replicate_now = asyncio.Event()
        self._look_now = asyncio.Event()
        self._leadership: Leadership | None = None
        self._reconciler: Reconciler | None = None
        self._reigning: asyncio.Task[None] | None = None
        self._replication: Replication
        self._leader_watch: LeaderWatch
        self._failure: BaseException | None = None
        self._unheard_since_s: float | None = None  # time at which the connection to ZooKeeper was lost
        self.blobs = BlobStore(config.blob_directory)
        self.metrics = NimbusMetrics(self._readiness, config.blob_directory)
        audit = AuditLog(config.audit_path, max_bytes=config.audit_max_bytes, backups=config.audit_backups)
        self.gate = Gatekeeper(current(), self._whose, audit)
        self.version = version("tupletree")

    @property
    def conf(self) -> Mapping[str, Any]:
        return self._config.conf

    @property
    def reconciler(self) -> Reconciler | None:
        return self._reconciler

    @property
    def leadership(self) -> Leadership | None:
        return self._leadership

    @property
    def is_cut_off(self) -> bool:
        # A lost connection is noticed after two thirds of the session timeout. After another third the session is over.
        session_s = self._config.conf["zookeeper.session.timeout"] / 1000
        return self._unheard_since_s is not None and time.monotonic() - self._unheard_since_s > session_s / 3

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set. Raises UsageError or UnavailableError if startup fails."""
        widen_calls(self._loop)
        await asyncio.to_thread(self.blobs.open)
        async with contextlib.AsyncExitStack() as ends:
            server, http_port = await self._serve(ends)
            presence = Presence(
                id=self.identity,
                host=self._config.host,
                grpc_port=server.port,
                http_port=http_port,
                started_unix_s=time.time(),
                version=self.version,
                pid=os.getpid(),
            )
            self.address = address_of(presence)
            client = await self._join(ends, presence)
            self._watch(ends, client)
            for work in (self._keep_replicating(), self._keep_looking()):
                task = asyncio.create_task(work)
                task.add_done_callback(lambda done: self._stop_on_failure(done, stop))
                ends.push_async_callback(_end, task)
            event(log, "nimbus.started", id=self.identity, grpc_port=server.port, http_port=http_port)
            announce(
                self._announce_path,
                role="nimbus",
                id=self.identity,
                host=self._config.host,
                grpc_port=server.port,
                http_port=http_port,
            )
            await stop.wait()
            event(log, "nimbus.stopping", id=self.identity)
        if self._failure is not None:
            raise self._failure

    async def _serve(self, ends: contextlib.AsyncExitStack) -> tuple[RpcServer, int]:
        leader_api = LeaderApi(self)
        service = functools.partial(add_NimbusServicer_to_server, NimbusService(leader_api))
        host, port = self._config.bind_host, self._config.grpc_port
        server = await start_server([service], host, port, self._readiness, self.gate, MAX_CONTROL_BYTES)
        ends.push_async_callback(server.stop, _GRACE_S)
        application = WebApplication(self._readiness, self.metrics.registry, leader_api, self._config, self.gate)
        http = WebServer(application.asgi, tls=self._http_tls(ends))
        ends.push_async_callback(http.stop)
        http_port = await http.start(self._config.bind_host, self._config.http_port)
        application.serve_at(http_port)
        return server, http_port

    def _http_tls(self, ends: contextlib.AsyncExitStack) -> ssl.SSLContext | None:
        """Return the TLS context for HTTP, reloaded when its files change; None without TLS."""
        tls = self.gate.security.tls
        if tls is None:
            return None
        certificates = CertificateWatch(tls, self.metrics.registry)
        ends.push_async_callback(_end, asyncio.create_task(certificates.keep()))
        return certificates.server_context()

    async def _join(self, ends: contextlib.AsyncExitStack, presence: Presence) -> KazooClient:
        """Open the ZooKeeper session, create everything that depends on the session, and register."""
        client = await asyncio.to_thread(connect, self._config.conf, end_process)
        ends.push_async_callback(asyncio.to_thread, disconnect, client)
        client.add_listener(self._on_session)
        looking = asyncio.create_task(self._look_for_open_nodes(client))
        ends.push_async_callback(_end, looking)
        self._readiness.set("zookeeper", None)
        self.store = Store(client, self._config.root)
        self.election = LeaderElection(
            client,
            self._config.root,
            self.identity,
            address_of(presence),
            on_elected=lambda epoch: self._post(self._elected, epoch),
            on_deposed=lambda epoch: self._post(self._deposed, epoch),
        )
        self._leader_watch = LeaderWatch(address_of(presence), self._unseat)
        ends.push_async_callback(self._leader_watch.close)
        await asyncio.to_thread(self.election.start)
        ends.push_async_callback(self._end_reign)
        ends.push_async_callback(asyncio.to_thread, self.election.stop)
        self._replication = Replication(
            self.store, self.blobs, self.identity, self._config.blob_delay_s, time.monotonic
        )
        self.uploads = Submissions(
            self._config, self.store, self.blobs, self.election, self._replication, self._wake_rule
        )
        registration = Registration(client, self._config.root, "nimbus", presence)
        await asyncio.to_thread(registration.start)
        ends.push_async_callback(asyncio.to_thread, registration.stop)
        return client

    async def _look_for_open_nodes(self, client: KazooClient) -> None:
        """Log a warning if credentials are configured but some ZooKeeper nodes are open to everybody for changes."""
        if credentials(self._config.conf) is None:
            return
        with contextlib.suppress(TupletreeError):
            found = await asyncio.to_thread(open_nodes, client, self._config.root)
            if found:
                cause = f"'tupletree zookeeper secure' closes them; the first is {found[0]}"
                event(log, "zookeeper.nodes_open", level=logging.WARNING, nodes=len(found), cause=cause)

    def _watch(self, ends: contextlib.AsyncExitStack, client: KazooClient) -> None:
        watches: list[TreeWatch] = [
            self.store.watch_topologies(lambda: self._post(self._topologies_changed)),
            self.store.watch_presence("nimbus", lambda: self._post(self._replicate_now.set)),
            self.store.watch_presence("supervisor", lambda: self._post(self._wake_rule)),
            self.store.watch_presence("acker", lambda: self._post(self._wake_rule)),
            self.store.watch_leadership(lambda: self._post(self._look_now.set)),
        ]
        for watch in watches:
            ends.callback(watch.cancel)

    async def _whose(self, by: str, named: Any) -> Acl | None:
        """Return the access list of the topology that a call refers to."""
        store: Store | None = getattr(self, "store", None)
        if store is None:
            raise UnavailableError("this nimbus is not connected to ZooKeeper yet")
        return await asyncio.to_thread(find_acl, store, by, str(named))

    # Wake-ups

    def _post(self, call: object, *arguments: object) -> None:
        """Schedule a call in the event loop. Safe to use from Kazoo's threads."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            self._loop.call_soon_threadsafe(call, *arguments)  # type: ignore[arg-type]

    def _wake_rule(self) -> None:
        if self._reconciler is not None:
            self._reconciler.wake()

    def _topologies_changed(self) -> None:
        self._replicate_now.set()
        self._wake_rule()

    def _on_session(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._unheard_since_s = None
        elif self._unheard_since_s is None:
            self._unheard_since_s = time.monotonic()
        self._readiness.set("zookeeper", None if state == KazooState.CONNECTED else "the connection is lost")

    # Leadership

    def _elected(self, epoch: int) -> None:
        self._reigning = asyncio.create_task(self._leader_state(epoch, self._reigning))

    def _deposed(self, epoch: int) -> None:
        self._reconciler = None
        self.metrics.follows()
        if self._reigning is not None:
            self._reigning.cancel()

    async def _leader_state(self, epoch: int, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        while True:
            try:
                missing = await self._replication.sync(())
                break
            except UnavailableError:
                await asyncio.sleep(_RETRY_S)
        if missing:
            self._give_up(missing)
            self._replicate_now.set()
            return
        leader_state = LeaderState(epoch, self._config.task_timeout_s, self._config.task_launch_s, time.monotonic())
        reconciler = Reconciler(
            leader_state, self.store, self.election, self._readiness, self.metrics, self._config.monitor_s
        )
        self._reconciler = reconciler
        self.metrics.leads(epoch)
        log.info("This nimbus leads as of epoch %d.", epoch)
        try:
            await reconciler.run()
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("leader.failed epoch=%d", epoch)
            self.election.stand_down()  # another may succeed; this nimbus stands again after its next replication

    async def _end_reign(self) -> None:
        self._deposed(0)
        if self._reigning is not None:
            await _end(self._reigning)

    def _give_up(self, missing: list[TopologyRecord]) -> None:
        names = ", ".join(f"'{record.name}'" for record in missing)
        event(log, "leader.gives_up", level=logging.WARNING, cause=f"the bundles of {names} are missing")
        self.election.stand_down()

    # Following

    async def _keep_replicating(self) -> None:
        """Replicate every bundle, and stand for election while none is missing."""
        while True:
            self._replicate_now.clear()
            pause_s = self._config.monitor_s
            in_use = self._reconciler.leader_state.blobs_in_use if self._reconciler is not None else set()
            try:
                missing = await self._replication.sync(in_use)
            except UnavailableError as error:
                event(log, "replication.waits", level=logging.DEBUG, cause=error)
                pause_s = _RETRY_S
            else:
                self._take_stock(missing)
                removal_s = self._replication.next_removal_s()
                if removal_s is not None:
                    pause_s = min(pause_s, max(0.05, removal_s - time.monotonic()))
                if missing:
                    pause_s = _RETRY_S
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._replicate_now.wait(), pause_s)

    def _take_stock(self, missing: list[TopologyRecord]) -> None:
        if not missing:
            self._readiness.set("bundles", None)
            self.election.stand()
            return
        names = ", ".join(f"'{record.name}'" for record in missing)
        self._readiness.set("bundles", f"no nimbus that answers has the bundle of {names}; start one that has it")
        if self.election.epoch is not None:
            self._give_up(missing)
        self.election.stand_down()

    async def _unseat(self, front: Front) -> None:
        await asyncio.to_thread(self.election.unseat, front)

    async def _keep_looking(self) -> None:
        """Track the leader, and watch that the leader is alive."""
        while True:
            self._look_now.clear()
            try:
                self._leadership = await asyncio.to_thread(self.store.leadership)
                self._leader_watch.follow(await asyncio.to_thread(self.election.front))
            except UnavailableError:
                await asyncio.sleep(_RETRY_S)
                continue
            await self._look_now.wait()

    def _stop_on_failure(self, task: asyncio.Task[None], stop: asyncio.Event) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            stop.set()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
