"""The Acker gRPC service: translates between messages and the registry. For the protocol see acker.proto.

Everything runs in one asyncio loop. A large message is applied in parts and yields to the loop between them, so health
checks and other streams are served while millions of updates arrive.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from tupletree._daemon.health import Readiness
from tupletree._log import event
from tupletree.errors import NotFoundError, ProtocolError
from tupletree.v1 import acker_pb2 as pb
from tupletree.v1 import acker_pb2_grpc

from .admission import Admission
from .held_inits import HeldInits, Message
from .ledger import Verdicts
from .registry import Registry
from .track_stream import TrackStream
from .updates import Batch, check_hello, check_updates
from .work_counters import WorkCounters

logger = logging.getLogger(__name__)

HELLO_TIMEOUT_S = 10.0
_PART = 8_192  # updates of one kind applied without yielding: one or two milliseconds
_MAX_HELD, _MAX_HELD_SHARE = 100_000, 20  # most inits held per stream: 100,000, or limit / 20 if more


class AckerService(acker_pb2_grpc.AckerServicer):
    """Serves one acker's registry to its workers.

    ``fail`` gets the error that can have left a ledger inconsistent. The process must then exit.
    """

    def __init__(
        self,
        acker_id: str,
        registry: Registry,
        admission: Admission,
        readiness: Readiness,
        fail: Callable[[BaseException], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.acker_id = acker_id
        self.draining = False
        self._registry = registry
        self._admission = admission
        self._readiness = readiness
        self._fail = fail
        self._clock = clock
        self._streams: dict[int, TrackStream] = {}
        self._was_full = False
        self.work = WorkCounters()

    @property
    def streams(self) -> int:
        """Number of connected workers."""
        return len(self._streams)

    async def Track(self, request_iterator: Any, context: Any) -> AsyncIterator[pb.TrackReply]:
        requests = aiter(request_iterator)
        stream = await self._open(requests)
        held = self._held_inits(stream)
        tasks = asyncio.create_task(self._read(stream, requests, held)), asyncio.create_task(held.apply_forever())
        for task in tasks:
            task.add_done_callback(lambda done: self._read_ended(stream, done))
        try:
            yield pb.TrackReply(acker_id=self.acker_id)
            while (reply := await stream.next_reply()) is not None:
                yield reply
            yield pb.TrackReply(drained=True)
        finally:
            for task in tasks:
                task.cancel()
            held.close()
            self._close(stream)

    async def DescribeLedger(self, request: pb.DescribeLedgerRequest, context: Any) -> pb.DescribeLedgerReply:
        return self.describe()

    async def DropTopology(self, request: pb.DropTopologyRequest, context: Any) -> pb.DropTopologyReply:
        ended = self._registry.drop(request.epoch, request.topology_id)
        for number in ended:
            self._streams[number].end(NotFoundError(f"topology {request.topology_id} was removed"))
        self._admission.forget(request.topology_id)
        self.recount()
        event(logger, "topology.dropped", topology=request.topology_id, epoch=request.epoch, streams=len(ended))
        return pb.DropTopologyReply()

    def timeouts_s(self) -> dict[str, float]:
        """Return the message timeout of each topology, by id; 0 if there is none."""
        return {id: topology.timeout_s for id, topology in self._registry.topologies.items()}

    def describe(self) -> pb.DescribeLedgerReply:
        """Return one summary per shard served, ordered by topology and shard."""
        now_s = self._clock()
        reply = pb.DescribeLedgerReply(
            acker_id=self.acker_id,
            draining=self.draining,
            ready=self._readiness.ready,
            reasons=self._readiness.reasons,
        )
        for topology_id, topology in sorted(self._registry.topologies.items()):
            for shard, ledger in sorted(topology.ledgers.items()):
                totals = ledger.totals
                reply.shards.add(
                    topology_id=topology_id,
                    shard=shard,
                    pending=ledger.trees,
                    oldest_age_s=ledger.oldest_age_s(now_s),
                    inits=totals.inits,
                    acks=totals.acks,
                    fails=totals.fails,
                    resets=totals.resets,
                    timeouts=totals.timeouts,
                    completed=totals.completed,
                    bytes_held=ledger.bytes_held,
                )
        return reply

    def deliver(self, addressed: Iterable[tuple[int, Verdicts]]) -> None:
        """Pass verdicts to the streams that receive them."""
        for number, verdicts in addressed:
            self._streams[number].put(verdicts)

    def recount(self) -> None:
        """Update admission and readiness after a change to the ledgers that no stream made, such as a rotation."""
        for topology_id in self._registry.topologies:
            self._update_admission(topology_id)
        self._report_fullness()

    def forget(self, topology_id: str) -> None:
        """Remove a topology that the registry has forgotten from admission control."""
        self._admission.forget(topology_id)

    def _update_admission(self, topology_id: str) -> None:
        topology = self._registry.topologies.get(topology_id)
        if topology is not None:
            entries = topology.entries
            self._admission.set_entries(topology_id, entries, entries - topology.trees)

    def _report_fullness(self) -> None:
        admission = self._admission
        full = f"{admission.entries} entries are held, the limit is {admission.limit}" if admission.full else None
        if admission.full != self._was_full:
            self._was_full = admission.full
            self._readiness.set("ledger", full)
            event(
                logger, "ledger.full" if full else "ledger.has_room", entries=admission.entries, limit=admission.limit
            )

    @property
    def undelivered(self) -> int:
        """Number of roots whose verdicts are not yet sent to a worker."""
        return sum(stream.waiting for stream in self._streams.values())

    def end_streams(self, error: Exception | None) -> None:
        """End every stream: without an error after its last verdicts, or at once with ``error``."""
        for stream in self._streams.values():
            stream.end(error)

    async def _open(self, requests: AsyncIterator[pb.TrackRequest]) -> TrackStream:
        try:
            hello = check_hello(await asyncio.wait_for(anext(requests), HELLO_TIMEOUT_S))
        except StopAsyncIteration:
            raise ProtocolError("a Track stream begins with a hello") from None
        except TimeoutError:
            raise ProtocolError(f"a Track stream sent no hello within {HELLO_TIMEOUT_S:g} s") from None
        stream = TrackStream(hello, self._registry.open(hello, self._clock()))
        self._streams[stream.number] = stream
        self.work.streams_opened += 1
        event(
            logger,
            "stream.opened",
            topology=hello.topology_id,
            worker=hello.worker_id,
            tasks=len(hello.tasks),
            timeout_s=hello.timeout_s,
        )
        return stream

    def _close(self, stream: TrackStream) -> None:
        self._registry.close(stream.number, self._clock())
        self._streams.pop(stream.number, None)
        event(logger, "stream.closed", topology=stream.hello.topology_id, worker=stream.hello.worker_id)

    def _held_inits(self, stream: TrackStream) -> HeldInits:
        def apply(inits: Batch) -> None:
            self._apply_part(stream, inits)
            self._report_fullness()

        def finish(message: Message, is_held: bool) -> None:
            self._registry.report_version(stream.number, message.shard_version)
            stream.confirm(message.sequence)
            stream.set_held(is_held=is_held)

        max_roots = max(_MAX_HELD, self._admission.limit // _MAX_HELD_SHARE)
        return HeldInits(self._admission, stream.hello.topology_id, max_roots, apply, finish)

    async def _read(self, stream: TrackStream, requests: AsyncIterator[pb.TrackRequest], held: HeldInits) -> None:
        """Apply a worker's messages until its side of the stream ends and all held inits are applied."""
        sequence = 0
        async for request in requests:
            sequence += 1
            await self._apply(stream, request, sequence, held)
            stream.set_held(is_held=bool(held))
            await held.wait_for_room()
        await held.wait_until_empty()

    def _read_ended(self, stream: TrackStream, task: asyncio.Task[None]) -> None:
        """End a stream as its reading ended: without an error, or with an error that is sent to the worker.

        An error that no message caused, such as a lack of memory, can leave a ledger half changed. The process must
        then exit: its trees fail and are replayed, whereas a wrong ledger gives wrong verdicts.
        """
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, ProtocolError):
            hello = stream.hello
            context = {"topology": hello.topology_id, "worker": hello.worker_id, "cause": error}
            event(logger, "stream.refused", level=logging.WARNING, **context)
        stream.end(error)

    async def _apply(self, stream: TrackStream, request: pb.TrackRequest, sequence: int, held: HeldInits) -> None:
        """Apply a message except for the inits that must wait for room."""
        topology_id = stream.hello.topology_id
        batches = check_updates(request, stream.hello, sequence)
        await self._admission.wait_until_readable(topology_id)
        waiting: list[Batch] = []
        for batch in batches:
            for number, part in enumerate(batch.parts(_PART)):
                if number:
                    await asyncio.sleep(0)
                if not part.init_roots or (not (held or waiting) and self._admission.admits(topology_id)):
                    self._apply_part(stream, part)
                    continue
                self._apply_part(stream, part.others())  # these can free entries
                waiting.append(part.inits())
        self.work.count(batches)
        stream.update_linger(*self._registry.flow(stream.number), self._clock())
        held.enqueue(Message(sequence, request.updates.shard_version, waiting))
        self._report_fullness()

    def _apply_part(self, stream: TrackStream, part: Batch) -> None:
        began_s = self._clock()
        try:
            self.deliver(self._registry.apply(stream.number, part, began_s))
        except Exception as error:
            self._readiness.set("ledger", f"updates could not be applied: {type(error).__name__}")
            event(logger, "ledger.failed", level=logging.CRITICAL, cause=f"{type(error).__name__}: {error}")
            self._fail(error)
            raise
        self._update_admission(stream.hello.topology_id)
        self.work.apply_s.observe(self._clock() - began_s)
