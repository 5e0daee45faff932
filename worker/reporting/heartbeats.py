"""Reports of a worker: heartbeats to the supervisor, statistics to nimbus, component errors to ZooKeeper."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
import traceback
from collections import deque
from collections.abc import Callable

import grpc.aio

from tupletree._coord.store import Store
from tupletree._log import event
from tupletree._rpc.channels import aio_channel
from tupletree.errors import TupletreeError, named
from tupletree.v1 import nimbus_pb2, supervisor_pb2, supervisor_pb2_grpc, topology_pb2

from .. import ptrace
from ..engine import Engine
from ..execution.call_durations import CallDurations
from ..launch_file import LaunchFile
from .report_stream import DEADLINE_S, REPORT_ERRORS, ReportStream
from .task_statuses import TaskStatusReader

log = logging.getLogger(__name__)

MAX_REPORT_BYTES = 16 * 1024 * 1024
"""The size limit of a statistics report: a quarter of nimbus' message limit, since a report is sent every second."""


class ErrorThrottle:
    """Limit on the errors reported per component and interval, as in Storm.

    Of the errors above the limit, the newest of each component is held until the interval allows another report.
    """

    def __init__(self, most: int, interval_s: float) -> None:
        self.most = most
        self.interval_s = interval_s
        self._recent: dict[str, deque[float]] = {}
        self._held: dict[str, topology_pb2.ComponentError] = {}

    def admit(self, error: topology_pb2.ComponentError, now_s: float) -> bool:
        """True if an error may be reported now, and is counted; otherwise it is held in place of an earlier one."""
        component = error.component_id
        if self.allows(component, now_s):
            self._held.pop(component, None)
            return True
        self._held[component] = error
        return False

    def release(self, now_s: float) -> list[topology_pb2.ComponentError]:
        """Return the held errors that may be reported now, and count them."""
        return [self._held.pop(one) for one in list(self._held) if self.allows(one, now_s)]

    def allows(self, component: str, now_s: float) -> bool:
        """True if another error of the component may be reported now; if so, the error is counted."""
        recent = self._recent.setdefault(component, deque())
        while recent and recent[0] <= now_s - self.interval_s:
            recent.popleft()
        if len(recent) >= self.most:
            return False
        recent.append(now_s)
        return True


def component_error(
    launch: LaunchFile, component: str, task: int, error: BaseException, clause: str = ""
) -> topology_pb2.ComponentError:
    """Return an exception as the message stored for the user, which ``clause`` ends.

    Never raises, even for exceptions of user code.
    """
    return topology_pb2.ComponentError(
        component_id=component,
        task_id=max(task, 0),
        host=launch.host,
        port=launch.port,
        at_unix_s=time.time(),
        message=_sendable(named(error) + clause),
        traceback=_sendable(_traceback_of(error)),
    )


def _traceback_of(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception as cause:  # formatting calls user code: __str__, __notes__
        return f"(the traceback cannot be shown: {type(cause).__name__})"


def _sendable(text: str) -> str:
    """Return text with lone surrogates escaped, since protobuf strings cannot contain them."""
    return text.encode("utf-8", "backslashreplace").decode()


async def store_error(store: Store, topology_id: str, error: topology_pb2.ComponentError) -> None:
    """Store an error in ZooKeeper. If ZooKeeper is unavailable, the error is in the log only."""
    try:
        await asyncio.to_thread(store.report_error, topology_id, error)
    except TupletreeError as cause:
        event(log, "error.not_stored", level=logging.WARNING, component=error.component_id, cause=cause)


def bounded(report: nimbus_pb2.WorkerReport, max_bytes: int = MAX_REPORT_BYTES) -> nimbus_pb2.WorkerReport:
    """Shorten a report that is too large: drop statuses, then latencies by bucket, then metrics by stream.

    The heartbeat and the counters of all tasks are always kept.
    """
    if report.ByteSize() > max_bytes:
        del report.statuses[:]
    for details in (("process_buckets", "complete_buckets"), ("inputs", "streams")):
        if report.ByteSize() <= max_bytes:
            break
        for stats in report.tasks:
            for one in details:
                stats.ClearField(one)
    return report


class Reporter:
    """Sender of heartbeats and statistics, every ``worker.heartbeat.frequency.secs``."""

    def __init__(self, launch: LaunchFile, engine: Engine, store: Store) -> None:
        self._is_ready = False
        self._has_news = asyncio.Event()  # set when the worker gets ready or unready
        self.assignment_version = 0
        self.http_port = 0  # until the worker listens
        self._launch = launch
        self._engine = engine
        self._statuses = TaskStatusReader(engine)
        self._store = store
        self._started_s = time.monotonic()
        self._calls = CallDurations()
        self._leader: ReportStream | None = None

    @property
    def is_ready(self) -> bool:
        """The readiness to report. A change is reported at once."""
        return self._is_ready

    @is_ready.setter
    def is_ready(self, is_ready: bool) -> None:
        if is_ready != self._is_ready:
            self._is_ready = is_ready
            self._has_news.set()

    async def beat(self, unwanted: Callable[[], None]) -> None:
        """Send heartbeats to the supervisor forever. ``unwanted`` is called if the reply tells this worker to stop."""
        launch, supervisor_pid = self._launch, os.getppid()
        async with aio_channel(launch.supervisor_address) as channel:
            stub = supervisor_pb2_grpc.SupervisorStub(channel)
            while True:
                request = supervisor_pb2.BeatRequest(
                    worker_id=launch.worker_id,
                    topology_id=launch.topology_id,
                    port=launch.port,
                    pid=os.getpid(),
                    ready=self.is_ready,
                    http_port=self.http_port,
                )
                try:
                    reply = await stub.Beat(request, timeout=DEADLINE_S)
                    if reply.pid and reply.pid != supervisor_pid:
                        supervisor_pid = reply.pid
                        ptrace.allow(supervisor_pid)
                    if reply.stop:
                        unwanted()
                except grpc.aio.AioRpcError:
                    pass  # a supervisor that restarts adopts its workers
                await asyncio.sleep(self._launch.conf["worker.heartbeat.frequency.secs"])

    async def report(self) -> None:
        """Send task statistics to the leading nimbus forever, as often as the nimbus needs them."""
        while True:
            needed_s = 0.0
            self._has_news.clear()
            try:
                if self._leader is None:
                    leadership = await asyncio.to_thread(self._store.leadership)
                    self._leader = ReportStream(leadership.address) if leadership is not None else None
                if self._leader is not None:
                    needed_s = await self._leader.report(await self._report())
            except REPORT_ERRORS:
                if self._leader is not None:
                    await self._leader.close()
                    self._leader = None
            pause_s = max(needed_s, self._launch.conf["worker.heartbeat.frequency.secs"])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_news.wait(), pause_s)

    async def _report(self) -> nimbus_pb2.WorkerReport:
        launch, (is_paused, unfinished) = self._launch, self._engine.unfinished()
        tasks = self._engine.statistics()
        calls = self._calls.observe(self._engine.present_steps(), time.monotonic())
        for one in tasks:
            one.call_s = calls.get(one.task_id, 0.0)
        report = nimbus_pb2.WorkerReport(
            topology_id=launch.topology_id,
            worker_id=launch.worker_id,
            supervisor_id=launch.supervisor_id,
            host=launch.host,
            port=launch.port,
            pid=os.getpid(),
            ready=self.is_ready,
            uptime_s=time.monotonic() - self._started_s,
            http_port=self.http_port,
            assignment_version=self.assignment_version,
            tasks=tasks,
            statuses=await self._statuses.read(),
            paused=is_paused,
            unfinished=unfinished,
            opening=self._engine.is_opening,
        )
        return bounded(report)
