"""Links to the ackers: the worker's side of Acker.Track. All of this is one asyncio thread.

Which acker a root belongs to is ``root mod N`` and the shard map of the assignment. Three things keep that true while
the map changes:

*   Every frame of tuples carries the newest shard version that its sender knows of. Who follows an older map holds
    its own updates until it has the newer one (``require``); so nobody reports a root to an acker that does not know
    it yet.
*   While an acker drains, updates go to it and to its successor (ADR 0002).
*   When a stream breaks, what the acker had not confirmed is unknown. If the same acker is found again, those roots
    are failed there; if it is another one, its ledger began empty, and the spouts have failed all that was in the old.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc
import grpc.aio

from tupletree._log import event
from tupletree._rpc.channels import aio_channel
from tupletree._wire.packed import unpack_u64
from tupletree.v1 import acker_pb2, acker_pb2_grpc, topology_pb2

from ..control_messages import ShardsLost, TreesAcked, TreesExpired, TreesFailed, TreesReset
from ..core.ack_updates import AckUpdates, encode, split
from ..engine import Engine
from ..execution.inbox import ACKERS, BACKLOG
from .link_metrics import LinkMetrics
from .update_messages import messages

log = logging.getLogger(__name__)

RECONNECT_S = 0.1
UNCONFIRMED_UPDATES = 256
PAUSE_S, MAX_PAUSE_S = 0.004, 0.05
"""Updates that follow others are gathered for so long: a message costs more than a sooner verdict is worth. For longer
where the acker says that trees take long anyhow, but for no longer than the second."""
WAITING_ROOTS = 50_000
"""Above this an acker is behind and spouts wait for it, so that memory is bounded whatever limits a topology sets."""
MAX_WAITING_ROOTS = 200_000
"""Above this bolts wait too: the spouts that feed them may be on workers that reach the acker very well."""


@dataclass(frozen=True, slots=True)
class TrackTies:
    """What links to ackers need of the worker around them."""

    hello: acker_pb2.TrackHello
    engine: Engine
    on_link_change: Callable[[], None]


def held_by(waiting_roots: int) -> Sequence[int]:
    """What is closed at the gate while so many roots wait to be told to an acker."""
    if waiting_roots > MAX_WAITING_ROOTS:
        return ACKERS, BACKLOG
    return (ACKERS,) if waiting_roots > WAITING_ROOTS else ()


class AckerLink:
    """The stream of ledger updates to one acker, and of verdicts from it."""

    def __init__(self, acker_id: str, address: str, ties: TrackTies) -> None:
        self.acker_id = acker_id
        self.address = address
        self.is_up = False
        self.connects = 0
        self.shards: frozenset[int] = frozenset()
        self.is_owner = False  # of one of these shards at least: new trees begin there
        self.shard_version = 0
        self._ties = ties
        self._waiting: dict[int, list[AckUpdates]] = {}
        self._waiting_roots = 0
        self._pause_s = PAUSE_S
        self._is_asked_to_hold = False  # by the acker, which has no room for new trees
        self._has_news = False  # a newer shard version to tell though there are no updates
        self._unconfirmed: deque[tuple[int, list[AckUpdates]]] = deque()
        self._moved = asyncio.Event()
        self._task = asyncio.create_task(self._keep_connected())

    def post(self, shard: int, updates: AckUpdates) -> None:
        """Queue updates of one shard. An acker that has drained, or is not followed any more, gets none."""
        if self._task.done():
            return
        self._waiting.setdefault(shard, []).append(updates)
        self._waiting_roots += len(updates)
        self._close_gate()
        self._moved.set()

    def follow(self, shards: frozenset[int], is_owner: bool, shard_version: int) -> None:
        """Take note of the shard map, and tell the acker that this worker has."""
        self.shards = shards
        self.is_owner = is_owner
        if shard_version != self.shard_version:
            self.shard_version = shard_version
            self._has_news = True
            self._moved.set()

    async def close(self) -> None:
        """End the link. Its trees are not lost by that: whoever closes knows where they went."""
        self.shards = frozenset()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._ties.engine.gate.set(self, ())

    @property
    def is_idle(self) -> bool:
        """Whether the acker has confirmed everything."""
        return not self._waiting and not self._unconfirmed

    async def _keep_connected(self) -> None:
        while True:
            channel = aio_channel(self.address)
            try:
                if await self._converse(channel):
                    event(log, "acker.drained", acker=self.acker_id)
                    self._waiting.clear()
                    self._ties.engine.gate.set(self, ())
                    if not self.is_owner:  # else it left before the shards did, and trees were begun there meanwhile
                        self.is_up = False
                    return
            except grpc.aio.AioRpcError as error:
                if self.is_up or error.code() is not grpc.StatusCode.UNAVAILABLE:
                    event(log, "acker.lost", acker=self.acker_id, cause=error.details())
            finally:
                self._down()
                await channel.close()
            await asyncio.sleep(RECONNECT_S)

    async def _converse(self, channel: grpc.aio.Channel) -> bool:
        """One stream, from the hello until it breaks; True if the acker ended it because it has drained."""
        call = acker_pb2_grpc.AckerStub(channel).Track(wait_for_ready=True)
        await call.write(acker_pb2.TrackRequest(hello=self._ties.hello))
        writer = None
        try:
            async for reply in call:
                if writer is None:
                    if reply.acker_id != self.acker_id:
                        event(log, "acker.replaced", expected=self.acker_id, found=reply.acker_id)
                        return False
                    self._up()
                    writer = asyncio.create_task(self._write(call))
                self._on_reply(reply)
                if reply.drained:  # the end of the stream may look like an error to one who is writing
                    return True
            return False
        finally:
            if writer is not None:
                writer.cancel()
            call.cancel()
            self._is_asked_to_hold = False
            self._close_gate()

    def _up(self) -> None:
        """The acker that was there before is there again, or for the first time."""
        doubtful = {root for _, parts in self._unconfirmed for updates in parts for root in updates.roots()}
        self._unconfirmed.clear()
        if doubtful:
            event(log, "acker.unconfirmed_failed", acker=self.acker_id, trees=len(doubtful))
            for shard, updates in split(AckUpdates.of(fails=doubtful), self._ties.hello.shards).items():
                self._waiting.setdefault(shard, []).insert(0, updates)
        self._has_news = True  # a new stream has told no version yet, and an acker that drains waits for one
        self.is_up = True
        self.connects += 1
        event(log, "acker.up", acker=self.acker_id, address=self.address)
        self._ties.on_link_change()

    def _on_reply(self, reply: acker_pb2.TrackReply) -> None:
        while self._unconfirmed and self._unconfirmed[0][0] <= reply.confirmed:
            self._unconfirmed.popleft()
            self._moved.set()
        if reply.hold != self._is_asked_to_hold:
            self._is_asked_to_hold = reply.hold
            self._close_gate()
            self._moved.set()
        self._pause_s = min(max(PAUSE_S, reply.gather_us / 1e6), MAX_PAUSE_S)
        tell = self._ties.engine.tell
        for verdicts in reply.verdicts:
            task = verdicts.spout_task
            if verdicts.acked:
                tell(task, TreesAcked(task, unpack_u64(verdicts.acked)))
            if verdicts.failed:
                tell(task, TreesFailed(task, unpack_u64(verdicts.failed)))
            if verdicts.expired:
                tell(task, TreesExpired(task, unpack_u64(verdicts.expired)))
            if verdicts.reset:
                tell(task, TreesReset(task, unpack_u64(verdicts.reset)))

    def _close_gate(self) -> None:
        holds = (ACKERS,) if self._is_asked_to_hold else ()
        self._ties.engine.gate.set(self, held_by(self._waiting_roots) or holds)

    @property
    def _is_unconfirmed(self) -> bool:
        """Whether so much is that the rest waits. Not while the acker holds trees: the rest is what makes room."""
        return len(self._unconfirmed) >= UNCONFIRMED_UPDATES and not self._is_asked_to_hold

    async def _write(self, call: grpc.aio.StreamStreamCall[acker_pb2.TrackRequest, acker_pb2.TrackReply]) -> None:
        """Send what waits, mostly in one message, as long as not too much is unconfirmed."""
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
            last = sequence + len(contents)  # until it is confirmed, all of them are in doubt
            self._unconfirmed.append((last, [updates for parts in waiting.values() for updates in parts]))
            for shards in contents:
                sequence += 1
                request = acker_pb2.TrackRequest()  # filled in place, as frames are in peer_links.py
                request.updates.sequence = sequence
                request.updates.shard_version = self.shard_version
                request.updates.shards.extend(shards)
                await call.write(request)

    def _down(self) -> None:
        if not self.is_up:
            return
        self.is_up = False
        self._ties.on_link_change()  # closes the gate first, so that no spout begins a tree after it has heard
        if self.shards:
            self._ties.engine.tell_spouts(ShardsLost(self.shards, self._ties.hello.shards))


class AckerLinks(LinkMetrics):
    """The links to all ackers of the topology, kept as the latest assignment says."""

    def __init__(self, ties: TrackTies) -> None:
        self.shard_version = 0
        self._ties = ties
        self._count = ties.hello.shards
        self._links: dict[str, AckerLink] = {}
        self._routes: dict[int, list[AckerLink]] = {}  # shard: its acker, and one that drains
        self._owners: dict[int, str] = {}
        self._required_version = 0
        self._refuted_version: int | None = None  # the lowest that a worker named though there was none such
        self._connects = 0  # of links that are gone
        self._held: list[AckUpdates] = []
        self._held_roots = 0

    def post(self, updates: AckUpdates) -> None:
        """Send updates to the ackers of their shards, now or when the map that they need is known."""
        if self.is_behind:
            self._held.append(updates)
            self._held_roots += len(updates)
            self._ties.engine.gate.set(self, held_by(self._held_roots))
            return
        for shard, part in split(updates, self._count).items():
            for link in self._routes.get(shard, ()):
                link.post(shard, part)

    def require(self, shard_version: int) -> None:
        """A tuple has come from a worker that follows this version of the map, or says so."""
        if self._refuted_version is None or shard_version < self._refuted_version:
            self._required_version = max(self._required_version, shard_version)

    @property
    def claimed_version(self) -> int | None:
        """A version that another worker named and that this one has not seen; None without one."""
        return self._required_version if self.is_behind else None

    def refute(self, claimed: int) -> None:
        """There was no such version when ZooKeeper was asked after it had been named: nothing waits for it any more.

        Every version is written before anybody follows it, so what ZooKeeper does not know, after a sync, was made up.
        It and those above are not believed until the map itself gets there.
        """
        event(log, "shard_map.refuted", level=logging.WARNING, claimed=claimed, newest=self.shard_version)
        self._refuted_version = min(claimed, self._refuted_version or claimed)
        if self._required_version >= self._refuted_version:
            self._required_version = self.shard_version
            self._release()

    @property
    def known_version(self) -> int:
        """The newest version that this worker knows of, though it may not follow it yet: what its frames carry.

        Tuples of a worker that is behind may well belong to trees that were begun under the newer map.
        """
        return max(self.shard_version, self._required_version)

    @property
    def is_behind(self) -> bool:
        """Whether another worker is known to follow a newer map."""
        return self._required_version > self.shard_version

    async def follow(self, shards: Sequence[topology_pb2.ShardAssignment], shard_version: int) -> None:
        """Take a newer shard map: links to the ackers it names, and none else."""
        if shard_version <= self.shard_version:
            return
        addresses = {item.acker_id: item.address for item in shards if item.acker_id}
        addresses |= {item.draining_acker_id: item.draining_address for item in shards if item.draining_acker_id}
        lost = self._lost(shards)
        for acker_id in set(self._links) - set(addresses):
            link = self._links.pop(acker_id)
            self._connects += link.connects
            if link.is_up:  # it did not drain to the end: what it had still to finish is lost
                lost |= link.shards
            await link.close()
        for acker_id, address in addresses.items():
            if acker_id not in self._links:
                self._links[acker_id] = AckerLink(acker_id, address, self._ties)
        self._owners = {item.shard: item.acker_id for item in shards}
        self._routes = {
            item.shard: [self._links[name] for name in (item.acker_id, item.draining_acker_id) if name]
            for item in shards
        }
        for link in self._links.values():
            served = frozenset(shard for shard, links in self._routes.items() if link in links)
            link.follow(served, link.acker_id in self._owners.values(), shard_version)
        self.shard_version = shard_version
        if self._refuted_version is not None and shard_version >= self._refuted_version:
            self._refuted_version = None
        if not self.is_behind:
            self._release()
        self._ties.on_link_change()
        if lost:  # told last: a tree that a spout begins after it has heard goes to the new acker, or waits for one
            self._ties.engine.tell_spouts(ShardsLost(lost, self._count))

    def _release(self) -> None:
        """Send what was held until the map was known."""
        held, self._held = self._held, []
        self._held_roots = 0
        for updates in held:
            self.post(updates)
        self._ties.engine.gate.set(self, ())

    def _lost(self, shards: Sequence[topology_pb2.ShardAssignment]) -> frozenset[int]:
        """Shards that left an acker which does not serve them to the end: their trees can only fail."""
        return frozenset(
            item.shard
            for item in shards
            if self._owners.get(item.shard) and self._owners[item.shard] not in (item.acker_id, item.draining_acker_id)
        )

    @property
    def are_up(self) -> bool:
        """Whether every shard has an acker that can be reached."""
        return len(self._owners) == self._count and all(
            owner in self._links and self._links[owner].is_up for owner in self._owners.values()
        )

    @property
    def is_idle(self) -> bool:
        """Whether everything posted has been confirmed."""
        return not self._held and all(link.is_idle for link in self._links.values())

    async def close(self) -> None:
        """End every link."""
        for link in self._links.values():
            await link.close()
        self._links.clear()
