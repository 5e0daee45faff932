"""A listening HTTP socket and its connections: a daemon's, or a spout's that receives requests."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from tupletree._daemon.http_connection import Connection, Limits
from tupletree._net import bind

_CLOSE_S: Final = 0.5


class HttpListener:
    """Serves each client with the connection that ``connect`` makes, in the event loop that calls ``start``.

    ``grace_s``: the time that ``stop`` leaves requests under way to be answered.
    """

    def __init__(
        self,
        connect: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Connection],
        limits: Limits,
        grace_s: float = 0.0,
    ) -> None:
        self._connect = connect
        self._limits = limits
        self._grace_s = grace_s
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], Connection] = {}  # the oldest connection first

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on ``host:port`` (0: any free port) and return the real port. Raises UsageError if it is in use."""
        listener = bind(host, port)
        await self.serve(listener, tls)
        return int(listener.getsockname()[1])

    async def serve(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Listen on a bound socket. A TLS handshake has the time of a request."""
        options: dict[str, Any] = {} if tls is None else {"ssl": tls, "ssl_handshake_timeout": self._limits.request_s}
        backlog = self._limits.connections
        self._server = await asyncio.start_server(self._connected, sock=listener, backlog=backlog, **options)

    async def stop(self) -> None:
        """Stop listening and end open connections within a second after ``grace_s``. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        for listener in server.sockets:
            asyncio.get_running_loop().remove_reader(listener)
        await asyncio.sleep(0)  # asyncio loses a socket if its server closes between accept and connection_made
        server.close()
        for task, connection in self._open.items():
            connection.is_last = True
            if not (self._grace_s and connection.is_answering):
                task.cancel()
        if self._open and self._grace_s:
            await asyncio.wait(self._open, timeout=self._grace_s)
        for task in self._open:
            if not task.cancelling():
                task.cancel()
        if self._open:
            await asyncio.wait(self._open)
        with contextlib.suppress(TimeoutError):  # a client in a TLS handshake has no task yet
            async with asyncio.timeout(_CLOSE_S):
                await server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # accepted before stop, but reported only afterwards
            writer.transport.abort()
            return
        if len(self._open) >= self._limits.connections:
            self._end_oldest()
        connection = self._connect(reader, writer)
        task = asyncio.create_task(connection.serve())
        self._open[task] = connection
        task.add_done_callback(lambda _: self._ended(task, writer))

    def _end_oldest(self) -> None:
        """End the oldest connection that waits for no handler, or else the oldest."""
        open_ = [task for task in self._open if not task.cancelling()]
        oldest = next((task for task in open_ if not self._open[task].is_answering), open_[0] if open_ else None)
        if oldest is not None:
            oldest.cancel()

    def _ended(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        del self._open[task]
        writer.transport.abort()
