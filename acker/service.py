"""The Acker gRPC service: translates between messages and the registry. For the protocol see acker.proto.

Everything runs in one asyncio loop. A large message is applied in parts and yields to the loop between them, so health
checks and other streams are served while millions of updates arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from tupletree._daemon.health import Readiness
from tupletree._log import event
from tupletree._security.current import current
from tupletree._security.guard import caller
from tupletree._security.rights import is_admin
from tupletree._wire.packed import pack_u32
from tupletree.errors import ForbiddenError, NotFoundError, ProtocolError
from tupletree.v1 import acker_pb2 as pb
from tupletree.v1 import acker_pb2_grpc

from .admission import Admission
from .held_inits import HeldInits, Message
from .ledger import Totals, Verdicts
from .namespaces import Namespace, Quota
from .registry import Registry
from .track_stream import TrackStream
from .updates import MAX_NAME, Batch, Hello, check_hello, check_updates
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
        namespaces: Mapping[str, Namespace] | None = None,
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
        self._quotas = {name: Quota(namespace) for name, namespace in (namespaces or {}).items()}
        self._clients = itertools.count(1)
        self._was_full = False
        self.work = WorkCounters()

    @property
    def streams(self) -> int:
        """Number of connected workers."""
        return len(self._streams)

    async def Track(self, request_iterator: Any, context: Any) -> AsyncIterator[pb.TrackReply]:
        requests = aiter(request_iterator)
        stream = self._opened(check_hello(await _first(requests)), None)
        async with contextlib.aclosing(self._serve(stream, requests, pb.TrackReply(acker_id=self.acker_id))) as replies:
            async for reply in replies:
                yield reply

    async def TrackTrees(self, request_iterator: Any, context: Any) -> AsyncIterator[pb.TrackReply]:
        requests = aiter(request_iterator)
        quota, client_id = self._admitted(await _first(requests))
        namespace = quota.namespace
        task = next(self._clients)  # verdicts go to the stream that has begun the tree, and to no later one
        hello = Hello(namespace.topology_id, client_id, frozenset([task]), namespace.timeout_s, 1)
        welcome = pb.TreesWelcome(
            max_open_trees=namespace.max_open_trees,
            max_updates_per_s=namespace.max_updates_per_s,
            timeout_s=namespace.timeout_s,
        )
        stream = self._opened(hello, quota)
        self._set_held(stream, is_held=False)
        first = pb.TrackReply(acker_id=self.acker_id, welcome=welcome, hold=self.draining)
        async with contextlib.aclosing(self._serve(stream, requests, first)) as replies:
            async for reply in replies:
                yield reply

    async def _serve(
        self, stream: TrackStream, requests: AsyncIterator[Any], first: pb.TrackReply
    ) -> AsyncGenerator[pb.TrackReply]:
        held = self._held_inits(stream)
        tasks = asyncio.create_task(self._read(stream, requests, held)), asyncio.create_task(held.apply_forever())
        for task in tasks:
            task.add_done_callback(lambda done: self._read_ended(stream, done))
        try:
            yield first
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
        reply.namespaces.extend(self._describe_namespace(quota) for _, quota in sorted(self._quotas.items()))
        return reply

    def _describe_namespace(self, quota: Quota) -> pb.NamespaceSummary:
        namespace = quota.namespace
        topology = self._registry.topologies.get(namespace.topology_id)
        ledger = None if topology is None else topology.ledgers.get(0)
        totals = Totals() if ledger is None else ledger.totals
        return pb.NamespaceSummary(
            name=namespace.name,
            clients=0 if topology is None else len(topology.streams),
            open_trees=0 if ledger is None else ledger.trees,
            max_open_trees=namespace.max_open_trees,
            max_updates_per_s=namespace.max_updates_per_s,
            timeout_s=namespace.timeout_s,
            begun=totals.inits,
            done=totals.completed,
            failed=totals.failed,
            timed_out=totals.timeouts,
            refused=quota.refused,
        )

    def begin_drain(self) -> None:
        """Ask the clients of namespaces to begin no more trees. They may still connect, to settle the old ones."""
        self.draining = True
        for stream in self._streams.values():
            if stream.quota is not None:
                stream.set_held(is_held=True)

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

    def _admitted(self, request: pb.TrackTreesRequest) -> tuple[Quota, str]:
        """Return the quota and the id of a client that may use its namespace, after its first message."""
        if request.WhichOneof("kind") != "hello":
            raise ProtocolError("a TrackTrees stream begins with a hello")
        name, client_id, who = request.hello.namespace, request.hello.client_id, caller.get()
        if not 0 < len(client_id) <= MAX_NAME:
            raise ProtocolError(f"hello: client_id has {len(client_id)} characters, expected 1 to {MAX_NAME}")
        quota = self._quotas.get(name)
        if quota is None:
            raise NotFoundError(f"there is no namespace {name[:120]!r} at this acker: add it to acker.trees.namespaces")
        users = quota.namespace.users
        if who is not None and users is not None and who.name not in users and not is_admin(who, current().admins):
            raise ForbiddenError(f"{who.sentence} is not among the users of namespace '{name}'")
        return quota, client_id

    def _opened(self, hello: Hello, quota: Quota | None) -> TrackStream:
        stream = TrackStream(hello, self._registry.open(hello, self._clock()), quota)
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
            self._set_held(stream, is_held=is_held)

        max_roots = max(_MAX_HELD, self._admission.limit // _MAX_HELD_SHARE)
        return HeldInits(self._admission, stream.hello.topology_id, max_roots, apply, finish)

    def _set_held(self, stream: TrackStream, *, is_held: bool) -> None:
        stream.set_held(is_held=is_held or (self.draining and stream.quota is not None))

    async def _read(self, stream: TrackStream, requests: AsyncIterator[Any], held: HeldInits) -> None:
        """Apply a worker's messages until its side of the stream ends and all held inits are applied."""
        sequence = 0
        async for request in requests:
            sequence += 1
            await self._apply(stream, request, sequence, held)
            self._set_held(stream, is_held=bool(held))
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

    async def _within_quota(
        self, stream: TrackStream, quota: Quota, batches: list[Batch], held: HeldInits
    ) -> list[Batch]:
        """Return what the quota of a namespace admits, once its rate permits more."""
        await asyncio.sleep(max(0.0, quota.pause_s(sum(map(len, batches)), self._clock())))
        topology = self._registry.topologies.get(stream.hello.topology_id)
        admitted: list[Batch] = []
        open_trees = held.roots + (0 if topology is None else topology.trees)
        for batch in batches:
            rest, refused = quota.admitted(batch, open_trees)
            stream.refuse(refused)
            open_trees += len(rest.init_roots)
            admitted.append(rest)
        return admitted

    async def _apply(self, stream: TrackStream, request: Any, sequence: int, held: HeldInits) -> None:
        """Apply a message except for the inits that must wait for room."""
        topology_id = stream.hello.topology_id
        if stream.quota is not None:
            [task] = stream.hello.tasks
            for shard in request.updates.shards:
                shard.init_tasks = pack_u32([task] * (len(shard.init_roots) // 8))
        batches = check_updates(request, stream.hello, sequence)
        await self._admission.wait_until_readable(topology_id)
        if stream.quota is not None:
            batches = await self._within_quota(stream, stream.quota, batches, held)
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


async def _first(requests: AsyncIterator[Any]) -> Any:
    """Return the first message of a stream. Raises ProtocolError."""
    try:
        return await asyncio.wait_for(anext(requests), HELLO_TIMEOUT_S)
    except StopAsyncIteration:
        raise ProtocolError("a Track stream begins with a hello") from None
    except TimeoutError:
        raise ProtocolError(f"a Track stream sent no hello within {HELLO_TIMEOUT_S:g} s") from None
