"""The link of a client to one acker: Acker.TrackTrees.

programs' threads   begin trees and settle children, under the lock of the client
the event loop      sends updates, reads verdicts and ends trees; one thread for all links of the client
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

import grpc
import grpc.aio

from tupletree._event_loop import EventLoop
from tupletree._log import event
from tupletree._rpc.reconnecting_stream import RECONNECT_S, ReconnectingStream
from tupletree._rpc.status import from_rpc_error
from tupletree._security.current import Security
from tupletree._wire import reason_messages
from tupletree._wire.packed import pack_u64, unpack_u64
from tupletree.errors import InternalError, OverloadedError, ProtocolError, TupletreeError, UnavailableError
from tupletree.trees.open_trees import OpenTrees
from tupletree.trees.outbox import Outbox, Updates
from tupletree.trees.outcomes import Outcome, OutcomeKind
from tupletree.trees.tokens import Token
from tupletree.v1 import acker_pb2 as pb
from tupletree.v1 import acker_pb2_grpc

log = logging.getLogger(__name__)

MAX_UNSENT: Final = 100_000
"""Updates that wait to be sent, above which no trees are begun: the namespace's rate is exceeded, or nobody answers."""
_PAUSE_S, _MAX_PAUSE_S = 0.002, 0.05  # between messages, so that updates are combined
_REFUSED_S = 2.0  # between attempts if the acker refuses the client

Call = grpc.aio.StreamStreamCall[pb.TrackTreesRequest, pb.TrackReply]
Ended = tuple[Future[Outcome], Outcome | TupletreeError]


class TreesLoop(EventLoop, name="trees"):
    """The event loop of all clients of this process. No code of users runs on it, which could block."""

    @staticmethod
    def _new_loop() -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()  # as the daemons' loops are, for gRPC


@dataclass(frozen=True, slots=True)
class LinkContext:
    """The parts that the links of a client share. ``changed``: the lock of their state; notified when it changes."""

    namespace: str
    client_id: str
    security: Security
    changed: threading.Condition
    loop: EventLoop


class Link(ReconnectingStream[pb.TrackTreesRequest, pb.TrackReply]):
    """The stream of one client to one acker. Made and stopped on the event loop; ``begin``, ``ack`` and ``fail`` are
    for any thread.

    Attributes:
        acker_id: the acker that answered last; "" before.
        error: why there is no stream; None while there is one.
    """

    def __init__(self, address: str, context: LinkContext) -> None:
        self.acker_id = ""
        self.error: TupletreeError | None = UnavailableError(f"acker at {address} has not answered yet")
        self.is_held = False
        self.welcome = pb.TreesWelcome()
        self.trees: OpenTrees[Future[Outcome]] = OpenTrees()
        self.outbox = Outbox()
        self.is_tried = False
        self._context = context
        self._lost: list[int] = []  # trees that ended with the stream
        self._is_woken = False
        self._pause_s = _PAUSE_S
        super().__init__("trees", context.namespace, address, context.security)

    # Any thread

    def begin(self, root: int, edge: int, deadline_s: float, waiting: Future[Outcome]) -> Token:
        """Begin a tree and return the token of its root. Raises OverloadedError and UnavailableError."""
        with self._context.changed:
            if self.error is not None:
                raise self.error.with_traceback(None)  # otherwise it grows with each raise
            if len(self.trees) >= self.welcome.max_open_trees:
                raise OverloadedError(self._fullness())
            if len(self.outbox) >= MAX_UNSENT:
                raise OverloadedError(
                    f"{len(self.outbox)} updates wait to be sent to acker {self.acker_id}: begin trees more slowly"
                )
            self.trees.begin(root, deadline_s, waiting)
            self.outbox.begin(root, edge)
            self._wake()
            return Token(self._context.namespace, self.acker_id, root, edge)

    def ack(self, token: Token, value: int) -> None:
        """Settle a child. Nothing if its acker has ended: its tree is lost."""
        with self._context.changed:
            if token.acker_id == self.acker_id:
                self.outbox.ack(token.root, value)
                self._wake()

    def fail(self, token: Token, reason: str) -> None:
        """Fail a tree. Nothing if its acker has ended."""
        with self._context.changed:
            if token.acker_id == self.acker_id:
                self.outbox.fail(token.root, reason)
                self._wake()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._context.loop.call(self._moved.set)

    def _fullness(self) -> str:
        most = self.welcome.max_open_trees
        return f"namespace '{self._context.namespace}' may have {most} open trees at an acker: begin more when some end"

    # The event loop

    def expire(self, now_s: float) -> float | None:
        """End the trees whose deadline has come, and return the time of the next."""
        with self._context.changed:
            due = self.trees.due(now_s)
            for root in due:
                self.outbox.fail(root, "")  # frees its entry
            if due:
                self._wake()
            next_s = self.trees.next_deadline_s
        _resolve([(waiting, Outcome(OutcomeKind.TIMED_OUT)) for waiting in due.values()])
        return next_s

    def lose_all(self, reason: str) -> None:
        """End all open trees as lost."""
        with self._context.changed:
            found = self.trees.end_all()
            self._lost += found
        _resolve([(waiting, Outcome(OutcomeKind.LOST, reason)) for waiting in found.values()])

    async def close(self) -> None:
        """End the stream and all open trees. What threads settle afterwards goes nowhere."""
        self.lose_all("the client was closed")
        await self.stop()
        with self._context.changed:
            self.acker_id = ""

    def _call(self, channel: grpc.aio.Channel) -> Call:
        return acker_pb2_grpc.AckerStub(channel).TrackTrees()

    def _hello(self) -> pb.TrackTreesRequest:
        hello = pb.TreesHello(namespace=self._context.namespace, client_id=self._context.client_id)
        return pb.TrackTreesRequest(hello=hello)

    async def _converse(self, channel: grpc.aio.Channel) -> bool:
        await super()._converse(channel)
        return False  # a drained acker has left, and another may take its address

    def _is_expected(self, reply: pb.TrackReply) -> bool:
        if not reply.acker_id or not reply.HasField("welcome"):
            raise ProtocolError(f"acker at {self.address} sent no welcome")
        with self._context.changed:
            if reply.acker_id == self.acker_id:
                self.outbox.broke(self._lost)
            else:
                self.outbox.forget()
            self._lost.clear()
            self.acker_id, self.welcome = reply.acker_id, reply.welcome
            self.is_held = reply.hold
        return True

    def _came_up(self) -> None:
        with self._context.changed:
            self.error, self.is_tried = None, True
            self.reconnect_s = RECONNECT_S
            self._context.changed.notify_all()

    def _on_reply(self, reply: pb.TrackReply) -> bool:
        ended: list[Ended] = []
        with self._context.changed:
            self.outbox.confirm(reply.confirmed)
            self.is_held = reply.hold
            for verdicts in reply.verdicts:
                self._settle(verdicts, ended)
            if self.outbox.is_idle:
                self._context.changed.notify_all()
        self._moved.set()
        self._pause_s = min(max(_PAUSE_S, reply.linger_us / 1e6), _MAX_PAUSE_S)
        _resolve(ended)
        return reply.drained

    def _settle(self, verdicts: pb.Verdicts, ended: list[Ended]) -> None:
        reasons = reason_messages.unpacked(verdicts.reasons) if verdicts.failed else {}

        def end(packed: bytes, outcome: Callable[[int], Outcome | TupletreeError]) -> None:
            for root in unpack_u64(packed):
                waiting = self.trees.end(root)
                if waiting is not None:
                    ended.append((waiting, outcome(root)))

        done, timed_out = Outcome(OutcomeKind.DONE), Outcome(OutcomeKind.TIMED_OUT)
        end(verdicts.acked, lambda root: done)
        end(verdicts.failed, lambda root: _failure(root, reasons))
        end(verdicts.expired, lambda root: timed_out)
        end(verdicts.refused, lambda root: OverloadedError(self._fullness()))

    async def _write(self, call: Call) -> None:
        clock = asyncio.get_running_loop().time
        next_s = 0.0
        while True:
            with self._context.changed:
                self._moved.clear()
                self._is_woken = False
                is_due = self.outbox.is_due
            if not is_due:
                await self._moved.wait()
                continue
            if (pause_s := next_s - clock()) > 0:
                await asyncio.sleep(pause_s)
            next_s = clock() + self._pause_s
            with self._context.changed:
                updates = self.outbox.take()
            await call.write(_message(updates))

    def _failed(self, error: grpc.aio.AioRpcError | TupletreeError) -> None:
        who = f"acker at {self.address}"
        found = error if isinstance(error, TupletreeError) else from_rpc_error(error, who)
        if isinstance(found, InternalError):  # as gRPC calls a write to a stream that breaks: the next stream tells
            found = UnavailableError(f"{who} cannot be used: {found}")
        self.error = found
        self.reconnect_s = RECONNECT_S if isinstance(self.error, UnavailableError) else _REFUSED_S

    def _went_down(self, was_up: bool) -> None:
        with self._context.changed:
            self.is_tried = True
            if self.error is None:
                self.error = UnavailableError(f"acker at {self.address} has ended the stream")
            self._context.changed.notify_all()
        if was_up:
            event(log, "trees.lost", acker=self.acker_id, trees=len(self.trees), cause=self.error)
            self.lose_all(f"the connection to acker {self.acker_id} broke: {self.error}")


def _resolve(ended: list[Ended]) -> None:
    """Tell who waits, without the lock: callbacks of futures can call the client."""
    for waiting, outcome in ended:
        if isinstance(outcome, TupletreeError):
            waiting.set_exception(outcome)
        else:
            waiting.set_result(outcome)


def _failure(root: int, reasons: Mapping[int, bytes]) -> Outcome:
    return Outcome(OutcomeKind.FAILED, reasons.get(root, b"").decode("utf-8", "replace"))


def _message(updates: Updates) -> pb.TrackTreesRequest:
    reasons = {root: reason for root, reason in updates.fails.items() if reason}
    shard = pb.ShardUpdate(
        init_roots=pack_u64(updates.begins),
        init_values=pack_u64(updates.begins.values()),
        ack_roots=pack_u64(updates.acks),
        ack_values=pack_u64(updates.acks.values()),
        fail_roots=pack_u64(updates.fails),
        fail_reasons=reason_messages.packed([reasons]),
    )
    return pb.TrackTreesRequest(updates=pb.LedgerUpdates(sequence=updates.sequence, shards=[shard]))
