"""A connection whose requests an ASGI application answers: the events of h11 as the messages of ASGI, and back.

h11                              ASGI
Request               ->         scope; the application is called
Data, EndOfMessage    ->         receive: http.request
body too slow, invalid ->        receive: http.disconnect; the client gets 408 or 400 if no response has begun
Response              <-         send: http.response.start
Data, EndOfMessage    <-         send: http.response.body
"""

from __future__ import annotations

import asyncio
import logging
from email.utils import formatdate
from http import HTTPStatus
from http.client import responses
from typing import Any
from urllib.parse import unquote

import h11
from starlette.types import ASGIApp, Message

from tupletree._daemon.http_connection import Connection, Limits, Page, plain

log = logging.getLogger("tupletree.http")


class AsgiConnection(Connection):
    """A connection that calls ``application`` for each request.

    The application is not told that a client has left until it sends: sending then raises OSError, as ASGI 2.4 says.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, application: ASGIApp, limits: Limits
    ) -> None:
        super().__init__(reader, writer, limits)
        self._application = application
        self._ahead: h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED] = h11.NEED_DATA  # read, but not received
        self._is_received = False  # the application has the whole body
        self._refusal: Page | None = None  # of a request whose body is invalid or late
        self._body_ends_s: float | None = None  # the time by which the body must be complete
        self._is_head = False
        self._head = b""  # of the response, until the first part of its body
        self._has_begun = False
        self._is_complete = asyncio.Event()

    async def _respond(self, request: h11.Request) -> Page | None:
        self._refusal = self._body_ends_s = None
        self._is_received = self._has_begun = False
        self._is_head = request.method == b"HEAD"
        self._is_complete.clear()
        self._ahead = self._http.next_event()  # of a request without a body, its end
        self.is_answering = True
        try:
            await self._application(self._scope(request), self._next_message, self._send_message)
        except Exception:
            log.exception("http.failed path=%r", request.target[:200])
        finally:
            self.is_answering = False
        if self._is_complete.is_set():
            return None
        if self._has_begun:
            raise ConnectionAbortedError("the response is incomplete")
        return self._refusal or plain(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _scope(self, request: h11.Request) -> dict[str, Any]:
        raw_path, _, query = request.target.partition(b"?")
        address_of = self._writer.get_extra_info
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": request.http_version.decode("ascii"),
            "method": request.method.decode("ascii"),
            "scheme": "http" if address_of("sslcontext") is None else "https",
            "root_path": "",
            "path": unquote(raw_path.decode("ascii")),
            "raw_path": raw_path,
            "query_string": query,
            "headers": list(request.headers),
            "client": _host_and_port(address_of("peername")),
            "server": _host_and_port(address_of("sockname")),
        }

    async def _next_message(self) -> Message:
        if self._is_received or self._refusal is not None:
            await self._is_complete.wait()
            return {"type": "http.disconnect"}
        try:
            event = await self._body_event()
        except h11.RemoteProtocolError as error:
            self._refusal = plain(HTTPStatus(error.error_status_hint))
            return {"type": "http.disconnect"}
        except TimeoutError:
            self._refusal = plain(HTTPStatus.REQUEST_TIMEOUT)
            return {"type": "http.disconnect"}
        if isinstance(event, h11.Data):
            return {"type": "http.request", "body": bytes(event.data), "more_body": True}
        self._is_received = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _body_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event, self._ahead = self._ahead, h11.NEED_DATA
        if event is not h11.NEED_DATA:
            return event
        self._ask_for_body()
        if self._body_ends_s is None:
            self._body_ends_s = asyncio.get_running_loop().time() + self._limits.request_s
        self.is_answering = False  # a client that does not send may have to make room
        async with asyncio.timeout_at(self._body_ends_s):
            event = await self._next_event()
        self.is_answering = True
        return event

    def _response(self, message: Message) -> h11.Response:
        headers = [*message["headers"], (b"date", formatdate(usegmt=True).encode())]
        if self._ends_with_response() and not any(name.lower() == b"connection" for name, _ in headers):
            headers.append((b"connection", b"close"))
        return h11.Response(status_code=message["status"], reason=responses.get(message["status"], ""), headers=headers)

    async def _send_message(self, message: Message) -> None:
        """Send a part of the response. Raises OSError if the client is gone, or does not read."""
        if message["type"] == "http.response.start":
            if self._refusal is None:
                self._has_begun = True
                self._head = self._http.send(self._response(message)) or b""
        elif self._has_begun:
            body = b"" if self._is_head else bytes(message.get("body", b""))
            data = self._head + (self._http.send(h11.Data(data=body)) or b"")
            self._head, is_last = b"", not message.get("more_body", False)
            if is_last:
                data += self._http.send(h11.EndOfMessage()) or b""
            self.is_answering = False  # a client that does not read may have to make room
            await self._write(data)
            self.is_answering = not is_last
            if is_last:
                self._is_complete.set()


def _host_and_port(address: Any) -> tuple[str, int] | None:
    """Return host and port of a socket's address; None for the address of a Unix socket."""
    return (address[0], address[1]) if isinstance(address, tuple) else None
