"""The supervisor process: adopts live workers, serves gRPC, follows the assignments and cleans up.

start     claim the local directory -> adopt live workers (from disk; needs no ZooKeeper) -> bind and serve
          -> announce -> ZooKeeper, as soon as it answers -> presence -> follow the assignments -> ready
run       a watch, a Wake call or the monitor interval triggers a read of the assignments; the slots' state machines
          do the rest
SIGTERM   launches in progress are completed and the presence is removed; the workers keep running for the next
          supervisor to adopt, unless supervisor.stop.workers.on.shutdown is set
kill -9   as above, without completing launches or removing the presence

The order at startup makes Beat safe: before the first heartbeat can arrive, every live worker is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tupletree._address import address_of
from tupletree._compiled import NOT_COMPILED
from tupletree._coord.owners import find_acl
from tupletree._coord.store import Store
from tupletree._daemon.announce import announce
from tupletree._daemon.health import Readiness
from tupletree._daemon.http import HttpServer
from tupletree._daemon.task_group import TaskGroup
from tupletree._log import event
from tupletree._net import ReservedPorts
from tupletree._rpc.server import MAX_CONTROL_BYTES, start_server
from tupletree._security.audit import AuditLog
from tupletree._security.current import current
from tupletree._security.guard import Gatekeeper
from tupletree._security.rights import Acl
from tupletree.errors import TupletreeError
from tupletree.v1 import supervisor_pb2_grpc
from tupletree.v1.topology_pb2 import Assignment, Presence, TopologyRecord

from .blob_files import BlobFiles
from .blobs import Blobs
from .bundles import Bundles, find_leader
from .config import SupervisorConfig
from .effects import Effects
from .faults import reason
from .fencing import EpochFence
from .files import remove_tree
from .identity import choose_port, choose_slots, claim, load_id
from .launcher import OUTPUT, FoundWorker, Launcher
from .local_assignment import LocalAssignment, newest_epoch, plan_work
from .logs.files import last_written_unix_s
from .logs.tail import limit_output
from .memory_limits import MemoryLimit, memory_limits
from .memory_watch import MemoryWatch
from .metrics import Metrics
from .presences import WorkerPresences
from .retention import BundleAges, abandoned_workers, old_logs
from .service import SupervisorService, summarize
from .slot import state_name
from .slot_events import Assigned, Event, ReportError
from .slot_queries import limited_workers
from .slots import Slots
from .users import prepare_machine
from .worker_groups import find_groups
from .zookeeper_session import EventualSession

log = logging.getLogger(__name__)

_THREADS = 32  # calls block their threads while ZooKeeper is unavailable
_GRACE_S = 0.5  # for calls in flight at shutdown
_KILL_S = 5.0  # for killed workers to end
_SETTLE_S = 2.0  # for the removal of the last workers' presences from ZooKeeper
_CLEAN_UP_S = 5.0  # between two rounds of clean-up
_LOGS_S = 60.0  # longest pause between two checks for logs of removed topologies


class SupervisorDaemon:
    """One run of the supervisor process. Creation and ``run`` raise UsageError for errors that an operator must fix."""

    def __init__(self, config: SupervisorConfig, announce_path: str | None) -> None:
        self._config = config
        self._announce_path = announce_path
        if config.users is not None:
            prepare_machine(config.local_dir, config.logs_dir)
        self._claim = claim(config.local_dir)
        self._supervisor_id = supervisor_id = load_id(config.local_dir, config.supervisor_id)
        self._reserved = reserved = ReservedPorts()
        self._readiness = readiness = Readiness()
        readiness.set("assignments", "not read yet")
        self._wake = asyncio.Event()
        self._epoch = EpochFence()
        self._living: frozenset[str] | None = None  # all topologies with an assignment; None: not known yet
        self._tasks = TaskGroup()
        self._session = EventualSession(config.conf, readiness)
        self._grpc_port = choose_port(config.local_dir, config.bind_host, config.grpc_port, reserved)
        self._groups = find_groups(config.cgroup_use, config.cgroup_root, supervisor_id, config.memory_margin_mb)
        address = address_of(config.local_address, self._grpc_port)
        self._launcher = Launcher(config, supervisor_id, address, self._groups)
        self._found = self._launcher.find()
        occupied = [one.launched.port for one in self._found if one.launched and one.identity]
        ports = choose_slots(config.local_dir, config.bind_host, config.slots_ports, occupied, reserved)
        self._ports = ports
        self._metrics = metrics = Metrics(config, readiness, ports, lambda: map(state_name, slots))
        self._bundles = Bundles(Path(config.local_dir, "bundles"), self._find_leader, metrics.received.inc)
        self._blobs = self._new_blobs()
        self._presences = WorkerPresences(self._session, self._tasks, supervisor_id, metrics.removal.observe)

        def tell(port: int, event: Event) -> None:
            slots.dispatch(port, event)

        self._effects = Effects(
            config,
            supervisor_id,
            self._bundles,
            self._blobs,
            self._launcher,
            self._presences,
            self._session,
            self._tasks,
            metrics,
            tell,
            ports,
        )
        # Slots call effects and blobs, and these call slots: only from here on.
        self._slots = slots = Slots(ports, config.limits, self._effects.carry_out)
        self._memory = MemoryWatch(slots, config.memory_margin_mb)

    def _new_blobs(self) -> Blobs:
        config = self._config
        files = BlobFiles(Path(config.local_dir, "blobs"), self._find_leader, self._metrics.received.inc)
        return Blobs(
            files,
            self._launcher,
            self._session,
            self._tasks,
            works=self._works,
            restart=self._restart,
            complain=self._complain,
            monitor_s=config.monitor_s,
        )

    def _works(self) -> list[LocalAssignment]:
        return self._slots.works()

    def _restart(self, port: int, topology_id: str) -> None:
        self._slots.restart(port, topology_id)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
        self._adopt(self._found)
        async with contextlib.AsyncExitStack() as ends:
            ends.callback(self._reserved.release)
            ends.push_async_callback(self._session.close)
            presence = await self._serve(ends)
            ends.push_async_callback(self._tasks.cancel)
            self._tasks.start(self._slots.keep_time(), "time")
            self._tasks.start(self._memory.keep(), "memory")
            following = self._tasks.start(self._follow_assignments(presence), "assignments")
            self._tasks.start(self._blobs.follow(lambda: self._effects.live), "blobs")
            self._tasks.start(self._clean_up(), "clean-up")
            self._tasks.start(self._remove_old_logs(), "old logs")
            await self._tasks.until(stop.wait())
            following.cancel()  # new assignments no longer matter
            await self._wind_down()
        event(log, "supervisor.stopped", id=self._supervisor_id)

    # Start

    def _adopt(self, found: list[FoundWorker]) -> None:
        """Adopt the live workers of our slots, the newest per slot, and end all other live workers."""
        taken: set[int] = set()
        for one in reversed(found):
            launched = one.launched
            if one.identity is None:
                self._launcher.remove(one.worker_id)
            elif launched is None or launched.port not in self._ports or launched.port in taken:
                self._effects.end_orphan(one)
            elif self._effects.adopt(one):
                taken.add(launched.port)
                event(log, "worker.adopted", slot=launched.port, worker=one.worker_id, pid=one.identity.pid)
            else:
                self._launcher.remove(one.worker_id)

    async def _serve(self, ends: contextlib.AsyncExitStack) -> Presence:
        """Bind both ports, serve, and announce; return the presence that names the ports."""
        config = self._config
        http = HttpServer(self._readiness, self._metrics.registry, {"/metrics": self._metrics.page})
        ends.push_async_callback(http.stop)
        service = SupervisorService(
            self._supervisor_id, config.host, self._slots, self._epoch, self._wake.set, config.logs_dir
        )
        add = functools.partial(supervisor_pb2_grpc.add_SupervisorServicer_to_server, service)
        audit = AuditLog(config.audit_path, max_bytes=config.audit_max_bytes, backups=config.audit_backups)
        gate = Gatekeeper(current(), self._find_acl, audit)
        rpc = await start_server([add], config.bind_host, self._grpc_port, self._readiness, gate, MAX_CONTROL_BYTES)
        ends.push_async_callback(rpc.stop, _GRACE_S)
        presence = Presence(
            id=self._supervisor_id,
            host=config.host,
            grpc_port=rpc.port,
            http_port=await http.start(config.bind_host, config.http_port),
            started_unix_s=time.time(),
            version=version("tupletree"),
            slots=self._ports,
            pid=os.getpid(),
            cpu_percent=config.capacity.cpu_percent,
            memory_mb=config.capacity.memory_mb,
            resources=config.capacity.resources,
            not_compiled=NOT_COMPILED,
            rack=config.rack,
            cgroups=self._groups is not None,
        )
        facts = {name: getattr(presence, name) for name in ("id", "host", "grpc_port", "http_port")}
        announce(self._announce_path, role="supervisor", **facts)
        event(log, "supervisor.started", slots=",".join(map(str, self._ports)), **facts)
        return presence

    async def _find_acl(self, by: str, named: Any) -> Acl | None:
        """Return the access list of the topology that a call refers to by name, id or slot port, or None."""
        if by == "port":
            in_slot = [one.topology_id for one in map(summarize, self._slots) if one.port == named]
            by, named = "topology_id", in_slot[0] if in_slot else ""
        return await self._session.call(lambda store: find_acl(store, by, str(named)))

    # Run

    async def _follow_assignments(self, presence: Presence) -> None:
        """Read the assignments on each wake-up, and periodically, and pass them to the slots."""
        await self._session.connect(presence, self._wake.set)
        self._tasks.start(self._presences.remove_strangers(self._slots.live_workers), "strangers")
        while True:
            self._wake.clear()
            try:
                assignments, records, unread = await self._session.call(self._snapshot)
            except TupletreeError as error:
                self._readiness.set("assignments", str(error))
            else:
                self._readiness.set("assignments", None)
                self._living = frozenset(assignment.topology_id for assignment in assignments) | unread
                self._epoch.observe(newest_epoch(assignments))
                silence_s = self._config.limits.silence_timeout_s
                has_owners = self._config.users is not None
                plan = plan_work(
                    assignments, records, self._supervisor_id, self._ports, silence_s, has_owners=has_owners
                )
                for port in plan.keys() - self._slots.ports_kept(plan, unread):
                    self._slots.dispatch(port, Assigned(plan[port]))
                await self._set_limits(memory_limits(assignments, records, self._supervisor_id))
                self._effects.withdraw_bundles(self._slots.bundles_in_use())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._config.monitor_s)

    async def _set_limits(self, limits: Mapping[int, MemoryLimit]) -> None:
        self._memory.set_limits(limits)
        if self._groups is not None:
            self._groups.set_limits(limits)
            with self._contained("limits of workers"):
                await asyncio.to_thread(self._groups.apply, limited_workers(self._slots))

    def _snapshot(self, store: Store) -> tuple[list[Assignment], dict[str, TopologyRecord], frozenset[str]]:
        """Return all assignments, the records of topologies assigned to this supervisor, and the ids of topologies with
        an unreadable assignment or record."""
        with store.snapshot():
            found = store.assignments()
            assignments = [one.value for one in found.values()]
            mine = {
                assignment.topology_id
                for assignment in assignments
                if any(worker.supervisor_id == self._supervisor_id for worker in assignment.workers)
            }
            records = store.topologies_of(mine)
        unread = frozenset(found.unreadable.keys() | records.unreadable.keys())
        return assignments, {topology_id: one.value for topology_id, one in records.items()}, unread

    async def _find_leader(self) -> str:
        """Return the leader's address, by asking the nimbuses listed in ZooKeeper and in the seeds."""
        addresses = list(self._config.seeds)
        with contextlib.suppress(TupletreeError):
            nimbuses = await self._session.call(lambda store: store.nimbuses())
            addresses += [address_of(one.host, one.grpc_port) for one in nimbuses.values()]
        return await find_leader(addresses)

    async def _clean_up(self) -> None:
        """Every few seconds, remove unneeded bundles and worker directories and limit the size of worker output."""
        ages = BundleAges()
        while True:
            on_disk: set[str] = set()
            with self._contained("bundles"):
                on_disk = await asyncio.to_thread(self._bundles.digests)
            in_use = {digest for digest in on_disk if self._needs(digest)}
            ages, stale = ages.observe(on_disk, in_use, time.monotonic(), self._config.bundle_delay_s)
            for digest in stale:
                with self._contained(f"bundle {digest[:12]}"):
                    await self._bundles.remove(digest, functools.partial(self._needs, digest))
            with self._contained("blobs"):
                await self._blobs.remove_unneeded(self._config.bundle_delay_s)
            with self._contained("workers"):
                names = await asyncio.to_thread(self._launcher.names)
                for worker_id in abandoned_workers(names, self._effects.known_workers):
                    await asyncio.to_thread(self._launcher.remove, worker_id)
            for launched in self._effects.live:
                with self._contained(f"output of worker {launched.worker_id}"):
                    output = self._launcher.log_dir(launched.work.topology_id, launched.port) / OUTPUT
                    await asyncio.to_thread(limit_output, output, self._config.output_max_bytes)
            await asyncio.sleep(_CLEAN_UP_S)

    async def _remove_old_logs(self) -> None:
        """Periodically remove the logs of topologies that are gone and wrote nothing for the retention time."""
        retention_s, logs_dir = self._config.logs_retention_s, Path(self._config.logs_dir)
        while retention_s is not None:
            if self._living is None:  # the assignments are not known yet
                await asyncio.sleep(self._config.monitor_s)
                continue
            with self._contained("logs"):
                written = await asyncio.to_thread(last_written_unix_s, logs_dir)
                for topology_id in old_logs(written, self._living, time.time(), retention_s):
                    await asyncio.to_thread(remove_tree, logs_dir / topology_id)
                    if os.path.lexists(logs_dir / topology_id):
                        event(log, "clean_up.failed", level=logging.WARNING, what=f"logs of {topology_id}")
                    else:
                        event(log, "logs.removed", topology=topology_id)
            await asyncio.sleep(min(_LOGS_S, max(1.0, retention_s)))

    @contextlib.contextmanager
    def _contained(self, what: str) -> Iterator[None]:
        """Log an exception in the body, so that the rest of the clean-up goes on. The next round tries again."""
        try:
            yield
        except OSError as error:
            event(log, "clean_up.failed", level=logging.WARNING, what=what, cause=str(error))
        except Exception as error:
            reason(log, "clean_up.failed", error, what=what)

    def _complain(self, work: LocalAssignment, message: str) -> None:
        """Report to the users of a topology that something keeps its workers from a new version of a blob."""
        port = next((slot.port for slot in self._slots if slot.desired == work), self._ports[0])
        self._effects.carry_out(port, ReportError(work, message))

    def _needs(self, digest: str) -> bool:
        return digest in self._slots.bundles_in_use() or digest in self._effects.bundles_being_localized

    # End

    async def _wind_down(self) -> None:
        self._readiness.set("supervisor", "stopping")
        if self._config.stop_workers:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._slots.empty(), self._config.limits.shutdown_s + _KILL_S)
        await self._effects.launches_done()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._presences.wait_until_applied(), _SETTLE_S)
