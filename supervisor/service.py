"""The supervisor's gRPC service: translate and delegate."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tupletree._address import address_of
from tupletree._log import event
from tupletree.errors import ForbiddenError, NotFoundError, UnavailableError
from tupletree.v1 import supervisor_pb2 as pb
from tupletree.v1 import supervisor_pb2_grpc

from .fencing import OPERATOR, EpochFence
from .local_assignment import LocalAssignment
from .logs.files import check_name, files_of, list_files, ports_in, topology_directory
from .logs.search import DEFAULT_MATCHES, Match, Query, matcher, search
from .logs.search import End as SearchEnd
from .logs.tail import Start, tail
from .memory_dumps import FORMAT as MEMORY
from .memory_dumps import dump_memory
from .profiler import DEFAULT_PER_SECOND, Profiler
from .slot import Empty, Running, Slot, live_worker, state_name
from .slot_events import WorkerBeat
from .slot_queries import knows
from .slots import Slots, log

MAX_SEARCHES: Final = 2  # running at the same time; further searches wait
MAX_READERS: Final = 200  # log readers at the same time; each polls an open file
END: Final = object()


class SupervisorService(supervisor_pb2_grpc.SupervisorServicer):
    """One method per RPC of proto/tupletree/v1/supervisor.proto.

    Must not be served before the workers of an earlier supervisor process are adopted, because an unknown worker is
    told to exit. ``host``: the name by which this machine's workers are called.
    """

    def __init__(
        self, supervisor_id: str, host: str, slots: Slots, epoch: EpochFence, wake: Callable[[], None], logs_dir: str
    ) -> None:
        self._supervisor_id = supervisor_id
        self._host = host
        self._slots = slots
        self._epoch = epoch
        self._wake = wake
        self._logs_dir = Path(logs_dir)
        self._searches = asyncio.Semaphore(MAX_SEARCHES)
        self._readers = 0
        self._profiler = Profiler()

    async def Wake(self, request: pb.WakeRequest, context: Any) -> pb.WakeReply:
        self._epoch.admit(request.epoch)
        self._wake()
        return pb.WakeReply()

    async def Beat(self, request: pb.BeatRequest, context: Any) -> pb.BeatReply:
        self._check_topology(request)
        known = self._slots.beat(WorkerBeat(request.worker_id, request.ready, request.http_port))
        if not known:
            event(log, "worker.unknown", worker=request.worker_id, topology=request.topology_id, pid=request.pid)
        return pb.BeatReply(stop=not known, pid=os.getpid())

    async def ListSlots(self, request: pb.ListSlotsRequest, context: Any) -> pb.ListSlotsReply:
        return pb.ListSlotsReply(supervisor_id=self._supervisor_id, slots=[summarize(slot) for slot in self._slots])

    async def TailLog(self, request: pb.TailLogRequest, context: Any) -> AsyncIterator[pb.TailLogReply]:
        directory, name = self._log_dir(request.topology_id, request.port), check_name(request.file)
        start = Start(request.last_bytes, request.offset, request.file_id)
        if self._readers >= MAX_READERS:
            raise UnavailableError(f"{MAX_READERS} logs are being read here already; try again later")
        self._readers += 1
        try:
            async for piece in tail(directory, start, request.follow, name):
                yield pb.TailLogReply(offset=piece.offset, data=piece.data, file_id=piece.file_id)
        finally:
            self._readers -= 1

    async def ListLogs(self, request: pb.ListLogsRequest, context: Any) -> pb.ListLogsReply:
        return await asyncio.to_thread(self._list_logs, request.topology_id, request.port)

    def _list_logs(self, topology_id: str, port: int) -> pb.ListLogsReply:
        directory = topology_directory(self._logs_dir, topology_id)
        ports = [port] if port else ports_in(directory)
        found = [file for one in ports for file in list_files(directory / str(one), one)]
        return pb.ListLogsReply(
            files=[
                pb.LogFile(port=file.port, name=file.name, size=file.size, modified_unix_s=file.modified_unix_s)
                for file in found
            ]
        )

    async def SearchLog(self, request: pb.SearchLogRequest, context: Any) -> AsyncIterator[pb.SearchLogReply]:
        directory, name = self._log_dir(request.topology_id, request.port), check_name(request.file)
        query = Query(
            request.pattern,
            request.is_regex,
            request.ignore_case,
            request.max_matches or DEFAULT_MATCHES,
            request.before,
            request.after,
            request.offset,
        )
        files = files_of(directory, name)
        if not files:
            raise NotFoundError(f"there is no {name} in {directory}")
        if request.HasField("offset"):
            files = files[-1:]  # without the rotated ones
        async with self._searches:
            found = search(files, query, await asyncio.to_thread(matcher, query))
        while (one := await self._searched(found)) is not END:
            match one:
                case Match():
                    yield pb.SearchLogReply(match=pb.LogMatch(**asdict(one)))
                case SearchEnd():
                    yield pb.SearchLogReply(end=pb.SearchEnd(**asdict(one)))

    async def _searched(self, found: Iterator[Any]) -> Any:
        """Return the next result of a search, or END. A client that is slow to read results blocks no other search."""
        async with self._searches:
            return await asyncio.to_thread(next, found, END)

    async def ProfileWorker(
        self, request: pb.ProfileWorkerRequest, context: Any
    ) -> AsyncIterator[pb.ProfileWorkerReply]:
        pid = self._pid_of(request.topology_id, request.port)
        directory = self._log_dir(request.topology_id, request.port)
        if request.format == MEMORY:
            path = await dump_memory(request.topology_id, address_of(self._host, request.port), directory)
        else:
            format, per_second = request.format or "flamegraph", request.per_second or DEFAULT_PER_SECOND
            path = await self._profiler.profile(pid, directory, request.seconds, format, per_second)
        event(log, "worker.profiled", slot=request.port, topology=request.topology_id, pid=pid, file=path.name)
        yield pb.ProfileWorkerReply(file=path.name)
        async for piece in tail(directory, Start(), False, path.name):
            yield pb.ProfileWorkerReply(data=piece.data)

    async def DumpStacks(self, request: pb.DumpStacksRequest, context: Any) -> pb.DumpStacksReply:
        return pb.DumpStacksReply(text=await self._profiler.stacks(self._pid_of(request.topology_id, request.port)))

    async def RestartWorker(self, request: pb.RestartWorkerRequest, context: Any) -> pb.RestartWorkerReply:
        if request.epoch != OPERATOR:
            self._epoch.admit(request.epoch)
        self._slots.restart(request.port, request.topology_id)
        return pb.RestartWorkerReply()

    def _check_topology(self, request: pb.BeatRequest) -> None:
        """Reject a heartbeat for another topology's worker: the caller is authorized for one topology only."""
        works = [work_of(slot) for slot in self._slots if knows(slot, request.worker_id)]
        if any(work is not None and work.topology_id != request.topology_id for work in works):
            raise ForbiddenError(f"worker {request.worker_id} does not belong to topology {request.topology_id}")

    def _log_dir(self, topology_id: str, port: int) -> Path:
        return topology_directory(self._logs_dir, topology_id) / str(port)

    def _pid_of(self, topology_id: str, port: int) -> int:
        """Return the pid of a topology's worker in a slot. Raises NotFoundError."""
        for slot in self._slots:
            worker, work = live_worker(slot), work_of(slot)
            if slot.port == port and worker is not None and work is not None and work.topology_id == topology_id:
                return worker.pid
        raise NotFoundError(f"no worker of {topology_id[:200]} runs on port {port} of this supervisor")


def work_of(slot: Slot) -> LocalAssignment | None:
    """Return the work that the slot is busy with; None if the slot is empty."""
    return None if isinstance(slot.state, Empty) else slot.state.work


def summarize(slot: Slot) -> pb.SlotSummary:
    """Summarize a slot for ListSlots."""
    state, worker, work = slot.state, live_worker(slot), work_of(slot)
    return pb.SlotSummary(
        port=slot.port,
        state=state_name(slot),
        topology_id="" if work is None else work.topology_id,
        worker_id="" if worker is None else worker.worker_id,
        pid=0 if worker is None else worker.pid,
        http_port=state.http_port if isinstance(state, Running) else 0,
        launches=slot.launches,
        last_exit=slot.last_exit,
        deaths=slot.deaths,
        misses=slot.misses,
    )
