"""Links to the other workers of the topology: the sending side of Worker.Transfer. Runs on one asyncio thread.

The life of a batch passed to ``PeerLinks.send``:

    waits (peer down or behind)  -->  sent, not confirmed  -->  confirmed: in the receiver's memory
                                          | the stream broke
                                          v
                                      its roots are failed, and the batch is not sent again: if the receiver has
                                      acked a part, a second ack of the same edge would cancel the first (ADR 0003)

A batch of a single large row is sent in pieces, one per frame. The batch counts as waiting until its last piece is
sent: a receiver without the last piece uses none of the batch, and gets all of it on the next stream.

While a link is down, or too much waits for it, its tasks are closed at the gate, so that few batches ever wait.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import grpc
import grpc.aio

from tupletree._log import event
from tupletree._rpc.reconnecting_stream import ReconnectingStream
from tupletree.v1 import worker_pb2, worker_pb2_grpc

from ..core.batches import BATCH_BYTES, EncodedBatch, bytes_of, roots_of, tasks_of
from ..execution.inbox import Gate, not_reached
from ..execution.load_shares import MAX_WAIT_S
from .fragments import FragmentCutter
from .link_metrics import LinkMetrics

log = logging.getLogger(__name__)

FRAME_BYTES = 1024 * 1024
UNCONFIRMED_BYTES = 8 * 1024 * 1024
WAITING_BYTES = 4 * 1024 * 1024
SILENT_S = 1.0
"""A link is silent if nothing is confirmed for so long after it should be: twice the longest delay of a status."""
SILENCE_STEP_S = 0.25  # how much longer the load must be that is learned from a silence that lasts
HOMELESS = "homeless batches"  # the gate source that closes their tasks

Call = grpc.aio.StreamStreamCall[worker_pb2.TransferRequest, worker_pb2.TransferStatus]


@dataclass(frozen=True, slots=True)
class Peer:
    """A single incarnation of another worker, and its tasks."""

    worker_id: str
    address: str
    tasks: frozenset[int]


@dataclass(frozen=True, slots=True)
class PeerLinkContext:
    """The parts of the worker that links use."""

    topology_id: str
    worker_id: str
    gate: Gate
    shard_version: Callable[[], int]
    fail: Callable[[Iterable[int]], None]
    on_link_change: Callable[[], None]
    split: Callable[[EncodedBatch], list[tuple[EncodedBatch, frozenset[int]]]]
    """Divides a batch with rows for several tasks into one for each, with the task."""


class PeerLink(ReconnectingStream[worker_pb2.TransferRequest, worker_pb2.TransferStatus]):
    """The stream of tuples to one incarnation of one worker."""

    def __init__(self, peer: Peer, context: PeerLinkContext) -> None:
        super().__init__("peer", peer.worker_id, peer.address)
        self.peer = peer
        self._context = context
        self._waiting: deque[tuple[EncodedBatch, int]] = deque()  # with the bytes of each
        self._waiting_bytes = 0
        self._cut: FragmentCutter | None = None  # of the oldest waiting batch, once a piece of it was sent
        self._unconfirmed: deque[tuple[int, int, list[EncodedBatch]]] = deque()
        """Frames: the sequence number of each, its bytes, and the batches that it holds or holds the last piece of."""
        self._unconfirmed_bytes = 0
        self._congested: frozenset[int] = frozenset()
        self._heard_s = 0.0  # when a status came last, or the oldest of the unconfirmed frames was sent, if later
        self._told_free_s: Mapping[int, float] = {}  # the loads that the last status tells
        self._silent_until_s = 0.0
        self._update_gate()

    def send(self, batch: EncodedBatch) -> None:
        """Queue a batch for one of the peer's tasks."""
        size = bytes_of(batch)
        self._waiting.append((batch, size))
        self._waiting_bytes += size
        if self._waiting_bytes > WAITING_BYTES:
            self._update_gate()
        if self._unconfirmed:
            self._notice_silence(time.monotonic())
        self._moved.set()

    def pop_unsent(self) -> Iterable[EncodedBatch]:
        """Remove and return the batches that were never sent."""
        waiting = [batch for batch, _ in self._waiting]
        self._waiting.clear()
        self._waiting_bytes = 0
        return waiting

    async def close(self) -> None:
        """End the link, and fail the roots of unconfirmed batches."""
        await self.stop()
        self._context.gate.set(self, ())
        self._learn_loads(())

    @property
    def is_idle(self) -> bool:
        """True if all batches were sent and confirmed."""
        return not self._waiting and not self._unconfirmed

    def _call(self, channel: grpc.aio.Channel) -> Call:
        return worker_pb2_grpc.WorkerStub(channel).Transfer(wait_for_ready=True)

    def _hello(self) -> worker_pb2.TransferRequest:
        context = self._context
        return worker_pb2.TransferRequest(
            hello=worker_pb2.TransferHello(
                topology_id=context.topology_id, from_worker_id=context.worker_id, to_worker_id=self.peer.worker_id
            )
        )

    def _came_up(self) -> None:
        self._context.on_link_change()

    def _on_reply(self, reply: worker_pb2.TransferStatus) -> bool:
        while self._unconfirmed and self._unconfirmed[0][0] <= reply.confirmed:
            _, size, _ = self._unconfirmed.popleft()
            self._unconfirmed_bytes -= size
        self._congested = frozenset(reply.congested) & self.peer.tasks
        self._heard_s = time.monotonic()
        self._learn_loads(reply.loads)
        self._moved.set()
        self._update_gate()
        return False

    def _learn_loads(self, loads: Iterable[worker_pb2.TaskLoad]) -> None:
        now_s = time.monotonic()  # the clock of the executors
        self._told_free_s = free_s = {
            task: now_s + min(MAX_WAIT_S, load.wait_ms / 1000)
            for load in loads
            for task in load.tasks
            if task in self.peer.tasks
        }
        self._silent_until_s = 0.0
        self._context.gate.loads.set(self, free_s)

    def _notice_silence(self, now_s: float) -> None:
        """Take the peer's tasks as loaded for as long as it has been silent: a process that is stopped tells nothing.

        Once nothing is sent there, the load ends by itself. What is sent then finds that the silence lasts, or not.
        """
        silent_s = min(MAX_WAIT_S, now_s - self._heard_s)
        if silent_s >= SILENT_S and now_s + silent_s >= self._silent_until_s + SILENCE_STEP_S:
            self._silent_until_s = until_s = now_s + silent_s
            told_s = self._told_free_s
            self._context.gate.loads.set(self, {task: max(until_s, told_s.get(task, 0.0)) for task in self.peer.tasks})

    async def _write(self, call: Call) -> None:
        """Send waiting batches in frames, unless too much is unconfirmed."""
        sequence = 0
        while True:
            while not self._waiting or self._unconfirmed_bytes > UNCONFIRMED_BYTES:
                self._moved.clear()
                await self._moved.wait()
            sequence += 1
            request = worker_pb2.TransferRequest()
            frame = request.frame  # filled in place: a constructor argument is encoded and decoded again, 0.1 ms
            frame.sequence = sequence
            frame.shard_version = self._context.shard_version()
            was_behind = self._waiting_bytes > WAITING_BYTES
            size, batches = self._fill_piece(frame) if self._waiting[0][1] > BATCH_BYTES else self._fill(frame)
            if was_behind:
                self._update_gate()
            if not self._unconfirmed:
                self._heard_s = time.monotonic()
            self._unconfirmed.append((sequence, size, batches))
            self._unconfirmed_bytes += size
            await call.write(request)

    def _fill(self, frame: worker_pb2.Frame) -> tuple[int, list[EncodedBatch]]:
        """Move waiting batches into a frame until the frame is large enough; return their bytes, and them."""
        batches = []
        taken = 0
        while self._waiting and taken < FRAME_BYTES and (size := self._waiting[0][1]) <= BATCH_BYTES:
            taken += size
            batches.append(self._waiting.popleft()[0])
            batches[-1].fill(frame.batches.add())
        self._waiting_bytes -= taken
        return taken, batches

    def _fill_piece(self, frame: worker_pb2.Frame) -> tuple[int, list[EncodedBatch]]:
        """Put a piece of the oldest batch into a frame; return its bytes and, with the last piece, the batch."""
        if self._cut is None:
            self._cut = FragmentCutter(self._waiting[0][0])
        size = self._cut.fill(frame.piece)
        if not self._cut.is_over:
            return size, []
        self._cut = None
        batch, whole = self._waiting.popleft()
        self._waiting_bytes -= whole
        return size, [batch]

    def _went_down(self, was_up: bool) -> None:
        self._cut = None
        self._update_gate()
        self._learn_loads(())
        if self._unconfirmed:
            lost = {root for _, _, batches in self._unconfirmed for batch in batches for root in roots_of(batch)}
            event(log, "peer.unconfirmed_failed", peer=self.peer.worker_id, trees=len(lost))
            self._context.fail(lost)
            self._unconfirmed.clear()
            self._unconfirmed_bytes = 0
        if was_up:
            self._context.on_link_change()

    def _update_gate(self) -> None:
        is_open = self.is_up and self._waiting_bytes <= WAITING_BYTES
        self._context.gate.set(self, self._congested if is_open else not_reached(self.peer.tasks))


class PeerLinks(LinkMetrics):
    """The links to all other workers, kept in step with the latest snapshot."""

    def __init__(self, context: PeerLinkContext) -> None:
        self._context = context
        self._links: dict[str, PeerLink] = {}  # by slot
        self._by_task: dict[int, PeerLink] = {}
        self._by_tasks: dict[frozenset[int], PeerLink] = {}  # links that were looked up since the last change
        self._connects = 0  # of links that were closed
        self._homeless: deque[EncodedBatch] = deque()  # for tasks that no known worker runs

    def __len__(self) -> int:
        return len(self._links)

    def send(self, batch: EncodedBatch, tasks: frozenset[int]) -> None:
        """Send a batch to the worker that runs its tasks, now or once the worker is known.

        ``tasks``: among which the tasks of its rows are. If these run in several workers, each gets its rows.
        """
        link = self._by_tasks.get(tasks)
        if link is not None:
            link.send(batch)
            return
        links = {self._by_task.get(task) for task in tasks}
        link = links.pop()
        if not links:
            self._send_by(link, batch, tasks)
        elif batch.targets:
            for part, task in self._context.split(batch):
                self._send_by(self._by_task.get(next(iter(task))), part, task)
        else:
            self._send_by(self._by_task.get(batch.target_task), batch, tasks_of(batch))

    def _send_by(self, link: PeerLink | None, batch: EncodedBatch, tasks: frozenset[int]) -> None:
        if link is None:
            self._homeless.append(batch)
            self._close_homeless(self._context.gate.closed_by(HOMELESS) | tasks)
        else:
            self._by_tasks[tasks] = link
            link.send(batch)

    async def connect(self, wanted: Mapping[str, Peer | None], tasks: Mapping[str, frozenset[int]]) -> None:
        """Keep links to exactly the wanted peers, by slot. ``tasks``: all remote tasks by slot.

        A slot whose worker is unknown (None) keeps a link that is still up: the supervisor may only be late.
        """
        outdated = {
            slot: link for slot, link in self._links.items() if _is_outdated(link, slot in wanted, wanted.get(slot))
        }
        for slot, link in outdated.items():  # all before the first await: nothing may be sent to them
            del self._links[slot]
            self._connects += link.connects
            self._homeless.extend(link.pop_unsent())
        self._know_tasks()
        self._close_unknown(tasks)
        for link in outdated.values():
            await link.close()
        for slot, peer in wanted.items():
            if peer is not None and slot not in self._links:
                self._links[slot] = PeerLink(peer, self._context)
        self._know_tasks()
        self._close_unknown(tasks)
        waiting, self._homeless = self._homeless, deque()
        for batch in waiting:
            self.send(batch, tasks_of(batch))
        self._close_homeless({task for batch in self._homeless for task in tasks_of(batch)})

    def _know_tasks(self) -> None:
        self._by_task = {task: link for link in self._links.values() for task in link.peer.tasks}
        self._by_tasks = {}

    def _close_unknown(self, tasks: Mapping[str, frozenset[int]]) -> None:
        unknown = [task for slot, ids in tasks.items() if slot not in self._links for task in ids]
        self._context.gate.set("unknown workers", not_reached(unknown))

    def _close_homeless(self, tasks: Iterable[int]) -> None:
        """Close tasks that have waiting batches but no slot: nimbus may have no free slot for them."""
        self._context.gate.set(HOMELESS, not_reached(tasks))

    def are_up(self, slots: Iterable[str]) -> bool:
        """True if the link to the worker of each of these slots is up."""
        return all(slot in self._links and self._links[slot].is_up for slot in slots)

    @property
    def is_idle(self) -> bool:
        """True if everything passed to ``send`` was confirmed."""
        return not self._homeless and all(link.is_idle for link in self._links.values())

    async def close(self) -> None:
        """End every link."""
        for link in self._links.values():
            await link.close()
        self._links.clear()


def _is_outdated(link: PeerLink, is_wanted: bool, peer: Peer | None) -> bool:
    return not is_wanted or (not link.is_up if peer is None else peer != link.peer)
