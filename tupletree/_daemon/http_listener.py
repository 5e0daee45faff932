"""A listening HTTP socket and its connections: a daemon's, or a spout's that receives requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final

from tupletree._daemon.http_connection import Connection, Guard, Limits, Route
from tupletree._net import bind

_HANDSHAKE_S: Final = 10.0


class HttpListener:
    """Serves ``routes`` by path, in the event loop that calls ``start``."""

    def __init__(self, routes: Mapping[str, Route], limits: Limits, guard: Guard | None = None) -> None:
        self._routes = routes
        self._limits = limits
        self._guard = guard
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], Connection] = {}  # the oldest connection first

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on ``host:port`` (0: any free port) and return the real port. Raises UsageError if it is in use."""
        listener = bind(host, port)
        options: dict[str, Any] = {} if tls is None else {"ssl": tls, "ssl_handshake_timeout": _HANDSHAKE_S}
        backlog = self._limits.connections
        self._server = await asyncio.start_server(self._connected, sock=listener, backlog=backlog, **options)
        return int(listener.getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and end open connections within a second. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        for listener in server.sockets:
            asyncio.get_running_loop().remove_reader(listener)
        await asyncio.sleep(0)  # asyncio loses a socket if its server closes between accept and connection_made
        server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)
        await server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # accepted before stop, but reported only afterwards
            writer.transport.abort()
            return
        if len(self._open) >= self._limits.connections:
            self._end_oldest()
        connection = Connection(reader, writer, self._routes, self._limits, self._guard)
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
