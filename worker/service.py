"""The worker's gRPC service: the receiving side of Worker.Transfer, and questions about states and their changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tupletree.errors import ConflictError, NotFoundError, ProtocolError
from tupletree.v1 import worker_pb2, worker_pb2_grpc

from .checkpoint.holding import Holding
from .checkpoint.state_reads import StateReads
from .checkpoint.state_sizes import StateSizes
from .checkpoint.state_writes import StateWrites
from .core.batches import EncodedBatch
from .debugging.memory_dumps import MemoryDumps
from .engine import Engine
from .network.fragments import Reassembly

CONFIRM_INTERVAL_S, MAX_CONFIRM_INTERVAL_S = 0.05, 0.5
CONFIRM_BYTES = 2 * 1024 * 1024
"""Each confirmation costs a message. A confirmation is delayed by at most the interval for each sending worker, or
until this many bytes are unconfirmed. So a worker sends 20 a second, however many others send to it, but at least 2 to
each."""


@dataclass(slots=True, eq=False)
class Sender:
    """The stream from one sending worker: the last frame received, and the bytes received since the last status.

    ``told_free_s``: the time by task until which the last status says that it is loaded.
    """

    pieces: Reassembly
    confirmed: int = 0
    untold_bytes: int = 0
    told_free_s: Mapping[int, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # a status is due, now or later
    is_urgent: asyncio.Event = field(default_factory=asyncio.Event)

    def send_now(self) -> None:
        """Send the next status immediately."""
        self.changed.set()
        self.is_urgent.set()


class WorkerService(worker_pb2_grpc.WorkerServicer):
    """Receiver of tuples from the other workers of the topology.

    ``opened`` is set when this worker's bolts are prepared; until then senders wait.
    ``on_shard_version`` is called with the shard version of each frame before the frame's tuples are executed.
    """

    def __init__(
        self,
        engine: Engine,
        topology_id: str,
        worker_id: str,
        opened: asyncio.Event,
        on_shard_version: Callable[[int], None],
    ) -> None:
        self._engine = engine
        self._topology_id = topology_id
        self._worker_id = worker_id
        self._opened = opened
        self._on_shard_version = on_shard_version
        self._senders: set[Sender] = set()
        tasks = [task for executor in engine.executors for task in executor.tasks]
        self.state_reads = StateReads(topology_id, tasks, engine.fields_groupings)
        self._writes = StateWrites(topology_id, tasks, engine.fields_groupings)
        self.state_sizes = StateSizes(topology_id, tasks)
        self._holding = Holding(topology_id, tasks)
        self._memory = MemoryDumps(topology_id, worker_id)

    def congestion_changed(self) -> None:
        """Send the current congested tasks to every sender."""
        for sender in self._senders:
            sender.send_now()

    def loads_sampled(self) -> None:
        """Send a status, in the usual interval, to the senders that were told of a load which has ended early.

        They give the task nothing, so there may be nothing to confirm.
        """
        for sender in self._senders:
            if sender.told_free_s and self._engine.is_free_early(sender.told_free_s):
                sender.changed.set()

    async def Transfer(
        self, requests: AsyncIterator[worker_pb2.TransferRequest], context: Any
    ) -> AsyncIterator[worker_pb2.TransferStatus]:
        self._check_hello(await anext(requests, None))
        await self._opened.wait()
        loop = asyncio.get_running_loop()
        sender = Sender(Reassembly(self._engine.max_bytes))
        self._senders.add(sender)
        reader = asyncio.create_task(self._read(requests, sender))
        reader.add_done_callback(lambda _: sender.send_now())
        try:
            while not reader.done():
                sender.changed.clear()
                sender.is_urgent.clear()
                sender.untold_bytes = 0
                yield self._status(sender)
                await sender.changed.wait()
                delay_s = min(CONFIRM_INTERVAL_S * len(self._senders), MAX_CONFIRM_INTERVAL_S)
                timer = loop.call_later(delay_s, sender.is_urgent.set)
                await sender.is_urgent.wait()
                timer.cancel()
            reader.result()
        finally:
            self._senders.discard(sender)
            reader.cancel()

    def _status(self, sender: Sender) -> worker_pb2.TransferStatus:
        loads = [worker_pb2.TaskLoad(tasks=tasks, wait_ms=wait_ms) for tasks, wait_ms in self._engine.loads]
        congested = self._engine.congested_tasks
        sender.told_free_s = self._engine.free_s
        return worker_pb2.TransferStatus(confirmed=sender.confirmed, congested=congested, loads=loads)

    async def ReadState(
        self, request: worker_pb2.ReadTaskStatesRequest, context: Any
    ) -> worker_pb2.ReadTaskStatesReply:
        return await self.state_reads.read(request)

    async def WriteState(
        self, request: worker_pb2.WriteTaskStatesRequest, context: Any
    ) -> worker_pb2.WriteTaskStatesReply:
        return await self._writes.write(request)

    async def MeasureStates(
        self, request: worker_pb2.MeasureTaskStatesRequest, context: Any
    ) -> worker_pb2.MeasureTaskStatesReply:
        return await self.state_sizes.measure(request)

    async def HoldCheckpoints(
        self, request: worker_pb2.HoldTaskCheckpointsRequest, context: Any
    ) -> worker_pb2.HoldTaskCheckpointsReply:
        return await self._holding.hold(request)

    async def DumpMemory(self, request: worker_pb2.DumpMemoryRequest, context: Any) -> worker_pb2.DumpMemoryReply:
        if request.topology_id != self._topology_id:
            raise NotFoundError(f"this is a worker of topology {self._topology_id}, not of {request.topology_id[:200]}")
        return worker_pb2.DumpMemoryReply(text=await self._memory.text())

    async def _read(self, requests: AsyncIterator[worker_pb2.TransferRequest], sender: Sender) -> None:
        """Receive frames until the sender ends the stream. Raises ProtocolError at the first invalid frame."""
        async for request in requests:
            self._receive(request, sender)

    def _check_hello(self, request: worker_pb2.TransferRequest | None) -> None:
        if request is None or request.WhichOneof("kind") != "hello":
            raise ProtocolError("a stream of tuples must begin with a hello")
        hello = request.hello
        if (hello.topology_id, hello.to_worker_id) != (self._topology_id, self._worker_id):
            raise ConflictError(
                f"this is worker {self._worker_id} of topology {self._topology_id}, "
                f"not {hello.to_worker_id} of {hello.topology_id}"
            )

    def _receive(self, request: worker_pb2.TransferRequest, sender: Sender) -> None:
        if request.WhichOneof("kind") != "frame":
            raise ProtocolError("a stream of tuples must contain only frames after its hello")
        frame = request.frame
        if frame.sequence != sender.confirmed + 1:
            raise ProtocolError(f"received frame {frame.sequence}, expected frame {sender.confirmed + 1}")
        self._on_shard_version(frame.shard_version)
        if frame.HasField("piece"):
            self._receive_fragment(frame, sender)
        elif sender.pieces.is_open:
            raise ProtocolError(f"frame {frame.sequence} has no piece, but the batch before is incomplete")
        for batch in frame.batches:
            sender.untold_bytes += self._engine.receive(EncodedBatch.of(batch))
        sender.confirmed = frame.sequence
        sender.changed.set()
        if sender.untold_bytes > CONFIRM_BYTES:
            sender.send_now()

    def _receive_fragment(self, frame: worker_pb2.Frame, sender: Sender) -> None:
        if frame.batches:
            raise ProtocolError(f"frame {frame.sequence} holds both batches and a piece")
        sender.untold_bytes += len(frame.piece.data)
        batch = sender.pieces.add(frame.piece)
        if batch is not None:
            self._engine.receive(batch)
