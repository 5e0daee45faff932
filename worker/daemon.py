"""The worker process: runs the executors that nimbus assigned to its slot, and links them to other workers and ackers.

    launch.json -> bundle on sys.path -> ZooKeeper -> assignment -> engine -> listen -> links -> spouts active

The worker follows ZooKeeper level-triggered: a watch only wakes the worker, a snapshot (assignment_view.py) decides. If
ZooKeeper is unavailable, the worker continues with the last snapshot. Exit status: 0 after SIGTERM, or if
the slot is no longer assigned to the worker; 1 if a component raised or cannot be built, or a port is in use.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tupletree._compiled import CHOICE, NOT_COMPILED, cost_of
from tupletree._coord.store import Store
from tupletree._daemon.announce import announce
from tupletree._daemon.health import Readiness
from tupletree._daemon.task_group import TaskGroup
from tupletree._daemon.zookeeper_session import ZooKeeperSession
from tupletree._log import event
from tupletree.bundle import load_spec
from tupletree.errors import (
    ForbiddenError,
    InternalError,
    TaskFailedError,
    TopologyError,
    TupletreeError,
    UnavailableError,
    UsageError,
)
from tupletree.parallelism import tasks_of
from tupletree.v1 import acker_pb2, topology_pb2

from .assignment_view import AssignmentView, has_place, view
from .blobs import LinkedBlobs
from .control_messages import WorkerLost
from .core.task import Environment
from .debugging.controller import DebugController
from .engine import Engine, local_tasks
from .execution.found_blocking import log_blocking
from .launch_file import LaunchFile
from .live_conf import LiveConf
from .network.acker_links import AckerLinkContext, AckerLinks
from .network.peer_links import PeerLinkContext, PeerLinks
from .network.transfer import Transfer
from .plan import Plan
from .reporting.heartbeats import ErrorThrottle, Reporter, component_error, store_error
from .servers import Parts, listen
from .service import WorkerService

log = logging.getLogger(__name__)

WATCHDOG_S = 0.05
SNAPSHOT_S = 10.0  # the longest time between two snapshots, even if no watch fires
OUTDATED_S = 20.0  # without a snapshot for this long, clients of states are sent to nimbus
RETRY_S = 1.0
CLOSE_S = 2.0
DRAIN_S = 0.5


async def run_worker(launch: LaunchFile, stop: asyncio.Event) -> int:
    """Serve until ``stop`` is set, the slot is taken away, or a component raises. Return the exit status."""
    session = await ZooKeeperSession.open(launch.conf)
    store = session.store
    try:
        first = await asyncio.to_thread(load_view, store, launch)
        if first is None or first.first_task != launch.first_task:  # ids that its supervisor has not seen yet
            event(log, "worker.unassigned", slot=launch.slot)
            return 0
        try:
            worker = Worker(launch, store, first)
        except TupletreeError as error:
            component = error.component if isinstance(error, TopologyError) else ""
            return await give_up(launch, store, component or "__system", 0, error)
        return await worker.run(stop)
    finally:
        await session.close()


def load_view(store: Store, launch: LaunchFile, *, is_synced: bool = False) -> AssignmentView | None:
    """Read the assignment from ZooKeeper; with ``is_synced``, including everything written before this call."""
    topology_id = launch.topology_id
    if is_synced:
        store.sync()
    with store.snapshot():
        record = store.topology(topology_id)
        assignment = store.assignment(topology_id)
        presences = store.worker_presences(topology_id)
    return view(
        launch.slot,
        record.value if record is not None else None,
        assignment.value if assignment is not None else None,
        presences,
        launch.conf_digest,
    )


async def give_up(
    launch: LaunchFile, store: Store, component: str, task: int, error: BaseException, clause: str = ""
) -> int:
    """Log and store the error that ends the worker; return the exit status. ``clause`` ends the error's message."""
    log.critical("worker.failed component=%s task=%s", component, task, exc_info=error)
    message = component_error(launch, component, task, error, clause)
    message.ended_worker = True
    message.first_task = launch.first_task
    await store_error(store, launch.topology_id, message)
    return 1


class Worker:
    """The executors of this slot, their links, and the background jobs that watch ZooKeeper and send reports.

    The executors are fixed for the worker's life: if the slot gets other executors, another worker starts.
    """

    def __init__(self, launch: LaunchFile, store: Store, first: AssignmentView) -> None:
        """Unpickles user code. Raises TupletreeError if a component cannot be built here."""
        self._live_conf = LiveConf(launch.conf, first.live_conf)
        self._conf = conf = self._live_conf.conf
        self._launch = launch
        self._store = store
        self._executors = first.executors
        self._readiness = Readiness()
        self._readiness.set("components", "starting")
        self._throttle = ErrorThrottle(
            conf["topology.max.error.report.per.interval"], conf["topology.error.throttle.interval.secs"]
        )
        self._loop = asyncio.get_running_loop()
        self._opened = asyncio.Event()
        self._changed = asyncio.Event()
        self._unwanted = asyncio.Event()
        self._known_workers: frozenset[str] = frozenset()
        self._was_ready = False
        self._seen_s = 0.0  # when the assignment was last read
        self._view: AssignmentView | None = None  # none is applied before the components are open
        self._tasks = TaskGroup()
        self._blobs = LinkedBlobs(launch.worker_dir, conf)
        self._transfer = Transfer(self._loop, conf["topology.flush.interval.ms"] / 1000)
        self._engine = self._make_engine(first)
        self._ackers = self._make_ackers(first)
        self._peers = PeerLinks(
            PeerLinkContext(
                topology_id=launch.topology_id,
                worker_id=launch.worker_id,
                gate=self._engine.gate,
                shard_version=lambda: self._ackers.known_version if self._ackers is not None else 0,
                fail=self._transfer.fail,
                on_link_change=self._update_readiness,
                split=self._engine.split,
            )
        )
        self._service = WorkerService(
            self._engine, launch.topology_id, launch.worker_id, self._opened, self._on_shard_version
        )
        self._transfer.connect(self._engine.gate, self._peers, self._ackers, self._service.congestion_changed)
        self._reporter = Reporter(launch, self._engine, store)
        self._debugging = DebugController(launch, self._engine)

    async def run(self, stop: asyncio.Event) -> int:
        """Serve until the worker must end; return the exit status."""
        try:
            await asyncio.to_thread(self._engine.start_hooks)
            ackers = {} if self._ackers is None else {"acker": self._ackers}
            parts = Parts(self._service, self._engine, self._readiness, {"worker": self._peers, **ackers})
            rpc, http, self._reporter.http_port = await listen(self._launch, parts, self._is_current)
        except UsageError as error:  # a hook cannot start, or a port is in use
            await asyncio.to_thread(self._engine.stop, CLOSE_S)
            return await give_up(self._launch, self._store, "__system", 0, error)
        watch = await asyncio.to_thread(self._store.watch_topology, self._launch.topology_id, self._wake)
        self._start()
        try:
            return await self._wait_for_end(stop)
        finally:
            watch.cancel()
            self._service.state_reads.close()
            await asyncio.to_thread(self._engine.stop, CLOSE_S)
            await self._drain()
            await self._tasks.cancel()
            await asyncio.to_thread(self._debugging.close)
            await self._peers.close()
            if self._ackers is not None:
                await self._ackers.close()
            await rpc.stop(0)
            await http.stop()

    def _make_engine(self, first: AssignmentView) -> Engine:
        """Build the engine for the executors of this slot. Unpickles user code."""
        launch = self._launch
        spec = load_spec(launch.bundle_dir)
        environment = Environment(
            clock=time.monotonic,
            getrandbits=random.Random().getrandbits,
            report_error=self._report_error,
            is_tracked=bool(first.shards),
            log_emit=log_emit,
            unix_clock=time.time,
        )
        plan = Plan(
            topology_id=launch.topology_id,
            spec=spec,
            conf=self._conf,
            tasks={name: range(first, last + 1) for name, first, last in launch.tasks} or tasks_of(spec, self._conf),
            local_tasks=local_tasks(first.executors),
            environment=environment,
            seed=random.getrandbits(64),
            places={task: slot for slot, tasks in first.remote_tasks.items() for task in tasks},
            bundle_dir=launch.bundle_dir,
            blob=self._blobs.paths.find,
        )
        return Engine(plan, first.executors, self._transfer, log_blocking)

    def _is_current(self) -> bool:
        """False while this worker may have been replaced, or is starting or stopping."""
        return self._readiness.ready and time.monotonic() - self._seen_s < OUTDATED_S

    def _make_ackers(self, first: AssignmentView) -> AckerLinks | None:
        if not first.shards:
            return None
        has_timeouts = self._launch.conf["topology.enable.message.timeouts"]
        hello = acker_pb2.TrackHello(
            topology_id=self._launch.topology_id,
            worker_id=self._launch.worker_id,
            tasks=self._engine.tree_tasks,
            message_timeout_s=self._launch.conf["topology.message.timeout.secs"] if has_timeouts else 0,
            shards=len(first.shards),
        )
        return AckerLinks(AckerLinkContext(hello, self._engine, self._update_readiness))

    def _start(self) -> None:
        self._engine.set_ackers_ready(self._ackers is None)
        self._engine.start()
        launch, port = self._launch, self._reporter.http_port
        announce(
            launch.announce, role="worker", id=launch.worker_id, host=launch.host, grpc_port=launch.port, http_port=port
        )
        event(log, "worker.started", topology=launch.topology_id, worker=launch.worker_id, hot_path=CHOICE)
        if NOT_COMPILED:
            event(log, "worker.not_compiled", level=logging.WARNING, cause=cost_of(NOT_COMPILED))
        self._tasks.start(self._follow_assignment(), "assignment")
        self._tasks.start(self._watchdog(), "watchdog")
        self._tasks.start(self._blobs.follow(self._engine.tell_of_blobs), "blobs")
        self._tasks.start(self._reporter.beat(self._unwanted.set), "heartbeats")
        self._tasks.start(self._reporter.report(), "reports")

    async def _wait_for_end(self, stop: asyncio.Event) -> int:
        """Wait until the worker must end; return its exit status."""
        failed = asyncio.ensure_future(self._first_failure())
        waits: dict[asyncio.Future[Any], str] = {
            asyncio.ensure_future(stop.wait()): "received a signal to stop",
            asyncio.ensure_future(self._unwanted.wait()): "no longer assigned to this slot",
            failed: "a component raised",
        }
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        self._readiness.set("stopping", waits[next(iter(done))])
        self._engine.set_active(False)
        if failed in done:
            failure = failed.result()
            cause = failure.__cause__ or failure
            return await give_up(
                self._launch, self._store, failure.component_id, failure.task_id, cause, failure.on_cluster
            )
        event(log, "worker.stopping", cause=waits[next(iter(done))])
        return 0

    async def _first_failure(self) -> TaskFailedError:
        """Wait until a component raises or one of the worker's own tasks fails."""
        try:
            return await self._tasks.until(self._transfer.failure)
        except Exception as error:
            return TaskFailedError("__system", 0, error)

    async def _drain(self) -> None:
        """Wait up to ``DRAIN_S`` until the output of the engine's last flush has arrived."""
        deadline_s = time.monotonic() + DRAIN_S
        await asyncio.sleep(0)
        while time.monotonic() < deadline_s:
            if self._transfer.is_idle and self._peers.is_idle and (self._ackers is None or self._ackers.is_idle):
                return
            await asyncio.sleep(0.01)

    # Following ZooKeeper

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)

    async def _follow_assignment(self) -> None:
        """Apply the newest snapshot whenever something may have changed."""
        await self._until_opened()
        while True:
            self._changed.clear()
            claimed = None if self._ackers is None else self._ackers.claimed_version
            try:
                latest = await asyncio.to_thread(load_view, self._store, self._launch, is_synced=claimed is not None)
            except UnavailableError as error:
                event(log, "zookeeper.away", level=logging.WARNING, cause=error)
                await asyncio.sleep(RETRY_S)
                continue
            except (InternalError, ForbiddenError) as error:  # a damaged or closed znode is no reason to stop executors
                event(log, "assignment.unreadable", level=logging.WARNING, cause=error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), SNAPSHOT_S)
                continue
            if not has_place(latest, self._executors):
                self._unwanted.set()
                return
            self._seen_s = time.monotonic()
            await self._apply(latest)
            if self._ackers is not None and claimed is not None and latest.shard_version < claimed:
                self._ackers.refute(claimed)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), SNAPSHOT_S)

    async def _until_opened(self) -> None:
        while not self._engine.has_opened:
            await asyncio.sleep(0.005)
        gc.freeze()  # imported and built objects live until exit: collections can skip them
        self._opened.set()

    async def _apply(self, latest: AssignmentView) -> None:
        lost = self._known_workers - latest.workers - {self._launch.worker_id}
        self._known_workers = latest.workers
        self._view = latest
        self._reporter.assignment_version = latest.version
        self._debugging.apply(latest.observed)
        if changes := self._live_conf.apply(latest.live_conf):
            self._change_conf(changes)
        if lost:
            event(log, "worker.lost", workers=",".join(sorted(lost)))
            self._engine.notify_spouts(WorkerLost(self._conf["topology.lost.worker.grace.ms"] / 1000))
        await self._peers.connect(latest.peers, latest.remote_tasks)
        if self._ackers is not None:
            await self._ackers.apply_shards(latest.shards, latest.shard_version)
        self._update_readiness()

    def _change_conf(self, changes: Mapping[str, Any]) -> None:
        event(log, "conf.changed", keys=",".join(sorted(changes)))
        self._throttle.most = self._conf["topology.max.error.report.per.interval"]
        self._throttle.interval_s = self._conf["topology.error.throttle.interval.secs"]
        self._engine.change_conf(changes)

    def _on_shard_version(self, shard_version: int) -> None:
        if self._ackers is not None:
            self._ackers.require(shard_version)
            if self._ackers.is_behind:
                self._changed.set()

    def _update_readiness(self) -> None:
        """Recompute readiness after a link went up or down, or after the topology's status changed."""
        if self._view is None:
            return
        peers_up = self._peers.are_up(self._view.peers)
        ackers_up = self._ackers is None or self._ackers.are_up
        self._readiness.set("components", None)
        self._readiness.set("peers", None if peers_up else "not connected to every worker of the topology")
        self._readiness.set("ackers", None if ackers_up else "not every shard has an acker that answers")
        self._engine.set_ackers_ready(ackers_up)
        self._reporter.is_ready = self._readiness.ready
        if peers_up and ackers_up and not self._was_ready:
            self._was_ready = True
            event(log, "worker.ready", topology=self._launch.topology_id)
        # No spout emits until all links have been up once. After that, the gate decides per spout.
        self._engine.set_active(self._view.is_active and self._was_ready)

    # What the engine reports

    async def _watchdog(self) -> None:
        while True:
            await asyncio.sleep(WATCHDOG_S)
            self._engine.run_watchdog()
            self._service.loads_sampled()
            for error in self._throttle.release(time.monotonic()):
                self._store_error(error)

    def _report_error(self, component: str, task: int, error: BaseException) -> None:
        """Log and store an error that a component reported. Any thread."""
        log.error("component.error component=%s task=%s", component, task, exc_info=error)
        message = component_error(self._launch, component, task, error)
        self._loop.call_soon_threadsafe(self._keep_error, message)

    def _keep_error(self, error: topology_pb2.ComponentError) -> None:
        if self._throttle.admit(error, time.monotonic()):
            self._store_error(error)

    def _store_error(self, error: topology_pb2.ComponentError) -> None:
        self._tasks.start(store_error(self._store, self._launch.topology_id, error), "error")


def log_emit(component: str, stream: str, values: Sequence[Any]) -> None:
    """Log a tuple that a component emitted (``topology.debug``)."""
    event(log, "tuple.emitted", component=component, stream=stream, values=repr(values))
