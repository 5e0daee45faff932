"""A bidirectional gRPC stream that is opened again whenever it breaks. Runs on one asyncio thread.

    open the channel --> send the hello --> first reply: up, writing begins --> replies ... --> down --> pause --> again

Links of workers to peers and to ackers are subclasses, and links of programs to ackers. Each decides what it keeps from
one stream to the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from tupletree._log import event
from tupletree._rpc.channels import aio_channel
from tupletree._security.current import Security
from tupletree.errors import TupletreeError

log = logging.getLogger(__name__)

RECONNECT_S = 0.1

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class ReconnectingStream(Generic[Request, Reply]):
    """Base class of a link. ``kind`` and ``name`` identify the other side in the log.

    Attributes:
        is_up: the other side has answered the hello, and the stream has not broken since.
        connects: number of times the link came up.
        reconnect_s: the pause before the next attempt.
    """

    def __init__(self, kind: str, name: str, address: str, security: Security | None = None) -> None:
        self.is_up = False
        self.connects = 0
        self.reconnect_s = RECONNECT_S
        self._security = security
        self.address = address
        self._kind = kind
        self._name = name
        self._told: str | None = None  # the cause in the log of why there is no stream; None: not told yet
        self._moved = asyncio.Event()  # set when there is something to write, or room to write
        self._task = asyncio.create_task(self._keep_connected())

    def _call(self, channel: grpc.aio.Channel) -> grpc.aio.StreamStreamCall[Request, Reply]:
        """Open the stream."""
        raise NotImplementedError

    def _hello(self) -> Request:
        """Return the first request of a stream."""
        raise NotImplementedError

    def _is_expected(self, reply: Reply) -> bool:
        """True if the first reply comes from the right process; otherwise the stream is closed."""
        return True

    def _came_up(self) -> None:
        """Called when the first reply has arrived."""
        raise NotImplementedError

    def _on_reply(self, reply: Reply) -> bool:
        """Handle a reply. Return True if the other side has ended the stream for good."""
        raise NotImplementedError

    async def _write(self, call: grpc.aio.StreamStreamCall[Request, Reply]) -> None:
        """Write requests until cancelled."""
        raise NotImplementedError

    def _ended(self) -> None:
        """Called when the other side has ended the stream for good. ``_went_down`` follows."""

    def _failed(self, error: grpc.aio.AioRpcError | TupletreeError) -> None:
        """Called with the error with which a stream has ended, or could not be opened. ``_went_down`` follows."""

    def _went_down(self, was_up: bool) -> None:
        """Called when the stream has ended, or could not be opened (``was_up`` is False)."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End the stream and open no other."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _keep_connected(self) -> None:
        while True:
            channel = None
            try:
                channel = aio_channel(self.address, self._security)
                if await self._converse(channel):
                    self._ended()
                    return
            except grpc.aio.AioRpcError as error:
                self._failed(error)
                if self.is_up or error.code() is not grpc.StatusCode.UNAVAILABLE:
                    self._tell_once(str(error.details()))
            except TupletreeError as error:  # a certificate or token that is being replaced cannot be read, say
                self._failed(error)
                self._tell_once(str(error))
            finally:
                was_up, self.is_up = self.is_up, False
                self._went_down(was_up)
                if channel is not None:
                    await channel.close()
            await asyncio.sleep(self.reconnect_s)

    def _tell_once(self, cause: str) -> None:
        """Log why there is no stream, unless the attempt before failed for the same cause."""
        if cause != self._told:
            self._told = cause
            self._event("lost", cause=cause)

    async def _converse(self, channel: grpc.aio.Channel) -> bool:
        """Run one stream from the hello to its end. Return True if the other side has ended it for good."""
        call = self._call(channel)
        await call.write(self._hello())
        writer = None
        try:
            async for reply in call:
                if writer is None:
                    if not self._is_expected(reply):
                        return False
                    self.is_up = True
                    self.connects += 1
                    self._told = None
                    self._event("up", address=self.address)
                    self._came_up()
                    writer = asyncio.create_task(self._write(call))
                if self._on_reply(reply):
                    return True
            return False
        finally:
            if writer is not None:
                writer.cancel()
            call.cancel()

    def _event(self, what: str, **facts: Any) -> None:
        named: dict[str, Any] = {self._kind: self._name, **facts}
        event(log, f"{self._kind}.{what}", **named)
