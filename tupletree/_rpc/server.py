"""A daemon's gRPC server: bind first, translate errors, follow the daemon's readiness in grpc.health.v1."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from traceback import clear_frames
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio

from tupletree._address import address_of
from tupletree._daemon.health import Readiness
from tupletree._daemon.metrics import calls_active, calls_failed, calls_started
from tupletree._net import bind
from tupletree._rpc.channels import KEEPALIVE_TIME_MS, KEEPALIVE_TIMEOUT_MS, MAX_MESSAGE_BYTES
from tupletree._rpc.status import to_status
from tupletree._security.current import current
from tupletree._security.guard import Gatekeeper, Guard
from tupletree._security.methods import parts_of
from tupletree._security.tls import Tls
from tupletree.errors import ProtocolError, TupletreeError, UsageError

log = logging.getLogger("tupletree.rpc")

MAX_CONTROL_BYTES: Final = 16 * 1024 * 1024
"""Maximum request to a nimbus or supervisor. The largest is the report of a worker with thousands of tasks."""

SERVER_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # a second daemon on the same port must fail, not share it
    ("grpc.keepalive_time_ms", KEEPALIVE_TIME_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_TIME_MS // 2),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_ping_strikes", 2),  # a client that pings more often is disconnected
    ("grpc.max_concurrent_streams", 1_000),  # per connection
    ("grpc.max_allowed_incoming_connections", 5_000),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.absolute_max_metadata_size", 32 * 1024),
)

_SERVING: Final = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING

Handler = Callable[[Any, Any], Any]

_MAX_SENTENCE_LENGTH: Final = 1000  # a sentence that quotes its input must still fit into a header
_UNDECODABLE: Final = object()
_UNDECODABLE_SENTENCE: Final = "the request cannot be decoded"


async def _abort(method: str, error: Exception, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    """End the call with the status of ``error``. Always raises.

    gRPC stores the raised exception with the call. A traceback frame that references the call or its request would keep
    both alive until garbage collection: so frames are cleared here, and callers drop their references.
    """
    clear_frames(error.__traceback__)
    if isinstance(error, NotImplementedError):  # from the generated base class: a method not offered
        code, sentence = grpc.StatusCode.UNIMPLEMENTED, "this call is not offered here"
    else:
        # A DecodeError comes from the request stream.
        code, sentence = to_status(ProtocolError(_UNDECODABLE_SENTENCE) if isinstance(error, DecodeError) else error)
        calls_failed.labels(method, code.name).inc()
    if not isinstance(error, TupletreeError) and code is grpc.StatusCode.INTERNAL:
        log.error("rpc.failed method=%s", method, exc_info=error)
    sentence = sentence if len(sentence) <= _MAX_SENTENCE_LENGTH else sentence[:_MAX_SENTENCE_LENGTH] + "…"
    abort = context.abort(code, sentence)
    del error, context
    await abort


def _translated(method: str, handler: Handler) -> Handler:
    """Return ``handler`` with errors translated to status codes. A generator stays a generator, as gRPC requires."""

    started, active = calls_started.labels(method), calls_active.labels(method)

    @functools.wraps(handler)
    async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        started.inc()
        active.inc()
        try:
            _check_decoded(request)
            return await handler(request, context)
        except (grpc.aio.AbortError, asyncio.CancelledError):
            raise
        except Exception as error:
            abort = _abort(method, error, context)
        finally:
            active.dec()
        del request, context
        await abort

    @functools.wraps(handler)
    async def generate(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        started.inc()
        active.inc()
        try:
            _check_decoded(request)
            async with contextlib.aclosing(handler(request, context)) as replies:
                async for reply in replies:
                    yield reply
            return
        except (grpc.aio.AbortError, asyncio.CancelledError):
            raise
        except Exception as error:
            abort = _abort(method, error, context)
        finally:
            active.dec()
        del request, context
        await abort

    return generate if inspect.isasyncgenfunction(handler) else call


def _check_decoded(request: Any) -> None:
    if request is _UNDECODABLE:
        raise ProtocolError(_UNDECODABLE_SENTENCE)


def _lenient(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    """Return ``deserialize``, but pass undecodable bytes on to the handler: gRPC would log a traceback for each."""
    assert deserialize is not None

    def decode(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError:
            return _UNDECODABLE

    return decode


class ErrorTranslation(grpc.aio.ServerInterceptor):
    """Translates a TupletreeError of a servicer to its status code; other exceptions are logged and become INTERNAL.

    Handlers must be coroutine functions or asynchronous generator functions.
    """

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        method: Any = await continuation(handler_call_details)
        if method is None:
            return None
        name = handler_call_details.method
        make, handler = parts_of(method)
        decode = method.request_deserializer if method.request_streaming else _lenient(method.request_deserializer)
        return make(_translated(str(name), handler), decode, method.response_serializer)


class HealthService(health_aio.HealthServicer):  # type: ignore[misc]
    """The standard health service, except that a stop ends its watchers, which would otherwise hold the server open."""

    def __init__(self) -> None:
        super().__init__()
        self._watchers: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def Watch(self, request: Any, context: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._watchers.add(task)
        try:
            await super().Watch(request, context)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        finally:
            self._watchers.discard(task)

    async def stop(self) -> None:
        """Tell every watcher NOT_SERVING, then end its stream."""
        await self.enter_graceful_shutdown()
        await asyncio.sleep(0)  # lets the watchers send the new status
        self._stopping = True
        for task in tuple(self._watchers):
            task.cancel()


class RpcServer:
    """A running server. ``port`` is the actual port."""

    def __init__(self, server: grpc.aio.Server, port: int, health: HealthService, readiness: Readiness | None) -> None:
        self.port = port
        self._server = server
        self._health = health
        self._readiness = readiness
        self._loop = asyncio.get_running_loop()
        self._updates: set[asyncio.Task[None]] = set()
        self._cancel_readiness = readiness.on_change(self._readiness_changed) if readiness else None

    def _readiness_changed(self) -> None:
        # Called from the thread that changed the readiness.
        with contextlib.suppress(RuntimeError):  # the loop is closed: no watcher is left
            self._loop.call_soon_threadsafe(self._start_update)

    def _start_update(self) -> None:
        task = self._loop.create_task(self.update_health())
        self._updates.add(task)
        task.add_done_callback(self._updates.discard)

    async def update_health(self) -> None:
        ready = self._readiness is None or self._readiness.ready
        await self._health.set("", _SERVING if ready else _NOT_SERVING)

    async def stop(self, grace_s: float = 0.0) -> None:
        """Refuse new calls at once, give calls in flight ``grace_s`` seconds, then cancel them. Idempotent."""
        if self._cancel_readiness is not None:
            self._cancel_readiness()
        await self._health.stop()
        await self._server.stop(grace_s)


async def start_server(
    servicers: Sequence[Callable[[grpc.aio.Server], None]],
    host: str,
    port: int,
    readiness: Readiness | None = None,
    gate: Gatekeeper | None = None,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> RpcServer:
    """Bind ``host:port`` (0: any free port), add the services and serve.

    ``servicers`` are functions that add one service each: ``functools.partial(add_AckerServicer_to_server, servicer)``.
    The standard health service is added; the status of "" follows ``readiness`` (None: always serving).
    ``gate`` authorizes every call except those of the health service; None: a gate without knowledge of topologies. A
    request is at most ``max_message_bytes`` long. TLS follows the settings of this process.
    Raises UsageError if the port is in use or the address is not an address of this machine.
    """
    gate = gate or Gatekeeper(current())
    limit = ("grpc.max_receive_message_length", max_message_bytes)
    server = grpc.aio.server(interceptors=[ErrorTranslation(), Guard(gate)], options=[*SERVER_OPTIONS, limit])
    health = HealthService()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    for add in servicers:
        add(server)
    real_port = _bind(server, host, port, gate.security.tls)
    running = RpcServer(server, real_port, health, readiness)
    await running.update_health()
    await server.start()
    return running


def _bind(server: grpc.aio.Server, host: str, port: int, tls: Tls | None) -> int:
    bind(host, port).close()  # explains a failure: gRPC would raise without a reason, and log
    address = address_of(host, port)
    try:
        if tls is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, tls.server_credentials())
    except RuntimeError as error:
        raise UsageError(f"port {port} on {host} is in use") from error
