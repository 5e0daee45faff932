"""DRPCClient: calls of functions that topologies answer."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import grpc
import grpc.aio

from tupletree._address import with_port
from tupletree._rpc.channels import aio_channel, channel
from tupletree._rpc.status import from_rpc_error
from tupletree._security.current import Security
from tupletree.config import load
from tupletree.drpc.call_stream import CallStream, UnreadError
from tupletree.drpc.outcomes import value_of
from tupletree.drpc.requests import Kind, check_function
from tupletree.drpc.values import encoded
from tupletree.errors import ConfigError, DRPCError, OverloadedError, TupletreeError, UnavailableError, UsageError
from tupletree.v1 import drpc_pb2, drpc_pb2_grpc

_SLACK_S: Final = 10.0
"""The server ends a request in time; this much later, a client no longer waits for a server that is silent."""

_REFUSED: Final = "RST_STREAM with error code 7"
"""gRPC's words for REFUSED_STREAM: a server that has too many calls to begin refuses further ones unseen."""

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
    made from any thread; those of ``execute_async`` from one event loop.

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
        self._streams: dict[str, CallStream] = {}
        self._open: set[CallStream] = set()  # also those that are retired, until their calls have ended

    def execute(self, function: str, args: Any = None, *, timeout_s: float | None = None) -> Any:
        """Call a function and wait for its answer.

        Args:
            timeout_s: at most ``drpc.request.timeout.secs`` of the server, which is the default.

        Raises:
            DRPCTimeoutError: the request, or its tuple tree, has taken too long.
            DRPCError: the request has failed, or was lost. It was possibly processed.
            OverloadedError, UnavailableError: no server has accepted the request. It was not processed.
            UsageError: the name of the function, the arguments or ``timeout_s`` are invalid.
            ForbiddenError: the token does not permit calls.
        """
        request = self._request(function, args, timeout_s)
        refused: TupletreeError | None = None
        for address in self._in_turn():
            try:
                reply = self._stub(address).Execute(request, timeout=self._deadline_s(timeout_s))
            except grpc.RpcError as error:
                refused = _refusal(error, address)
                continue
            return _value(reply)
        assert refused is not None
        raise refused

    async def execute_async(self, function: str, args: Any = None, *, timeout_s: float | None = None) -> Any:
        """Call a function and await its answer, as ``execute``. Cancelling the call cancels the request."""
        request = self._request(function, args, timeout_s)
        refused: TupletreeError | None = None
        for address in self._in_turn():
            try:
                reply = await self._reply(address, request, self._deadline_s(timeout_s))
            except UnavailableError as error:
                refused = error
                continue
            if reply.refusal.kind == drpc_pb2.DrpcRefusal.KIND_OVERLOADED:
                refused = OverloadedError(f"the DRPC server at {address}: {reply.refusal.reason}")
                continue
            if reply.HasField("refusal"):
                raise UsageError(reply.refusal.reason)
            return _value(reply)
        assert refused is not None
        raise refused

    async def _reply(self, address: str, request: drpc_pb2.ExecuteRequest, deadline_s: float) -> drpc_pb2.NumberedReply:
        """Make a call on the stream to a server, or on the next one if the server retires that stream first."""
        call = (request.function, request.args, request.timeout_s, deadline_s)
        try:
            return await self._stream(address).call(*call)
        except UnreadError:
            return await self._stream(address).call(*call)

    def close(self) -> None:
        """Close the connections of ``execute``."""
        with self._lock:
            channels, self._channels = self._channels, {}
        for one in channels.values():
            one.close()

    async def aclose(self) -> None:
        """Close all connections. Calls in progress are cancelled."""
        self.close()
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

    def _request(self, function: str, args: Any, timeout_s: float | None) -> drpc_pb2.ExecuteRequest:
        if timeout_s is not None and not timeout_s > 0:
            raise UsageError(f"timeout_s is {timeout_s}, expected more than 0")
        text = encoded(args, f"the arguments of {function!r}").encode()
        return drpc_pb2.ExecuteRequest(function=check_function(function), args=text, timeout_s=timeout_s or 0)

    def _deadline_s(self, timeout_s: float | None) -> float:
        return (timeout_s or self.timeout_s) + _SLACK_S

    def _in_turn(self) -> list[str]:
        first = next(self._turns) % len(self.servers)
        return self.servers[first:] + self.servers[:first]

    def _stub(self, address: str) -> Any:
        with self._lock:
            if address not in self._channels:
                self._channels[address] = channel(address, self._security)
            return drpc_pb2_grpc.DrpcStub(self._channels[address])

    def _stream(self, address: str) -> CallStream:
        stream = self._streams.get(address)
        if stream is None or not stream.is_open:
            if address not in self._aio_channels:
                self._aio_channels[address] = aio_channel(address, self._security)
            stream = CallStream(self._aio_channels[address], address, self._open.discard)
            self._streams[address] = stream
            self._open.add(stream)
        return stream


def _value(reply: drpc_pb2.ExecuteReply | drpc_pb2.NumberedReply) -> Any:
    if not reply.HasField("result"):
        reason = reply.failure.reason or "the DRPC server has sent neither an answer nor a reason"
        return value_of(_KINDS.get(reply.failure.kind, Kind.FAILED), reason)
    return value_of(Kind.ANSWERED, reply.result)


def _refusal(error: Any, address: str) -> TupletreeError:
    """Return the error of a call that was not accepted. Raises the error of a call that another server cannot mend."""
    peer = f"the DRPC server at {address}"
    known = from_rpc_error(error, peer)
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return OverloadedError(str(known))
    if code is grpc.StatusCode.UNAVAILABLE and _REFUSED in details:
        return OverloadedError(
            f"{peer} has more calls than it can begin, and has not accepted this one: call again later"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        raise value_error(Kind.TIMEOUT, f"{peer} did not answer in time") from None
    if code is grpc.StatusCode.UNAVAILABLE and ("failed to connect" in details.lower() or "is ending" in details):
        return known
    if isinstance(known, UnavailableError):
        raise DRPCError(f"the call was lost: {known}; it was possibly processed", Kind.LOST.value) from None
    raise known from None


def value_error(kind: Kind, text: str) -> DRPCError:
    """Return the error of a request's end."""
    try:
        value_of(kind, text)
    except DRPCError as error:
        return error
    raise AssertionError(f"{kind} is no failure")
