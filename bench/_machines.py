"""Simulated supervisors and workers of ``bench.cluster_size``: one process plays many machines.

    python -m bench._machines '{"conf": {…}, "first": 0, "count": 250, "slots": 5, "busy": 1.0}'

To nimbus, a machine is what a real one is: an ephemeral presence in ZooKeeper, a gRPC port that takes ``Wake``, and for
each assigned worker a presence and a connection of its own with a stream of reports, as often as nimbus asks for them.
No tuple flows. The process reads the assignments once for all of its machines: its reads say nothing of supervisors.

Commands come as lines on standard input: ``lose <supervisor id>`` ends a machine without a word to anybody.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import grpc

from tupletree._coord import paths
from tupletree._coord.session import result
from tupletree._coord.store import encode
from tupletree._daemon.zookeeper_session import ZooKeeperSession
from tupletree._rpc.server import SERVER_OPTIONS
from tupletree.config import defaults
from tupletree.errors import NotFoundError, TupletreeError
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import supervisor_pb2, supervisor_pb2_grpc
from tupletree.v1 import topology_pb2 as pb
from tupletree.worker.reporting.report_stream import REPORT_ERRORS, ReportStream

REPORT_S: Final = 1.0
MONITOR_S: Final = 3.0
_AT_ONCE: Final = 64  # writes of presences that are under way together

Key = tuple[str, str, int]  # topology id, supervisor id, port


class Wakes(supervisor_pb2_grpc.SupervisorServicer):
    """The part of a supervisor that nimbus calls."""

    def __init__(self, wake: asyncio.Event) -> None:
        self._wake = wake

    async def Wake(self, request: Any, context: Any) -> supervisor_pb2.WakeReply:
        self._wake.set()
        return supervisor_pb2.WakeReply()


class Machines:
    """The machines of this process."""

    def __init__(self, session: ZooKeeperSession, given: Mapping[str, Any]) -> None:
        self._session = session
        self._store = session.store
        self._slots: int = given["slots"]
        self._busy: float = given["busy"]
        self._ids = [f"machine-{number:04}" for number in range(given["first"], given["first"] + given["count"])]
        self._lost: set[str] = set()
        self._wake = asyncio.Event()
        self._workers: dict[Key, tuple[pb.WorkerAssignment, asyncio.Task[None]]] = {}
        self._leader = ""
        self._writing = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Register the machines, and follow the assignments until cancelled."""
        server = grpc.aio.server(options=list(SERVER_OPTIONS))
        supervisor_pb2_grpc.add_SupervisorServicer_to_server(Wakes(self._wake), server)  # type: ignore[abstract]
        ports = [server.add_insecure_port("127.0.0.1:0") for _ in self._ids]
        await server.start()
        await asyncio.to_thread(self._register, ports)
        print("registered", flush=True)
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(self._wake.set)

        await asyncio.to_thread(self._store.watch_assignments, wake)
        await asyncio.to_thread(self._store.watch_leadership, wake)
        while True:
            self._wake.clear()
            with contextlib.suppress(TupletreeError):
                leadership = await asyncio.to_thread(self._store.leadership)
                self._leader = leadership.address if leadership is not None else self._leader
                self._follow(await asyncio.to_thread(self._store.assignments))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), MONITOR_S)

    def _register(self, ports: Sequence[int]) -> None:
        pending = []
        for identity, port in zip(self._ids, ports, strict=True):
            slots = range(20_000, 20_000 + self._slots)
            presence = pb.Presence(
                id=identity, host="127.0.0.1", grpc_port=port, http_port=1, started_unix_s=time.time(), slots=slots
            )
            path = paths.presence(self._store.root, "supervisor", identity)
            pending.append(self._session.client.create_async(path, encode(presence), ephemeral=True))
        for one in pending:
            result(one, 60)

    def lose(self, identity: str) -> None:
        """End a machine: its presence goes, and its workers say nothing more."""
        self._lost.add(identity)
        for key in [key for key in self._workers if key[1] == identity]:
            self._workers.pop(key)[1].cancel()
        self._session.client.delete_async(paths.presence(self._store.root, "supervisor", identity))

    def _follow(self, assignments: Mapping[str, Any]) -> None:
        """Start and end workers, so that those run that are assigned to these machines."""
        mine = set(self._ids) - self._lost
        wanted: dict[Key, pb.WorkerAssignment] = {
            (topology_id, worker.supervisor_id, worker.port): worker
            for topology_id, stored in assignments.items()
            for worker in stored.value.workers
            if worker.supervisor_id in mine
        }
        for key in [key for key, (worker, _) in self._workers.items() if wanted.get(key) != worker]:
            self._workers.pop(key)[1].cancel()
        for key in wanted.keys() - self._workers.keys():
            self._workers[key] = wanted[key], asyncio.create_task(self._work(key, wanted[key]))

    async def _work(self, key: Key, worker: pb.WorkerAssignment) -> None:
        """One worker: announce it, and report each second."""
        topology_id, supervisor_id, port = key
        worker_id = f"{topology_id}-{supervisor_id}-{port}-{random.getrandbits(32):08x}"
        presence = pb.WorkerPresence(
            worker_id=worker_id, supervisor_id=supervisor_id, host="127.0.0.1", port=port, launched_unix_s=time.time()
        )
        async with self._writing:
            with contextlib.suppress(NotFoundError):
                await asyncio.to_thread(self._store.put_worker_presence, topology_id, presence)
        done = first_report(topology_id, worker_id, worker)
        stream: ReportStream | None = None
        began_s, address = time.monotonic(), ""
        try:
            while True:
                pause_s = REPORT_S
                done.uptime_s = time.monotonic() - began_s
                count(done, self._busy)
                report = rpc.WorkerReport()
                report.CopyFrom(done)
                try:
                    if stream is not None and address != self._leader:
                        await stream.close()
                        stream = None
                    if stream is None:
                        address = self._leader
                        stream = ReportStream(address)
                    pause_s = max(REPORT_S, await stream.report(report))
                except REPORT_ERRORS:
                    address = ""
                await asyncio.sleep(pause_s if done.uptime_s > REPORT_S else pause_s * random.random())
        finally:
            if stream is not None:
                await stream.close()


def first_report(topology_id: str, worker_id: str, worker: pb.WorkerAssignment) -> rpc.WorkerReport:
    """Return the report of a worker whose tasks have a stream, an input and latencies, as in a word count."""
    report = rpc.WorkerReport(
        topology_id=topology_id,
        worker_id=worker_id,
        supervisor_id=worker.supervisor_id,
        host=worker.host,
        port=worker.port,
        pid=1,
        ready=True,
        http_port=1,
    )
    for executor in worker.executors:
        for task_id in range(executor.first_task, executor.last_task + 1):
            stats = report.tasks.add(task_id=task_id, component_id="count" if task_id > 1 else "words")
            stats.streams.add(stream="default")
            stats.inputs.add(source_component="words", stream="default")
            stats.process_buckets.extend([0] * 20)
    return report


def count(report: rpc.WorkerReport, busy: float) -> None:
    """Let a second pass: a share ``busy`` of the tasks has processed tuples."""
    for stats in report.tasks[: round(busy * len(report.tasks))]:
        stats.executed += 1000
        stats.acked += 1000
        stats.execute_s += 0.5
        stats.process_s_sum += 0.25
        stats.process_samples += 50
        stats.process_buckets[7] += 40
        stats.process_buckets[9] += 10
        stats.streams[0].emitted += 1000
        stats.streams[0].transferred += 1000
        one = stats.inputs[0]
        one.executed, one.acked, one.execute_s = stats.executed, stats.acked, stats.execute_s


async def main(given: Mapping[str, Any]) -> None:
    """Play the machines until standard input ends."""
    session = await ZooKeeperSession.open({**defaults(), **given["conf"]})
    machines = Machines(session, given)
    playing = asyncio.create_task(machines.run())
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode().split():
        if line[0] == "lose":
            machines.lose(line[1])
    playing.cancel()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
