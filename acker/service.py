"""The Acker service: translates between messages and the registry. proto/tupletree/v1/acker.proto has the sequences.

Everything runs in one asyncio loop. A big message is applied in parts with a pause for others after each, so health and
other streams are served while millions of updates come in.
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
_PART = 8_192  # updates of one kind applied without a pause: one or two milliseconds
_MAX_HELD, _MAX_HELD_SHARE = 100_000, 20  # inits of a stream that wait: so many, or this part of the limit


class AckerService(acker_pb2_grpc.AckerServicer):
    """Serves one acker's registry to its workers."""

    def __init__(
        self,
        acker_id: str,
        registry: Registry,
        admission: Admission,
        readiness: Readiness,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.acker_id = acker_id
        self.draining = False
        self.failed = asyncio.Event()
        """Set when a ledger may be wrong: ``failure`` says why, and the process is to end."""
        self.failure: BaseException | None = None
        self._registry = registry
        self._admission = admission
        self._readiness = readiness
        self._clock = clock
        self._streams: dict[int, TrackStream] = {}
        self._was_full = False
        self.work = WorkCounters()

    @property
    def streams(self) -> int:
        """Workers connected."""
        return len(self._streams)

    async def Track(self, request_iterator: Any, context: Any) -> AsyncIterator[pb.TrackReply]:
        requests = aiter(request_iterator)
        stream = await self._open(requests)
        holding = self._holding(stream)
        tasks = asyncio.create_task(self._read(stream, requests, holding)), asyncio.create_task(holding.keep())
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
            holding.close()
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
        """The message timeout of each topology, by id; 0 for none."""
        return {id: topology.timeout_s for id, topology in self._registry.topologies.items()}

    def describe(self) -> pb.DescribeLedgerReply:
        """One summary for each shard served, ordered by topology and shard."""
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
        """Hand verdicts to the streams they go to."""
        for number, verdicts in addressed:
            self._streams[number].put(verdicts)

    def recount(self) -> None:
        """Call after ledgers changed by themselves: lets waiting streams go on, and says whether there is room."""
        for topology_id in self._registry.topologies:
            self._count_entries(topology_id)
        self._say_whether_full()

    def forget(self, topology_id: str) -> None:
        """The registry has forgotten a topology."""
        self._admission.forget(topology_id)

    def _count_entries(self, topology_id: str) -> None:
        topology = self._registry.topologies.get(topology_id)
        if topology is not None:
            entries = topology.entries
            self._admission.set_entries(topology_id, entries, entries - topology.trees)

    def _say_whether_full(self) -> None:
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
        """Roots whose verdicts wait for a worker to take them."""
        return sum(stream.waiting for stream in self._streams.values())

    def end_streams(self, error: Exception | None) -> None:
        """End every stream: properly, after its last verdicts, or with an error at once."""
        for stream in self._streams.values():
            stream.end(error)

    async def _open(self, requests: AsyncIterator[pb.TrackRequest]) -> TrackStream:
        try:
            hello = check_hello(await asyncio.wait_for(anext(requests), HELLO_TIMEOUT_S))
        except StopAsyncIteration:
            raise ProtocolError("a Track stream begins with a hello") from None
        except TimeoutError:
            raise ProtocolError(f"no hello within {HELLO_TIMEOUT_S:g} s") from None
        stream = TrackStream(hello)
        stream.number = self._registry.open(hello, self._clock())
        self._streams[stream.number] = stream
        self.work.streams_opened += 1
        event(
            logger,
            "stream.opened",
            topology=hello.topology_id,
            worker=hello.worker_id,
            spouts=len(hello.spout_tasks),
            timeout_s=hello.timeout_s,
        )
        return stream

    def _close(self, stream: TrackStream) -> None:
        self._registry.close(stream.number, self._clock())
        self._streams.pop(stream.number, None)
        event(logger, "stream.closed", topology=stream.hello.topology_id, worker=stream.hello.worker_id)

    def _holding(self, stream: TrackStream) -> HeldInits:
        def apply(inits: Batch) -> None:
            self._apply_part(stream, inits)
            self._say_whether_full()

        def finish(message: Message) -> None:
            self._registry.report_version(stream.number, message.shard_version)
            stream.confirm(message.sequence)
            stream.hold(is_held=bool(holding))

        most = max(_MAX_HELD, self._admission.limit // _MAX_HELD_SHARE)
        holding = HeldInits(self._admission, stream.hello.topology_id, most, apply, finish)
        return holding

    async def _read(self, stream: TrackStream, requests: AsyncIterator[pb.TrackRequest], holding: HeldInits) -> None:
        """Apply what the worker sends until it has no more to say, and what has to wait for room has been applied."""
        sequence = 0
        async for request in requests:
            sequence += 1
            await self._apply(stream, request, sequence, holding)
            stream.hold(is_held=bool(holding))
            await holding.room()
        await holding.emptied()

    def _read_ended(self, stream: TrackStream, task: asyncio.Task[None]) -> None:
        """A stream ends as its reading did: properly, or with the error, of which the worker is told.

        An error that no message can be blamed for, such as a lack of memory, may have left a ledger half changed. The
        process is to end then: with a new one, its trees fail and are replayed; a ledger that is wrong would lie.
        """
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, ProtocolError):
            hello = stream.hello
            context = {"topology": hello.topology_id, "worker": hello.worker_id, "cause": error}
            event(logger, "stream.refused", level=logging.WARNING, **context)
        stream.end(error)

    async def _apply(self, stream: TrackStream, request: pb.TrackRequest, sequence: int, holding: HeldInits) -> None:
        """Apply a message, but for those of its inits that there is no room for."""
        topology_id = stream.hello.topology_id
        batches = check_updates(request, stream.hello, sequence)
        await self._admission.readable(topology_id)
        held: list[Batch] = []
        for batch in batches:
            for number, part in enumerate(batch.parts(_PART)):
                if number:
                    await asyncio.sleep(0)
                if not part.init_roots or (not (holding or held) and self._admission.admits(topology_id)):
                    self._apply_part(stream, part)
                    continue
                self._apply_part(stream, part.others())  # they may make the room
                held.append(part.inits())
        self.work.count(batches)
        stream.look(*self._registry.flow(stream.number), self._clock())
        holding.take(Message(sequence, request.updates.shard_version, held))
        self._say_whether_full()

    def _apply_part(self, stream: TrackStream, part: Batch) -> None:
        began_s = self._clock()
        try:
            self.deliver(self._registry.apply(stream.number, part, began_s))
        except Exception as error:
            self._fail(error)
            raise
        self._count_entries(stream.hello.topology_id)
        self.work.apply_s.observe(self._clock() - began_s)

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            self._readiness.set("ledger", f"updates could not be applied: {type(error).__name__}")
            event(logger, "ledger.failed", level=logging.CRITICAL, cause=f"{type(error).__name__}: {error}")
            self.failed.set()
