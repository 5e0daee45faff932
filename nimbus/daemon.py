"""The nimbus process. Each part starts in the order shown. Shutdown runs in reverse order.

HTTP port bound -> ZooKeeper -> gRPC, HTTP served -> candidacy (candidacy.py) -> registered -> announced
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import socket
import ssl
import time
import uuid
from importlib.metadata import version
from typing import Any

from tupletree._compiled import NOT_COMPILED
from tupletree._coord.acls import open_nodes
from tupletree._coord.owners import find_acl
from tupletree._coord.session import credentials
from tupletree._coord.store import Store
from tupletree._daemon.announce import announce
from tupletree._daemon.certificates import CertificateWatch
from tupletree._daemon.health import Readiness
from tupletree._daemon.task_group import TaskGroup
from tupletree._daemon.zookeeper_session import ZooKeeperSession
from tupletree._log import event
from tupletree._net import bind
from tupletree._rpc.server import MAX_CONTROL_BYTES, start_server
from tupletree._security.audit import AuditLog
from tupletree._security.current import current
from tupletree._security.guard import Gatekeeper
from tupletree._security.rights import Acl
from tupletree.errors import TupletreeError
from tupletree.v1.nimbus_pb2_grpc import add_NimbusServicer_to_server
from tupletree.v1.topology_pb2 import Presence

from .action_notifiers import ActionNotifiers
from .autoscaler import Autoscaler
from .blob_requests import BlobRequests
from .candidacy import Candidacy
from .config import NimbusConfig
from .leader.known_leader import KnownLeader
from .leader_api import LeaderApi
from .metrics import NimbusMetrics
from .rpc_clients import address_of
from .savepoints import Savepoints
from .service import NimbusService
from .state_queries import StateQueries
from .submission.blob_store import BlobStore
from .submission.replication import Replication
from .submission.submission import Submissions
from .threads import widen_calls
from .update_requests import UpdateRequests
from .web.app import WebApplication
from .web.server import WebServer

log = logging.getLogger("tupletree.nimbus")

_GRACE_S = 1.0


class NimbusDaemon:
    """A nimbus process. ``run`` starts the nimbus and serves until shutdown."""

    def __init__(self, config: NimbusConfig, announce_path: str | None) -> None:
        self._config = config
        self._announce_path = announce_path
        self._identity = f"nimbus-{uuid.uuid4().hex[:10]}"
        self._version = version("tupletree")
        self._readiness = Readiness()
        self._metrics = NimbusMetrics(self._readiness, config.blob_directory)
        self._blobs = BlobStore(config.blob_directory)
        self._tasks = TaskGroup()
        self._notifiers = ActionNotifiers.named(config.conf)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set. Raises UsageError or UnavailableError if startup fails."""
        config = self._config
        widen_calls(asyncio.get_running_loop())
        await asyncio.to_thread(self._blobs.open)
        self._notifiers.open()
        async with contextlib.AsyncExitStack() as ends:
            ends.push_async_callback(asyncio.to_thread, self._notifiers.close)
            listener = ends.enter_context(bind(config.bind_host, config.http_port))
            session = await ZooKeeperSession.open(config.conf)
            ends.push_async_callback(session.close)
            known = KnownLeader(self._identity, config.conf["zookeeper.session.timeout"] / 1000)
            session.client.add_listener(known.on_session)
            session.report_to(self._readiness)
            replication = Replication(session.store, self._blobs, self._identity, config.blob_delay_s, time.monotonic)
            presence = await self._serve(ends, session, known, replication, listener)
            candidacy = Candidacy(
                config,
                session,
                known,
                address_of(presence),
                replication,
                self._readiness,
                self._metrics,
                self._tasks,
            )
            ends.push_async_callback(candidacy.stop)
            ends.push_async_callback(self._tasks.cancel)
            self._tasks.start(self._warn_of_open_nodes(session), "open nodes")
            await candidacy.start()
            await session.register("nimbus", presence)
            facts = {name: getattr(presence, name) for name in ("id", "host", "grpc_port", "http_port")}
            event(log, "nimbus.started", **facts)
            announce(self._announce_path, role="nimbus", **facts)
            await self._tasks.until(stop.wait())
            event(log, "nimbus.stopping", id=self._identity)

    async def _serve(
        self,
        ends: contextlib.AsyncExitStack,
        session: ZooKeeperSession,
        known: KnownLeader,
        replication: Replication,
        listener: socket.socket,
    ) -> Presence:
        """Serve gRPC and HTTP; return the presence that names the ports."""
        config, store, http_port = self._config, session.store, int(listener.getsockname()[1])
        blobs, metrics, gate = self._blobs, self._metrics, self._gatekeeper(store)
        leader_api = LeaderApi(known, store, blobs, self._notifiers, config.conf, self._version)
        self._tasks.start(Autoscaler(leader_api, metrics).run(), "autoscaling")
        state_queries = StateQueries(leader_api)
        ends.push_async_callback(state_queries.close)
        savepoints = Savepoints(config.savepoints_root, config.conf)
        ends.push_async_callback(savepoints.close)
        submissions = Submissions(config, store, blobs, replication, self._notifiers)
        updates = UpdateRequests(config, store, leader_api, submissions)
        blob_requests = BlobRequests(config, store, known, blobs, replication)
        service = NimbusService(
            leader_api, state_queries, known, submissions, updates, blob_requests, blobs, metrics, config.conf
        )
        add = functools.partial(add_NimbusServicer_to_server, service)
        rpc = await start_server([add], config.bind_host, config.grpc_port, self._readiness, gate, MAX_CONTROL_BYTES)
        ends.push_async_callback(rpc.stop, _GRACE_S)
        application = WebApplication(
            self._readiness,
            metrics,
            leader_api,
            state_queries,
            blob_requests,
            known,
            store,
            config,
            gate,
            self._version,
            http_port,
            savepoints,
        )
        http = WebServer(application.asgi, tls=self._http_tls(gate))
        ends.push_async_callback(http.stop)
        await http.start(listener)
        return self._presence(rpc.port, http_port)

    def _presence(self, grpc_port: int, http_port: int) -> Presence:
        return Presence(
            id=self._identity,
            host=self._config.host,
            grpc_port=grpc_port,
            http_port=http_port,
            started_unix_s=time.time(),
            version=self._version,
            pid=os.getpid(),
            not_compiled=NOT_COMPILED,
        )

    def _gatekeeper(self, store: Store) -> Gatekeeper:
        """Return what judges and notes each call."""
        config = self._config

        async def find_topology(by: str, named: Any) -> Acl | None:
            return await asyncio.to_thread(find_acl, store, by, str(named))

        audit = AuditLog(config.audit_path, max_bytes=config.audit_max_bytes, backups=config.audit_backups)
        return Gatekeeper(current(), find_topology, audit)

    def _http_tls(self, gate: Gatekeeper) -> ssl.SSLContext | None:
        """Return the TLS context for HTTP, reloaded when its files change; None without TLS."""
        if gate.security.tls is None:
            return None
        certificates = CertificateWatch(gate.security.tls, self._metrics.registry)
        self._tasks.start(certificates.keep(), "certificates")
        return certificates.server_context()

    async def _warn_of_open_nodes(self, session: ZooKeeperSession) -> None:
        """Log a warning if credentials are configured but everybody may change some ZooKeeper nodes."""
        if credentials(self._config.conf) is None:
            return
        with contextlib.suppress(TupletreeError):
            found = await asyncio.to_thread(open_nodes, session.client, self._config.root)
            if found:
                cause = f"everybody may change them, such as {found[0]}; run 'tupletree zookeeper secure'"
                event(log, "zookeeper.nodes_open", level=logging.WARNING, nodes=len(found), cause=cause)
