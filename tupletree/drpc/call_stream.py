"""A stream of calls to one DRPC server, on the event loop that has opened it.

    open -> hello -> first reply: up, calls are written -> replies ... -> retired by the server, or broken -> ended

Each call ends once. A stream that has ended is not opened again: the next call needs another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from tupletree.drpc.linger import Linger
from tupletree.drpc.stream_state import StreamState
from tupletree.errors import TupletreeError, UnavailableError, named
from tupletree.v1 import drpc_pb2 as pb
from tupletree.v1 import drpc_pb2_grpc


class CallStream:
    """The calls on one stream. ``on_end`` is called when it has ended."""

    def __init__(self, channel: grpc.aio.Channel, address: str, on_end: Callable[[CallStream], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._state = StreamState(address)
        self._has_news = asyncio.Event()
        self._linger = Linger()
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(lambda _: on_end(self))

    @property
    def is_open(self) -> bool:
        """True if further calls can be made."""
        return self._state.is_open

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
        waiting: asyncio.Future[pb.NumberedReply] = self._loop.create_future()
        number = self._state.calls.begin(function, args, timeout_s, waiting)
        self._has_news.set()
        timer = self._loop.call_later(deadline_s, self._expire, number, waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            self._state.calls.cancel(number)
            self._has_news.set()
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        """End the stream. Its calls are cancelled."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def drop(self) -> None:
        """End the stream without waiting for its end, from any thread."""
        with contextlib.suppress(RuntimeError):  # the event loop is closed, and with it the connection
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _expire(self, number: int, waiting: asyncio.Future[pb.NumberedReply]) -> None:
        error = self._state.late(number)
        self._has_news.set()
        if not waiting.done():
            waiting.set_exception(error)

    async def _run(self) -> None:
        error: TupletreeError | None = None
        try:
            await self._converse()
            error = UnavailableError(self._state.why)
        except grpc.aio.AioRpcError as broken:
            error = self._state.error_of(broken)
        except TupletreeError as refused:  # rubbish of the server, or a token that cannot be read
            error = refused
        except Exception as unknown:
            error = UnavailableError(f"{self._state.peer} cannot be called: {named(unknown)}")
        finally:
            self._state.end(error)

    async def _converse(self) -> None:
        call = drpc_pb2_grpc.DrpcStub(self._channel).Call()
        writer: asyncio.Task[None] | None = None
        try:
            await call.write(pb.CallRequest())
            while (reply := await call.read()) is not grpc.aio.EOF:
                self._state.on_reply(reply)
                if writer is None:
                    writer = self._loop.create_task(self._write(call))
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
                while self._state.can_write:
                    if (pause_s := self._linger.pause_s(self._loop.time())) > 0:
                        await asyncio.sleep(pause_s)
                        continue
                    request, count = self._state.request()
                    self._linger.wrote(count, self._loop.time())
                    await call.write(request)
