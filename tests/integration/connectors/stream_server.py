"""A server of event streams and WebSockets on the loopback interface, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aiohttp import WSMsgType, web


class StreamServer:
    """``/events`` sends ``events`` after Last-Event-ID, and those that are added; ``/socket`` what ``send`` is given.

    ``has_ids``: events have their number as id, and the server keeps them. ``status``: of the answers of ``/events``.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self.has_ids = True
        self.status = 200
        self.received: list[str] = []  # the messages of WebSocket clients
        self.pings = 0
        self.answers_pings = True
        self.last_ids: list[str | None] = []
        self.headers: list[Mapping[str, str]] = []
        self._sockets: set[web.WebSocketResponse] = set()
        self._transports: set[Any] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/events"

    @property
    def socket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/socket"

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def cut(self) -> None:
        """Cut all connections."""

        async def abort() -> None:
            for transport in list(self._transports):
                transport.abort()

        self.run(abort())

    @property
    def connections(self) -> int:
        """The number of connections of streams that are open."""
        return len(self._transports)

    def send(self, message: str | bytes) -> None:
        """Send a message to every WebSocket client."""

        async def send() -> None:
            for socket in list(self._sockets):
                await (socket.send_str(message) if isinstance(message, str) else socket.send_bytes(message))

        self.run(send())

    async def _events(self, request: web.Request) -> web.StreamResponse:
        last_id = request.headers.get("Last-Event-ID")
        self.last_ids.append(last_id)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.status != 200:
            return web.Response(status=self.status)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        number = int(last_id) if last_id is not None else len(self.events) if not self.has_ids else 0
        with self._counted(request):
            await answer.write(b": hello\n\n")
            while True:
                while number < len(self.events):
                    number += 1
                    id = f"id: {number}\n" if self.has_ids else ""
                    await answer.write(f"{id}event: added\ndata: {self.events[number - 1]}\n\n".encode())
                await asyncio.sleep(0.005)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        self._sockets.add(socket)
        try:
            with self._counted(request):
                async for message in socket:
                    if message.type is WSMsgType.TEXT:
                        self.received.append(message.data)
                    elif message.type is WSMsgType.PING:
                        self.pings += 1
                        if self.answers_pings:
                            await socket.pong(message.data)
        finally:
            self._sockets.discard(socket)
        return socket

    @contextmanager
    def _counted(self, request: web.Request) -> Iterator[None]:
        transport = request.transport
        self._transports.add(transport)
        try:
            yield
        finally:
            self._transports.discard(transport)

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_get("/events", self._events)
        app.router.add_get("/socket", self._socket)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    def __enter__(self) -> StreamServer:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self.run(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
