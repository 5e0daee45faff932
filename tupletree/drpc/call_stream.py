"""A stream of calls to one DRPC server. Runs on the event loop that has opened it.

    open -> hello -> first reply: up, calls are written -> replies ... -> retired by the server, or broken -> ended

Each call ends once. A stream that has ended is not opened again: the next call needs another.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from tupletree._rpc.status import from_rpc_error
from tupletree.drpc.linger import Linger
from tupletree.drpc.open_calls import OpenCalls
from tupletree.drpc.requests import Kind
from tupletree.errors import DRPCError, DRPCTimeoutError, ProtocolError, TupletreeError, UnavailableError
from tupletree.v1 import drpc_pb2 as pb
from tupletree.v1 import drpc_pb2_grpc

MAX_OPEN: Final = 10_000
"""Calls that a stream waits for."""

_WRITE_FAILED: Final = "Internal error from Core"
"""gRPC's words for a write to a stream that has just broken; the status of the break itself is lost then."""

Waiting = asyncio.Future[pb.NumberedReply]


class UnreadError(UnavailableError):
    """The server has retired the stream before it read the call: another stream to it can make the call."""


class CallStream:
    """The calls on one stream.

    Attributes:
        is_open: further calls can be made.
        loop: the event loop that the stream runs on.
    """

    def __init__(self, channel: grpc.aio.Channel, address: str, on_end: Callable[[CallStream], None]) -> None:
        self.is_open = True
        self.loop = asyncio.get_running_loop()
        self._peer = f"the DRPC server at {address}"
        self._channel = channel
        self._calls: OpenCalls[Waiting] = OpenCalls(MAX_OPEN)
        self._has_news = asyncio.Event()
        self._linger = Linger()
        self._task = self.loop.create_task(self._run())
        self._task.add_done_callback(lambda _: on_end(self))

    async def call(self, function: str, args: bytes, timeout_s: float, deadline_s: float) -> pb.NumberedReply:
        """Make a call and return its reply. Cancelling cancels the request.

        Args:
            timeout_s: the server's limit.
            deadline_s: the time after which a server that is silent is not waited for.

        Raises:
            UnreadError, UnavailableError, OverloadedError: the call was not accepted.
            DRPCError: the stream has broken; the call was possibly processed.
            DRPCTimeoutError: the deadline has passed.
        """
        waiting: Waiting = self.loop.create_future()
        number = self._calls.begin(function, args, timeout_s, waiting)
        self._has_news.set()
        timer = self.loop.call_later(deadline_s, self._expire, number, waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            self._cancel(number)
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        """End the stream. Its calls are cancelled."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def _cancel(self, number: int) -> bool:
        is_unsent = self._calls.cancel(number)
        self._has_news.set()
        return is_unsent

    def _expire(self, number: int, waiting: Waiting) -> None:
        processed = "was not sent" if self._cancel(number) else "was possibly processed"
        if not waiting.done():
            text = f"{self._peer} did not answer in time; the call {processed}"
            waiting.set_exception(DRPCTimeoutError(text, Kind.TIMEOUT.value))

    async def _run(self) -> None:
        error: TupletreeError | None = None
        try:
            await self._converse()
            error = UnavailableError(f"{self._peer} has ended the stream of calls")
        except grpc.aio.AioRpcError as broken:
            error = _error_of(broken, self._peer)
        except ProtocolError as rubbish:
            error = rubbish
        finally:
            self._end(error)

    async def _converse(self) -> None:
        call = drpc_pb2_grpc.DrpcStub(self._channel).Call()
        writer: asyncio.Task[None] | None = None
        try:
            await call.write(pb.CallRequest())
            while (reply := await call.read()) is not grpc.aio.EOF:
                if not isinstance(reply, pb.CallReply):  # gRPC's way to say so
                    raise ProtocolError(f"{self._peer} has sent a message that cannot be decoded")
                if writer is None:
                    writer = self.loop.create_task(self._write(call))
                self._on_reply(reply)
        finally:
            if writer is not None:
                writer.cancel()
            call.cancel()

    async def _write(self, call: Any) -> None:
        """Write what is new until cancelled. A stream that has broken is noticed by its reader."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                await self._has_news.wait()
                self._has_news.clear()
                while self._calls.has_news and self.is_open:
                    if (pause_s := self._linger.pause_s(self.loop.time())) > 0:
                        await asyncio.sleep(pause_s)
                    calls, cancelled = self._calls.take()
                    self._linger.wrote(len(calls) + len(cancelled), self.loop.time())
                    numbered = [
                        pb.NumberedCall(
                            number=one.number, function=one.function, args=one.args, timeout_s=one.timeout_s
                        )
                        for one in calls
                    ]
                    await call.write(pb.CallRequest(calls=numbered, cancelled=cancelled))

    def _on_reply(self, reply: pb.CallReply) -> None:
        for one in reply.replies:
            waiting = self._calls.end(one.number)
            if waiting is not None and not waiting.done():  # else its caller has left
                waiting.set_result(one)
        if reply.HasField("read_until"):
            self.is_open = False
            _fail(self._calls.unread(reply.read_until), functools.partial(UnreadError, f"{self._peer} is ending"))

    def _end(self, error: TupletreeError | None) -> None:
        """End the calls. ``error`` None: the client is closed."""
        self.is_open = False
        unsent, sent = self._calls.broken()
        if error is None:
            for waiting in (*unsent, *sent):
                waiting.cancel()
            return
        _fail(unsent, functools.partial(type(error), str(error)))
        text = f"the call was lost: {error}; it was possibly processed"
        _fail(sent, functools.partial(DRPCError, text, Kind.LOST.value))


def _error_of(broken: grpc.aio.AioRpcError, peer: str) -> TupletreeError:
    if broken.code() is grpc.StatusCode.INTERNAL and broken.details() == _WRITE_FAILED:
        return UnavailableError(f"{peer} cannot be reached: the connection broke during a write")
    return from_rpc_error(broken, peer)


def _fail(waiting: list[Waiting], error: Callable[[], TupletreeError]) -> None:
    for one in waiting:
        if not one.done():
            one.set_exception(error())
