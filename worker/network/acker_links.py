"""Links to the ackers: the worker's side of Acker.Track. Everything here runs on one asyncio thread.

The shard ``root mod N`` and the assignment's shard map determine the acker of a root. Three rules keep the choice
consistent while the map changes:

*   Every frame of tuples carries the newest shard version that its sender knows of. A receiver with an older map holds
    its own updates until it has the newer map (``require``). So no worker reports a root to an acker that does not
    know the root yet.
*   While an acker drains, updates go both to that acker and to its successor (ADR 0002).
*   When a stream breaks, the fate of unconfirmed updates is unknown. If the same acker answers again, the roots of
    these updates are failed there. If another acker answers, its ledger began empty, and the spouts have failed all
    trees of the old ledger.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc
import grpc.aio

from tupletree._log import event
from tupletree._rpc.reconnecting_stream import RECONNECT_S, ReconnectingStream
from tupletree._wire import reason_messages
from tupletree._wire.packed import unpack_u64
from tupletree.v1 import acker_pb2, acker_pb2_grpc, topology_pb2

from ..control_messages import ShardsLost, TreeVerdict, VerdictKind
from ..core.ack_updates import AckUpdates, encode, split
from ..engine import Engine
from ..execution.inbox import ACKERS, BACKLOG
from .link_metrics import LinkMetrics
from .update_messages import messages

log = logging.getLogger(__name__)

Call = grpc.aio.StreamStreamCall[acker_pb2.TrackRequest, acker_pb2.TrackReply]

UNCONFIRMED_UPDATES = 256
REPLACED_S = 1.0
"""The pause between attempts while another acker answers: it takes note of each, and the old one does not come back."""
PAUSE_S, MAX_PAUSE_S = 0.004, 0.05
"""The pause after a message, during which further updates are gathered: a message costs more than an earlier verdict
is worth. An acker whose trees take long anyway asks for a longer pause, which ``MAX_PAUSE_S`` limits."""
WAITING_ROOTS = 50_000
"""Above this limit an acker is behind and spouts wait. So memory is bounded whatever limits a topology sets."""
MAX_WAITING_ROOTS = 200_000
"""Above this limit bolts wait too: their spouts may be on workers whose link to the acker is not behind."""


@dataclass(frozen=True, slots=True)
class AckerLinkContext:
    """The parts of the worker that links to ackers use."""

    hello: acker_pb2.TrackHello
    engine: Engine
    on_link_change: Callable[[], None]


def held_by(waiting_roots: int) -> Sequence[int]:
    """Return the keys to close at the gate while this many roots wait to be sent to an acker."""
    if waiting_roots > MAX_WAITING_ROOTS:
        return ACKERS, BACKLOG
    return (ACKERS,) if waiting_roots > WAITING_ROOTS else ()


class AckerLink(ReconnectingStream[acker_pb2.TrackRequest, acker_pb2.TrackReply]):
    """The stream of ledger updates to one acker, and of verdicts from that acker."""

    def __init__(self, acker_id: str, address: str, context: AckerLinkContext) -> None:
        super().__init__("acker", acker_id, address)
        self.acker_id = acker_id
        self.shards: frozenset[int] = frozenset()
        self.is_owner = False  # of at least one of the shards: new trees begin at this acker
        self.shard_version = 0
        self._context = context
        self._waiting: dict[int, list[AckUpdates]] = {}
        self._waiting_roots = 0
        self._pause_s = PAUSE_S
        self._is_asked_to_hold = False  # by the acker, when it has no room for new trees
        self._has_news = False  # a newer shard version must be sent, even without updates
        self._unconfirmed: deque[tuple[int, list[AckUpdates]]] = deque()

    def post(self, shard: int, updates: AckUpdates) -> None:
        """Queue updates of one shard. Ignored once the acker has drained or the link is closed."""
        if self._task.done():
            return
        self._waiting.setdefault(shard, []).append(updates)
        self._waiting_roots += len(updates)
        self._close_gate()
        self._moved.set()

    def apply_shards(self, shards: frozenset[int], is_owner: bool, shard_version: int) -> None:
        """Adopt a shard map, and tell the acker its version."""
        self.shards = shards
        self.is_owner = is_owner
        if shard_version != self.shard_version:
            self.shard_version = shard_version
            self._has_news = True
            self._moved.set()

    async def close(self) -> None:
        """End the link without failing its trees. The caller has already decided what happens to the trees."""
        self.shards = frozenset()
        await self.stop()
        self._context.engine.gate.set(self, ())

    @property
    def is_idle(self) -> bool:
        """True if the acker has confirmed everything."""
        return not self._waiting and not self._unconfirmed

    def _call(self, channel: grpc.aio.Channel) -> Call:
        return acker_pb2_grpc.AckerStub(channel).Track(wait_for_ready=True)

    async def _converse(self, channel: grpc.aio.Channel) -> bool:
        try:
            return await super()._converse(channel)
        finally:
            self._is_asked_to_hold = False
            self._close_gate()

    def _hello(self) -> acker_pb2.TrackRequest:
        return acker_pb2.TrackRequest(hello=self._context.hello)

    def _is_expected(self, reply: acker_pb2.TrackReply) -> bool:
        if reply.acker_id == self.acker_id:
            return True
        self._tell_once(f"acker {reply.acker_id} answers at this address")
        self.reconnect_s = REPLACED_S
        return False

    def _came_up(self) -> None:
        """On a reconnect, queue failures for the roots of unconfirmed updates."""
        self.reconnect_s = RECONNECT_S
        doubtful = {root for _, parts in self._unconfirmed for updates in parts for root in updates.roots()}
        self._unconfirmed.clear()
        if doubtful:
            event(log, "acker.unconfirmed_failed", acker=self.acker_id, trees=len(doubtful))
            for shard, updates in split(AckUpdates.of(fails=doubtful), self._context.hello.shards).items():
                self._waiting.setdefault(shard, []).insert(0, updates)
        self._has_news = True  # a new stream has sent no version yet, and a draining acker waits for one
        self._context.on_link_change()

    def _on_reply(self, reply: acker_pb2.TrackReply) -> bool:
        while self._unconfirmed and self._unconfirmed[0][0] <= reply.confirmed:
            self._unconfirmed.popleft()
            self._moved.set()
        if reply.hold != self._is_asked_to_hold:
            self._is_asked_to_hold = reply.hold
            self._close_gate()
            self._moved.set()
        self._pause_s = min(max(PAUSE_S, reply.linger_us / 1e6), MAX_PAUSE_S)
        for verdicts in reply.verdicts:
            reasons = reason_messages.unpacked(verdicts.reasons) if verdicts.HasField("reasons") else {}
            for kind in VerdictKind:
                if roots := getattr(verdicts, kind.value):
                    control = TreeVerdict(verdicts.task, kind, unpack_u64(roots), reasons)
                    self._context.engine.notify_task(control.task, control)
        return reply.drained  # a writer may see the end of the stream as an error

    def _close_gate(self) -> None:
        holds = (ACKERS,) if self._is_asked_to_hold else ()
        self._context.engine.gate.set(self, held_by(self._waiting_roots) or holds)

    @property
    def _is_unconfirmed(self) -> bool:
        """True if too much is unconfirmed to send more. False while the acker asks to hold: acks free room there."""
        return len(self._unconfirmed) >= UNCONFIRMED_UPDATES and not self._is_asked_to_hold

    async def _write(self, call: Call) -> None:
        """Send waiting updates, usually in one message, unless too much is unconfirmed."""
        clock = asyncio.get_running_loop().time
        sequence, next_s = 0, 0.0
        while True:
            while not (self._waiting or self._has_news) or self._is_unconfirmed:
                self._moved.clear()
                await self._moved.wait()
            if clock() < next_s:
                await asyncio.sleep(next_s - clock())
            next_s = clock() + self._pause_s
            waiting, self._waiting = self._waiting, {}
            self._waiting_roots = 0
            self._has_news = False
            self._close_gate()
            contents = list(messages([encode(shard, parts) for shard, parts in waiting.items()]))
            last = sequence + len(contents)  # until the last is confirmed, all are in doubt
            self._unconfirmed.append((last, [updates for parts in waiting.values() for updates in parts]))
            for shards in contents:
                sequence += 1
                request = acker_pb2.TrackRequest()  # filled in place, as frames are in peer_links.py
                request.updates.sequence = sequence
                request.updates.shard_version = self.shard_version
                request.updates.shards.extend(shards)
                await call.write(request)

    def _ended(self) -> None:
        event(log, "acker.drained", acker=self.acker_id)
        self._waiting.clear()
        self._context.engine.gate.set(self, ())
        if not self.is_owner:  # an owner that left before its shards moved has trees: they fail in _went_down
            self.is_up = False

    def _went_down(self, was_up: bool) -> None:
        if not was_up:
            return
        self._context.on_link_change()  # first: the gate closes, so that no spout begins a tree after ShardsLost
        if self.shards:
            self._context.engine.notify_spouts(ShardsLost(self.shards, self._context.hello.shards))


class AckerLinks(LinkMetrics):
    """The links to all ackers of the topology, kept in step with the latest assignment."""

    def __init__(self, context: AckerLinkContext) -> None:
        self.shard_version = 0
        self._context = context
        self._count = context.hello.shards
        self._links: dict[str, AckerLink] = {}
        self._routes: dict[int, list[AckerLink]] = {}  # by shard: its acker, and a draining acker if any
        self._owners: dict[int, str] = {}
        self._required_version = 0
        self._refuted_version: int | None = None  # the lowest version that a worker claimed but that does not exist
        self._connects = 0  # of links that were closed
        self._held: list[AckUpdates] = []
        self._held_roots = 0

    def post(self, updates: AckUpdates) -> None:
        """Send updates to the ackers of their shards, now or once the required shard map is known."""
        if self.is_behind:
            self._held.append(updates)
            self._held_roots += len(updates)
            self._context.engine.gate.set(self, held_by(self._held_roots))
            return
        for shard, part in split(updates, self._count).items():
            for link in self._routes.get(shard, ()):
                link.post(shard, part)

    def require(self, shard_version: int) -> None:
        """Record the shard version that came with a frame. The sender claims to know this version of the map."""
        if self._refuted_version is None or shard_version < self._refuted_version:
            self._required_version = max(self._required_version, shard_version)

    @property
    def claimed_version(self) -> int | None:
        """A version that another worker claimed and this worker has not seen, or None."""
        return self._required_version if self.is_behind else None

    def refute(self, claimed: int) -> None:
        """Stop waiting for a claimed version that ZooKeeper, read after the claim, does not have.

        Every version is written before any worker follows it. So a version that ZooKeeper does not have after a sync
        never existed. This version and higher versions are ignored until the map itself reaches them.
        """
        event(log, "shard_map.refuted", level=logging.WARNING, claimed=claimed, newest=self.shard_version)
        self._refuted_version = min(claimed, self._refuted_version or claimed)
        if self._required_version >= self._refuted_version:
            self._required_version = self.shard_version
            self._release()

    @property
    def known_version(self) -> int:
        """The newest version that this worker knows of, even if it does not follow that version yet. Frames carry it.

        The tuples of a worker that is behind may belong to trees begun under the newer map.
        """
        return max(self.shard_version, self._required_version)

    @property
    def is_behind(self) -> bool:
        """True if another worker is known to follow a newer map."""
        return self._required_version > self.shard_version

    async def apply_shards(self, shards: Sequence[topology_pb2.ShardAssignment], shard_version: int) -> None:
        """Adopt a newer shard map: keep links to exactly the ackers named in the map. Older maps are ignored."""
        if shard_version <= self.shard_version:
            return
        addresses = {item.acker_id: item.address for item in shards if item.acker_id}
        addresses |= {item.draining_acker_id: item.draining_address for item in shards if item.draining_acker_id}
        lost = self._lost(shards)
        for acker_id in set(self._links) - set(addresses):
            link = self._links.pop(acker_id)
            self._connects += link.connects
            if link.is_up:  # the acker did not finish draining: its remaining trees are lost
                lost |= link.shards
            await link.close()
        for acker_id, address in addresses.items():
            if acker_id not in self._links:
                self._links[acker_id] = AckerLink(acker_id, address, self._context)
        self._owners = {item.shard: item.acker_id for item in shards}
        self._routes = {
            item.shard: [self._links[name] for name in (item.acker_id, item.draining_acker_id) if name]
            for item in shards
        }
        for link in self._links.values():
            served = frozenset(shard for shard, links in self._routes.items() if link in links)
            link.apply_shards(served, link.acker_id in self._owners.values(), shard_version)
        self.shard_version = shard_version
        if self._refuted_version is not None and shard_version >= self._refuted_version:
            self._refuted_version = None
        if not self.is_behind:
            self._release()
        self._context.on_link_change()
        if lost:  # last: trees begun after this message go to the new acker, or wait for one
            self._context.engine.notify_spouts(ShardsLost(lost, self._count))

    def _release(self) -> None:
        """Send the updates that were held until the map was known."""
        held, self._held = self._held, []
        self._held_roots = 0
        for updates in held:
            self.post(updates)
        self._context.engine.gate.set(self, ())

    def _lost(self, shards: Sequence[topology_pb2.ShardAssignment]) -> frozenset[int]:
        """Return the shards whose acker was replaced without draining. Their trees can only fail."""
        return frozenset(
            item.shard
            for item in shards
            if self._owners.get(item.shard) and self._owners[item.shard] not in (item.acker_id, item.draining_acker_id)
        )

    @property
    def are_up(self) -> bool:
        """True if every shard has an acker whose link is up."""
        return len(self._owners) == self._count and all(
            owner in self._links and self._links[owner].is_up for owner in self._owners.values()
        )

    @property
    def is_idle(self) -> bool:
        """True if everything posted has been confirmed."""
        return not self._held and all(link.is_idle for link in self._links.values())

    async def close(self) -> None:
        """End every link."""
        for link in self._links.values():
            await link.close()
        self._links.clear()
