"""The supervisor's gRPC service: translate and delegate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from tupletree._daemon.logs import event
from tupletree.errors import NotFoundError
from tupletree.v1 import supervisor_pb2 as pb
from tupletree.v1 import supervisor_pb2_grpc

from .authority import OPERATOR, NewestEpoch
from .events import WorkerBeat
from .logtail import tail
from .slot import Running, Slot, live_worker, state_name
from .slots import Slots, log


class SupervisorService(supervisor_pb2_grpc.SupervisorServicer):
    """One method for each RPC of proto/tupletree/v1/supervisor.proto.

    Not to be served before the workers of an earlier supervisor process are adopted: a worker that is not known is
    told to end.
    """

    def __init__(
        self, supervisor_id: str, slots: Slots, epoch: NewestEpoch, wake: Callable[[], None], logs_dir: str
    ) -> None:
        self._supervisor_id = supervisor_id
        self._slots = slots
        self._epoch = epoch
        self._wake = wake
        self._logs_dir = Path(logs_dir)

    async def Wake(self, request: pb.WakeRequest, context: Any) -> pb.WakeReply:
        self._epoch.admit(request.epoch)
        self._wake()
        return pb.WakeReply()

    async def Beat(self, request: pb.BeatRequest, context: Any) -> pb.BeatReply:
        known = self._slots.beat(WorkerBeat(request.worker_id, request.ready, request.http_port))
        if not known:
            event(log, "worker.unknown", worker=request.worker_id, topology=request.topology_id, pid=request.pid)
        return pb.BeatReply(stop=not known)

    async def ListSlots(self, request: pb.ListSlotsRequest, context: Any) -> pb.ListSlotsReply:
        return pb.ListSlotsReply(supervisor_id=self._supervisor_id, slots=[summarize(slot) for slot in self._slots])

    async def TailLog(self, request: pb.TailLogRequest, context: Any) -> AsyncIterator[pb.TailLogReply]:
        directory = self._log_dir(request.topology_id, request.port)
        async for offset, data in tail(directory, request.last_bytes, request.offset, request.follow):
            yield pb.TailLogReply(offset=offset, data=data)

    async def RestartWorker(self, request: pb.RestartWorkerRequest, context: Any) -> pb.RestartWorkerReply:
        if request.epoch != OPERATOR:
            self._epoch.admit(request.epoch)
        self._slots.restart(request.port)
        return pb.RestartWorkerReply()

    def _log_dir(self, topology_id: str, port: int) -> Path:
        if "/" in topology_id or "\0" in topology_id or topology_id in ("", ".", ".."):
            raise NotFoundError(f"{topology_id!r} is no topology id")
        return self._logs_dir / topology_id / str(port)


def summarize(slot: Slot) -> pb.SlotSummary:
    """A slot as ListSlots shows it."""
    state, worker = slot.state, live_worker(slot)
    work = getattr(state, "work", None)
    return pb.SlotSummary(
        port=slot.port,
        state=state_name(slot),
        topology_id="" if work is None else work.topology_id,
        worker_id="" if worker is None else worker.worker_id,
        pid=0 if worker is None else worker.pid,
        http_port=state.http_port if isinstance(state, Running) else 0,
        launches=slot.launches,
        last_exit=slot.last_exit,
    )
