"""The HTTP server of nimbus: uvicorn in the daemon's event loop, with the limits of the other daemons' HTTP server.

uvicorn itself waits forever for the rest of a request and for a client that does not read the response, and rejects
all requests beyond its connection limit. Here requests and responses have a time limit, and a new connection replaces
the oldest, so that idle clients cannot block a health check (``tupletree._daemon.http_connection.Limits``).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from tupletree._daemon.http_connection import Limits

_GRACE_S: Final = 1.0
_WRITE_BUFFER_BYTES: Final = 0  # buffer no data that the client does not read
LIMITS: Final = Limits()


class WebServer:
    """HTTP server for an ASGI application, running until ``stop``."""

    def __init__(self, application: ASGIApp, limits: Limits = LIMITS, tls: ssl.SSLContext | None = None) -> None:
        config = uvicorn.Config(
            application,
            http=type("Bounded", (_Connection,), {"limits": limits}),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            log_level="critical",  # malformed requests are answered, not logged
            proxy_headers=False,
            server_header=False,
            backlog=128,
            timeout_keep_alive=int(limits.idle_s),
            h11_max_incomplete_event_size=limits.header_bytes,
        )
        config.load()
        config.ssl = tls
        self._server = _Server(config, limits.request_s)
        self._serving: asyncio.Task[None] | None = None

    async def start(self, listener: socket.socket) -> None:
        """Serve at a bound socket."""
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:
            if self._serving.done():
                await self._serving
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Stop listening, and close open connections within a second. Idempotent."""
        serving, self._serving = self._serving, None
        if serving is not None:
            self._server.finish()
            await serving


class _Server(uvicorn.Server):
    """uvicorn's server without signal handlers, and without a poll for shutdown ten times a second."""

    def __init__(self, config: uvicorn.Config, handshake_s: float) -> None:
        super().__init__(config)
        self._handshake_s = handshake_s
        self._finished = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start like uvicorn, with a timeout for the TLS handshake.

        The timers and the connection limit of ``_Connection`` apply only after the handshake.
        """
        config, loop = self.config, asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return config.http_protocol_class(config=config, server_state=self.server_state, app_state={})  # type: ignore[call-arg]

        tls: dict[str, Any] = (
            {} if config.ssl is None else {"ssl": config.ssl, "ssl_handshake_timeout": self._handshake_s}
        )
        self.servers = [
            await loop.create_server(protocol, sock=one, backlog=config.backlog, **tls) for one in sockets or ()
        ]
        self.started = True

    def finish(self) -> None:
        self._finished.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        while not self._finished.is_set():
            self.server_state.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._finished.wait(), 1.0)

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        for server in self.servers:
            for listener in server.sockets:
                asyncio.get_running_loop().remove_reader(listener)
        await asyncio.sleep(0)  # asyncio loses a socket if its server closes between accept and connection_made
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()  # idle connections close now, the others after their response
        deadline_s = time.monotonic() + _GRACE_S
        while self.server_state.connections and time.monotonic() < deadline_s:
            await asyncio.sleep(0.01)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in list(self.server_state.tasks):
            task.cancel()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=_GRACE_S)
        for server in self.servers:
            await server.wait_closed()


class _Connection(H11Protocol):
    """The protocol of one connection, with timeouts.

    ``idle_s`` applies between requests. ``request_s`` applies while a request is being received, and while the client
    does not read the response. No timeout applies while the application builds the response.
    """

    limits: Limits
    made_s: float
    _clock: asyncio.TimerHandle | None = None
    _phase = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        others = [one for one in self.connections if isinstance(one, _Connection)]
        if len(others) >= self.limits.connections:
            oldest = min(others, key=lambda one: one.made_s)
            self.connections.discard(oldest)
            oldest.transport.abort()
        self.made_s = self.loop.time()
        super().connection_made(transport)
        # asyncio's TLS transport treats a limit of 0 as already reached.
        is_tls = transport.get_extra_info("sslcontext") is not None
        transport.set_write_buffer_limits(1 if is_tls else _WRITE_BUFFER_BYTES)
        self._restart_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)
        self._stop()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._restart_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._restart_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._restart_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._restart_timer()

    def _restart_timer(self) -> None:
        """Restart the timer if the phase has changed."""
        phase = self._present_phase()
        if phase == self._phase:
            return
        self._stop()
        self._phase = phase
        seconds = {"idle": self.limits.idle_s, "answering": None}.get(phase, self.limits.request_s)
        if seconds is not None:
            self._clock = self.loop.call_later(seconds, self.transport.abort)

    def _present_phase(self) -> str:
        if self.flow.write_paused:
            return "not taken"
        state = self.conn.their_state
        if state is h11.SEND_BODY or (state is h11.IDLE and self.conn.trailing_data[0]):
            return "receiving"
        return "answering" if self.cycle is not None and not self.cycle.response_complete else "idle"

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        self._phase = ""
