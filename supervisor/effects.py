"""Execution of the slots' effects: the bridge from the state machines to processes, disk and ZooKeeper.

``carry_out`` returns at once. Slow effects run in the background and report back as events. Any exception from an
effect is a failure of its slot: it becomes an event, a report to the topology's users and a line in the log. The
supervisor and its other slots are not affected (see faults.py).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import assert_never

from tupletree._daemon.task_group import TaskGroup
from tupletree._log import event as log_event
from tupletree.errors import NotFoundError, UsageError
from tupletree.v1.topology_pb2 import ComponentError, WorkerPresence

from .blobs import Blobs
from .bundles import Bundles
from .config import SupervisorConfig
from .faults import MAX_REASON, reason
from .launcher import OUTPUT, FoundWorker, LaunchedWorker, Launcher
from .local_assignment import LocalAssignment
from .metrics import Metrics
from .presences import WorkerPresences
from .processes import WorkerProcess, last_line
from .slot_events import (
    BundleFailed,
    BundleReady,
    Effect,
    Event,
    ExitKind,
    ForgetWorker,
    Kill,
    Launch,
    LaunchFailed,
    Localize,
    PutPresence,
    RemovePresence,
    ReportError,
    Terminate,
    Worker,
    WorkerAdopted,
    WorkerExited,
    WorkerLaunched,
)
from .users import refuse_blobs, refuse_requirements
from .virtualenv import prepare_python
from .zookeeper_session import EventualSession

log = logging.getLogger(__name__)

COMPONENT = "__supervisor"
"""The component id under which supervisors report errors of a topology."""

_QUIET_S = 600.0  # time without a message after which its count restarts from one
_MAX_COUNTED = 1000  # maximum number of messages counted at the same time
_KILL_AGAIN_S = 1.0


class Effects:
    """Carries out effects, and reports events to the slots at ``ports`` through ``tell(port, event)``."""

    def __init__(
        self,
        config: SupervisorConfig,
        supervisor_id: str,
        bundles: Bundles,
        blobs: Blobs,
        launcher: Launcher,
        presences: WorkerPresences,
        session: EventualSession,
        tasks: TaskGroup,
        metrics: Metrics,
        tell: Callable[[int, Event], None],
        ports: Sequence[int],
    ) -> None:
        self._config = config
        self._supervisor_id = supervisor_id
        self._bundles = bundles
        self._blobs = blobs
        self._launcher = launcher
        self._presences = presences
        self._session = session
        self._tasks = tasks
        self._metrics = metrics
        self._tell = tell
        self._ports = ports
        self._live: dict[str, tuple[LaunchedWorker, WorkerProcess]] = {}
        self._orphans: dict[str, WorkerProcess] = {}
        self._localizing: dict[str, asyncio.Task[None]] = {}
        self._withdrawn: set[str] = set()  # digests whose localization is being cancelled
        self._pythons: dict[str, str] = {}  # by digest: the interpreter for the bundle's workers
        self._launching: set[asyncio.Task[None]] = set()
        self._launching_ids: set[str] = set()
        self._reported: dict[tuple[str, int, str], ComponentError] = {}  # by topology, port, message: the last report

    def carry_out(self, port: int, effect: Effect) -> None:
        """Carry out an effect, in the background if it is slow. Never raises."""
        try:
            self._begin(port, effect)
        except Exception as error:
            name = type(effect).__name__
            self._has_failed(port, effect, reason(log, "effect.failed", error, slot=port, effect=name))

    def _has_failed(self, port: int, effect: Effect, cause: str) -> None:
        """Report an effect that could not be started. Deferred, because the slot is in the middle of a step."""
        later = asyncio.get_running_loop().call_soon
        match effect:
            case Localize(work=work):
                later(self._tell, port, BundleFailed(work.bundle_sha256, cause))
            case Launch(worker_id=worker_id):
                self._launching_ids.discard(worker_id)
                later(self._tell, port, LaunchFailed(worker_id, cause))
            case PutPresence(work=work) | RemovePresence(work=work) | ForgetWorker(work=work):
                later(self.carry_out, port, ReportError(work, cause))
            case Terminate() | Kill() | ReportError():
                pass  # the slot tries Kill again until the process is gone
            case unreachable:
                assert_never(unreachable)

    def _begin(self, port: int, effect: Effect) -> None:
        match effect:
            case Localize(work=work):
                self._localize(work)
            case Launch(work=work, worker_id=worker_id):
                self._launching_ids.add(worker_id)
                task = self._tasks.start(self._launch(port, work, worker_id), f"launch-{port}")
                self._launching.add(task)
                task.add_done_callback(self._launching.discard)
            case PutPresence(work=work, worker=worker):
                self._presences.put(work.topology_id, self._presence(port, worker), work.owner)
            case RemovePresence(work=work, worker=worker):
                self._presences.remove(work.topology_id, port, worker.worker_id)
            case Terminate(worker=worker):
                self._signal(worker, signal.SIGTERM)
            case Kill(worker=worker):
                self._signal(worker, signal.SIGKILL)
            case ForgetWorker():
                self._forget(port, effect)
            case ReportError(work=work, message=message, is_failed_start=is_failed_start):
                self._report(port, work, message, is_failed_start)
            case unreachable:
                assert_never(unreachable)

    # Bundles

    def _localize(self, work: LocalAssignment) -> None:
        sha256 = work.bundle_sha256
        if sha256 not in self._localizing:
            self._localizing[sha256] = self._tasks.start(self._fetch(work), f"localize-{sha256[:12]}")

    async def _fetch(self, work: LocalAssignment) -> None:
        sha256 = work.bundle_sha256
        failure, is_final = "", False
        lacking: dict[str, Exception] = {}
        try:
            directory = await self._bundles.localize(sha256, work.bundle_bytes)
            is_final = True  # what nimbus has sent cannot be used
            log_path = Path(self._config.logs_dir, work.topology_id, "requirements.log")
            if self._config.users is not None:
                refuse_requirements(directory)
            self._pythons[sha256] = await prepare_python(directory, log_path, work.topology_id)
            is_final = False
            if self._config.users is None:
                lacking = await self._blobs.prepare(sha256)
        except asyncio.CancelledError:
            if sha256 not in self._withdrawn:
                raise
            is_final = False
            failure = "the localization was cancelled"  # for a slot that needs the bundle again meanwhile
        except Exception as error:
            is_final = is_final or _is_unusable(error)
            failure = self._missed(error, work.topology_id, sha256)
        self._withdrawn.discard(sha256)
        del self._localizing[sha256]
        for topology_id, fault in lacking.items():
            missed = BundleFailed(sha256, self._missed(fault, topology_id, sha256), _is_unusable(fault), topology_id)
            for port in self._ports:
                self._tell(port, missed)
        for port in self._ports:  # those that were told of their blobs wait for something else now
            failed = BundleFailed(sha256, failure, is_final)
            self._tell(port, failed if failure else BundleReady(sha256, uuid.uuid4().hex))

    def _missed(self, error: Exception, topology_id: str, sha256: str) -> str:
        self._metrics.misses.inc()
        return reason(log, "bundle.failed", error, topology=topology_id, bundle=sha256[:12])

    def withdraw_bundles(self, in_use: Collection[str]) -> None:
        """Cancel the localization of bundles that no slot needs any more, and forget their interpreters."""
        for sha256 in set(self._localizing) - set(in_use) - self._withdrawn:
            self._withdrawn.add(sha256)
            self._localizing[sha256].cancel()
        for sha256 in set(self._pythons) - set(in_use) - set(self._localizing):
            del self._pythons[sha256]

    @property
    def bundles_being_localized(self) -> set[str]:
        return set(self._localizing)

    # Processes

    async def _launch(self, port: int, work: LocalAssignment, worker_id: str) -> None:
        try:
            directory = self._bundles.directory(work.bundle_sha256)
            python = self._pythons[work.bundle_sha256]
            if self._config.users is not None:
                refuse_blobs(work)
            blobs = self._blobs.links(work)
            launched, process = await asyncio.to_thread(
                self._launcher.launch, worker_id, port, work, directory, python, blobs
            )
            self._watch(launched, process)
            self._blobs.wake()
        except Exception as error:
            cause = reason(log, "worker.unlaunched", error, slot=port, topology=work.topology_id)
            if not cause.startswith("the worker on port"):
                cause = f"the worker on port {port} cannot be launched: {cause}"
            self._tell(port, LaunchFailed(worker_id, cause))
            return
        finally:
            self._launching_ids.discard(worker_id)
        self._metrics.launches.labels(str(port)).inc()
        self._tell(port, WorkerLaunched(Worker(worker_id, process.pid)))

    async def launches_done(self) -> None:
        """Wait for the launches in progress, so that none is interrupted between its files and its process."""
        while self._launching:
            await asyncio.wait(self._launching)

    def adopt(self, found: FoundWorker) -> bool:
        """Adopt a live worker of an earlier supervisor process. Returns False if the worker has just ended."""
        assert found.launched is not None and found.identity is not None
        process = WorkerProcess.adopt(found.identity)
        if process is None:
            return False
        launched = found.launched
        self._metrics.adoptions.inc()
        self._watch(launched, process)
        self._tell(launched.port, WorkerAdopted(launched.work, Worker(launched.worker_id, process.pid)))
        return True

    def end_orphan(self, found: FoundWorker) -> None:
        """End a live worker that belongs to no slot."""
        process = None if found.identity is None else WorkerProcess.adopt(found.identity)
        if process is None:
            self._launcher.remove(found.worker_id)
            return
        self._orphans[found.worker_id] = process
        self._tasks.start(self._end_orphan(found.worker_id, process), f"orphan-{process.pid}")

    async def _end_orphan(self, worker_id: str, process: WorkerProcess) -> None:
        while True:
            try:
                await self._end(worker_id, process)
                await asyncio.to_thread(self._launcher.remove, worker_id)
                break
            except Exception as error:
                reason(log, "orphan.failed", error, worker=worker_id, pid=process.pid)
                await asyncio.sleep(self._config.limits.shutdown_s)
        del self._orphans[worker_id]

    async def _end(self, worker_id: str, process: WorkerProcess) -> None:
        """End a process that no slot knows."""
        ended = asyncio.Event()
        process.watch(lambda kind, text: ended.set())
        number, patience_s = signal.SIGTERM, self._config.limits.shutdown_s
        while not ended.is_set():
            log_event(log, "orphan.signalled", worker=worker_id, pid=process.pid, signal=number.name)
            process.signal_group(number)
            try:
                await asyncio.wait_for(ended.wait(), patience_s)
            except TimeoutError:
                number, patience_s = signal.SIGKILL, _KILL_AGAIN_S

    @property
    def known_workers(self) -> set[str]:
        """The ids of all workers whose directories must be kept."""
        return {*self._live, *self._orphans, *self._launching_ids}

    @property
    def live(self) -> list[LaunchedWorker]:
        return [launched for launched, _ in self._live.values()]

    def _watch(self, launched: LaunchedWorker, process: WorkerProcess) -> None:
        self._live[launched.worker_id] = (launched, process)
        output = self._launcher.log_dir(launched.work.topology_id, launched.port) / OUTPUT

        def on_exit(kind: ExitKind, text: str) -> None:
            if (ended := self._launcher.end_for_memory(launched)) is not None:
                kind, text = ExitKind.MEMORY, ended
            elif kind is ExitKind.ERROR and (said := last_line(output, launched.output_start)):
                text = f"{text}: {said}"
            self._tell(launched.port, WorkerExited(launched.worker_id, kind, text))

        try:
            process.watch(on_exit)
        except BaseException:  # otherwise the process's exit would go unnoticed
            del self._live[launched.worker_id]
            process.end()
            raise

    def _signal(self, worker: Worker, number: signal.Signals) -> None:
        log_event(log, "worker.signalled", worker=worker.worker_id, pid=worker.pid, signal=number.name)
        self._live[worker.worker_id][1].signal_group(number)

    def _forget(self, port: int, effect: ForgetWorker) -> None:
        worker_id = effect.worker.worker_id
        self._metrics.exits.labels(str(port), effect.cause).inc()
        topology_id = effect.work.topology_id
        log_event(
            log, "worker.exited", slot=port, topology=topology_id, worker=worker_id, cause=effect.cause, how=effect.text
        )
        self._live.pop(worker_id)

        def remove() -> Awaitable[object]:
            return asyncio.to_thread(self._launcher.remove, worker_id)

        self._tasks.start(self._logged("worker.unremoved", remove, worker=worker_id), f"forget-{port}")

    async def _logged(self, name: str, work: Callable[[], Awaitable[object]], **context: object) -> None:
        """Run background work. Any exception is logged as the event ``name``."""
        try:
            await work()
        except Exception as error:
            reason(log, name, error, **context)

    # ZooKeeper

    def _presence(self, port: int, worker: Worker) -> WorkerPresence:
        return WorkerPresence(
            worker_id=worker.worker_id,
            supervisor_id=self._supervisor_id,
            host=self._config.host,
            port=port,
            pid=worker.pid,
            launched_unix_s=self._live[worker.worker_id][0].launched_unix_s,
        )

    def _report(self, port: int, work: LocalAssignment, message: str, is_failed_start: bool) -> None:
        """Report an error. A repeated message replaces its previous report, with a higher count."""
        message = message.encode("utf-8", "backslashreplace").decode("utf-8")[:MAX_REASON]
        topology_id = work.topology_id
        now_s, key = time.time(), (topology_id, port, message)
        last = self._reported.pop(key, None)
        if last is None or not 0 <= now_s - last.at_unix_s < _QUIET_S:
            last = ComponentError(first_unix_s=now_s)
        error = ComponentError(
            component_id=COMPONENT,
            host=self._config.host,
            port=port,
            at_unix_s=now_s,
            message=message,
            count=last.count + 1,
            first_unix_s=last.first_unix_s,
            ended_worker=is_failed_start,
            first_task=min((first for _, first, _ in work.tasks), default=1) if is_failed_start else 0,
        )
        self._reported[key] = error
        if len(self._reported) > _MAX_COUNTED:
            del self._reported[next(iter(self._reported))]

        def send() -> Awaitable[object]:
            return self._session.call(lambda store: store.report_error(topology_id, error))

        report = self._logged("error.unreported", send, topology=topology_id, message=message)
        self._tasks.start(report, f"report-{port}")


def _is_unusable(error: Exception) -> bool:
    """True if what nimbus has sent is at fault, so that the topology cannot start with it."""
    return isinstance(error, UsageError) and not isinstance(error, NotFoundError)
