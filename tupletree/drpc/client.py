"""DRPCClient: calls of functions that topologies answer."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import grpc
import grpc.aio

from tupletree._address import with_port
from tupletree._limits import check_timeout
from tupletree._rpc.channels import aio_channel, channel
from tupletree._security.current import Security
from tupletree.config import load
from tupletree.drpc.attempts import Attempts
from tupletree.drpc.blocking_stream import BlockingStream
from tupletree.drpc.call_stream import CallStream
from tupletree.drpc.outcomes import value_of
from tupletree.drpc.requests import Kind, check_function
from tupletree.drpc.values import encoded
from tupletree.errors import ConfigError, ForbiddenError, OverloadedError, UnavailableError, UsageError
from tupletree.v1 import drpc_pb2

_KINDS: Final = {
    drpc_pb2.DrpcFailure.KIND_TIMEOUT: Kind.TIMEOUT,
    drpc_pb2.DrpcFailure.KIND_LOST: Kind.LOST,
    drpc_pb2.DrpcFailure.KIND_SHUTDOWN: Kind.SHUTDOWN,
}


class DRPCClient:
    """Calls functions through DRPC servers, each in turn.

        with DRPCClient("drpc-1,drpc-2") as client:
            client.execute("reach", "foo.com/blog/1")

        async with DRPCClient() as client:
            await client.execute_async("score", {"age": 41})

    Arguments and answers are JSON values. A call that its server has not accepted (it cannot be reached, or has no
    room) goes to the next server. A call that was accepted is never repeated: it was possibly processed. Calls may be
    made from any thread; those of ``execute_async`` from one event loop, or from another after that one is closed. The
    streams of a client that is dropped without ``close`` end with it.

    Args:
        servers: addresses (``host`` or ``host:port``), as a comma-separated string or a list; None: ``drpc.servers``.
        conf: the configuration; None: the result of ``tupletree.config.load()``.

    Raises:
        ConfigError: there is no server.
    """

    def __init__(self, servers: str | Sequence[str] | None = None, conf: Mapping[str, Any] | None = None) -> None:
        if conf is None or "drpc.servers" not in conf:
            conf = {**load(), **(conf or {})}
        named = conf["drpc.servers"] if servers is None else servers
        if isinstance(named, str):
            named = [part.strip() for part in named.split(",") if part.strip()]
        if not named:
            raise ConfigError("there is no DRPC server to call: pass servers, or set drpc.servers")
        self.servers = [with_port(server, int(conf.get("drpc.port") or 3772)) for server in named]
        self.timeout_s = float(conf.get("drpc.request.timeout.secs") or 600)
        self._security = Security.of_client(conf)
        self._turns = itertools.count()
        self._lock = threading.Lock()
        self._channels: dict[str, grpc.Channel] = {}
        self._aio_channels: dict[str, grpc.aio.Channel] = {}
        self._blocking: dict[str, BlockingStream] = {}
        self._streams: dict[str, CallStream] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._open: set[CallStream] = set()  # also those that are retired, until their calls have ended
        weakref.finalize(self, _drop, self._blocking, self._open)

    def execute(self, function: str, args: Any = None, *, timeout_s: float | None = None) -> Any:
        """Call a function and wait for its answer.

        Args:
            timeout_s: for all attempts together; at most ``drpc.request.timeout.secs`` of the server, which is the
                default.

        Raises:
            DRPCTimeoutError: the request, or its tuple tree, has taken too long.
            DRPCError: the request has failed, or was lost. It was possibly processed.
            OverloadedError, UnavailableError: no server has accepted the request. It was not processed.
            UsageError: the name of the function, the arguments or ``timeout_s`` are invalid.
            ForbiddenError: the token does not permit calls, or not of this function.
        """
        attempts = self._attempts_of(function, args, timeout_s)
        for address in attempts.at(self._in_turn()):
            try:
                return _value(self._blocking_stream(address).call(*attempts.call(time.monotonic())), address)
            except UnavailableError as error:
                attempts.refused = error
        assert attempts.refused is not None
        raise attempts.refused

    async def execute_async(self, function: str, args: Any = None, *, timeout_s: float | None = None) -> Any:
        """Call a function and await its answer, as ``execute``. Cancelling the call cancels the request."""
        attempts = self._attempts_of(function, args, timeout_s)
        for address in attempts.at(self._in_turn()):
            try:
                return _value(await self._stream(address).call(*attempts.call(time.monotonic())), address)
            except UnavailableError as error:
                attempts.refused = error
        assert attempts.refused is not None
        raise attempts.refused

    def close(self) -> None:
        """Close the connections of ``execute``. Further calls raise UsageError; ``aclose`` closes all connections."""
        with self._lock:
            self._is_closed = True
            blocking = list(self._blocking.values())
            self._blocking.clear()
            channels, self._channels = self._channels, {}
        for stream in blocking:
            stream.close()
        for one in channels.values():
            one.close()

    async def aclose(self) -> None:
        """Close all connections. Calls in progress are cancelled."""
        self.close()
        self._enter_loop()
        for stream in list(self._open):
            await stream.close()
        self._streams.clear()
        channels, self._aio_channels = self._aio_channels, {}
        for one in channels.values():
            await one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def _attempts_of(self, function: str, args: Any, timeout_s: float | None) -> Attempts:
        if timeout_s is not None:
            check_timeout(timeout_s)
        text = encoded(args, f"the arguments of {function!r}").encode()
        return Attempts(
            check_function(function), text, timeout_s or 0, time.monotonic() + (timeout_s or self.timeout_s)
        )

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError("this DRPCClient is closed")

    def _in_turn(self) -> list[str]:
        first = next(self._turns) % len(self.servers)
        return self.servers[first:] + self.servers[:first]

    def _blocking_stream(self, address: str) -> BlockingStream:
        with self._lock:
            self._check_open()
            stream = self._blocking.get(address)
            if stream is None or not stream.is_open:
                if address not in self._channels:
                    self._channels[address] = channel(address, self._security)
                stream = self._blocking[address] = BlockingStream(self._channels[address], address)
            return stream

    def _enter_loop(self) -> None:
        """Begin anew if the event loop of earlier calls is closed. Raises UsageError if it is open and another."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop and not self._loop.is_closed():
            raise UsageError("execute_async was called in another event loop: make a DRPCClient in each")
        if self._loop is not loop:
            self._aio_channels.clear()
            self._streams.clear()
            self._open.clear()
            self._loop = loop

    def _stream(self, address: str) -> CallStream:
        self._check_open()
        self._enter_loop()
        stream = self._streams.get(address)
        if stream is None or not stream.is_open:
            if address not in self._aio_channels:
                self._aio_channels[address] = aio_channel(address, self._security)
            stream = CallStream(self._aio_channels[address], address, self._open.discard)
            self._streams[address] = stream
            self._open.add(stream)
        return stream


def _drop(blocking: dict[str, BlockingStream], streams: set[CallStream]) -> None:
    """End the streams of a client that nobody refers to; runs in any thread, even in one of theirs."""
    for blocking_stream in blocking.values():
        blocking_stream.drop()
    for stream in streams:
        stream.drop()


def _value(reply: drpc_pb2.NumberedReply, address: str) -> Any:
    """Return the answer. Raises what the reply says."""
    if reply.HasField("result"):
        return value_of(Kind.ANSWERED, reply.result)
    if reply.HasField("refusal"):
        if reply.refusal.kind == drpc_pb2.DrpcRefusal.KIND_OVERLOADED:
            raise OverloadedError(f"the DRPC server at {address}: {reply.refusal.reason}")
        if reply.refusal.kind == drpc_pb2.DrpcRefusal.KIND_FORBIDDEN:
            raise ForbiddenError(reply.refusal.reason)
        raise UsageError(reply.refusal.reason)
    reason = reply.failure.reason or "the DRPC server has sent neither an answer nor a reason"
    return value_of(_KINDS.get(reply.failure.kind, Kind.FAILED), reason)
