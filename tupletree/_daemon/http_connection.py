"""One HTTP/1.1 connection: h11 parses the bytes; this module transfers them and enforces limits.

    wait (idle_s) -> read a request (request_s, header_bytes) -> answer it (request_s) -> wait …
                                \\_ not HTTP, too slow, too large, a body: one answer, then the end

Requests are answered in order, also if a client pipelines them. A ``RoutedConnection`` answers by path and ignores the
query: a handler takes no arguments, and a body is refused; a ``Receiver`` gets the request with its body. The client's
right to the path is checked before either is called. ``tupletree.nimbus.web.asgi`` answers by an ASGI application.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import h11

from tupletree._daemon.http_upgrade import Upgrade, UpgradeRefusedError, accepted, switching
from tupletree._security.impersonation import HEADER

log = logging.getLogger("tupletree.http")

Page = tuple[HTTPStatus, str, bytes]
"""A response: status, content type, body."""
Handler = Callable[[], Page | Awaitable[Page]]
"""Serves GET and HEAD of one path, in the daemon's event loop. An exception is logged and answered with 500."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request with its body, for a ``Receiver``. Names of headers are in lower case."""

    headers: Sequence[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the value of a header that occurs once; None if it is missing or occurs several times."""
        sought = name.lower().encode()
        values = [value for known, value in self.headers if known == sought]
        return values[0].decode("latin-1") if len(values) == 1 else None


@dataclass(frozen=True, slots=True)
class Receiver:
    """Serves POST of one path. A body larger than ``max_body_bytes`` is refused, and is not read to its end."""

    receive: Callable[[Request], Awaitable[Page]]
    max_body_bytes: int


@dataclass(frozen=True, slots=True)
class Prefix:
    """Serves GET and POST of all paths that begin with its path, which ends with "/".

    ``call`` gets the rest of the path, and the request for POST. The call is cancelled when the client has left.
    """

    call: Callable[[str, Request | None], Awaitable[Page]]
    max_body_bytes: int


Route = Handler | Receiver | Prefix | Upgrade
"""Serves one path, or several."""
Guard = Callable[[str, str | None, bool], Awaitable[Page | None]]
"""Checks access to a path, given the Authorization header: returns the refusal, or None if access is allowed. The last
argument is True if the request is in the name of another user."""

_AS_USER: Final = HEADER.encode()
_CHUNK_BYTES: Final = 16 * 1024
_CLOSE_S: Final = 0.5  # for the client to read the last answer before the connection is cut
_READING: Final = (b"GET", b"HEAD")
_RECEIVING: Final = (b"POST",)


@dataclass(frozen=True)
class Limits:
    """Limits on clients, in seconds and bytes."""

    header_bytes: int = 16 * 1024  # request line and headers
    request_s: float = 10.0  # for a request to arrive once begun, and for its answer to be read
    idle_s: float = 75.0  # between requests
    connections: int = 128  # a further connection ends the oldest that waits for no handler
    retry_after_s: int | None = None  # the header Retry-After of responses with status 503; None: no header


class Connection(ABC):
    """Serves one client until it leaves, breaks a limit, or the task is cancelled; the caller then aborts the socket.

    Aborting is up to the caller because a task cancelled before its first step runs no code.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self.is_answering = False  # a handler works on a request that has arrived whole
        self.is_last = False  # the connection ends after the response under way
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._allowed: Sequence[bytes] = ()  # methods of the path of the current request
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_bytes)
        # drain returns only when the kernel has all bytes. (With TLS, a limit of 0 would count as already reached.)
        writer.transport.set_write_buffer_limits(0 if writer.get_extra_info("sslcontext") is None else 1)

    @abstractmethod
    async def _respond(self, request: h11.Request) -> Page | None:
        """Return the response to a request; None if the response is already sent.

        Raises RemoteProtocolError if the body is not HTTP, TimeoutError if the body is not completed in time, and
        OSError if the connection cannot continue.
        """

    async def serve(self) -> None:
        """Answer requests, then close the connection. After cancellation, closes within half a second."""
        try:
            while await self._exchange():
                self._http.start_next_cycle()
            await self._linger()
        except OSError:
            pass  # the client is gone, or does not read its answer
        finally:
            await self._close()

    async def _exchange(self) -> bool:
        """Read a request and answer it. Returns True if another request can follow."""
        request = None
        try:
            request = await self._next_request()
            if request is None:
                return False
            page = await self._respond(request)
        except h11.RemoteProtocolError as error:
            page = plain(HTTPStatus(error.error_status_hint))
        except TimeoutError:
            page = plain(HTTPStatus.REQUEST_TIMEOUT)
        if page is not None:
            await self._send(page, with_body=request is None or request.method != b"HEAD")
        return not self.is_last and self._http.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}

    async def _next_request(self) -> h11.Request | None:
        """Return the next request; None if the client has left or was idle for too long.

        Raises RemoteProtocolError if the bytes are not HTTP, TimeoutError if a request is not completed in time.
        """
        if not self._http.trailing_data[0]:
            try:
                async with asyncio.timeout(self._limits.idle_s):
                    await self._receive()
            except TimeoutError:
                return None
        event = await self._next_event()
        return event if isinstance(event, h11.Request) else None

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event. Raises TimeoutError if it has not arrived after ``request_s``."""
        event = self._http.next_event()
        if event is h11.NEED_DATA:  # a timeout costs as much as parsing a header, and most requests are there
            async with asyncio.timeout(self._limits.request_s):
                while (event := self._http.next_event()) is h11.NEED_DATA:
                    await self._receive()
        return event

    async def _receive(self) -> None:
        self._http.receive_data(await self._reader.read(_CHUNK_BYTES))

    async def _send(self, page: Page, *, with_body: bool) -> None:
        """Send a response. Raises OSError, including TimeoutError, if the client does not read it."""
        status, content_type, body = page
        headers = [
            ("date", formatdate(usegmt=True)),
            ("content-type", content_type),
            ("content-length", str(len(body))),
        ]
        if status is HTTPStatus.UNAUTHORIZED:
            headers.append(("www-authenticate", "Bearer"))
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("allow", b", ".join(self._allowed).decode()))
        if status is HTTPStatus.SERVICE_UNAVAILABLE and self._limits.retry_after_s is not None:
            headers.append(("retry-after", str(self._limits.retry_after_s)))
        if self._ends_with_response():
            headers.append(("connection", "close"))
        events: list[h11.Event] = [h11.Response(status_code=status, reason=status.phrase, headers=headers)]
        if with_body:
            events.append(h11.Data(data=body))
        events.append(h11.EndOfMessage())
        await self._write(b"".join(self._http.send(event) or b"" for event in events))

    def _ends_with_response(self) -> bool:
        """Return True if no request can follow the response: further bytes of the client are invalid or unread."""
        return self.is_last or self._http.their_state is not h11.DONE

    def _ask_for_body(self) -> None:
        """Send 100 Continue to a client that waits for it."""
        if self._http.they_are_waiting_for_100_continue:
            go_on = self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
            self._writer.write(go_on or b"")

    async def _write(self, data: bytes) -> None:
        """Send bytes. Raises OSError, including TimeoutError, if the client does not read them."""
        if self._writer.transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size():
            async with asyncio.timeout(self._limits.request_s):
                await self._writer.drain()

    async def _linger(self) -> None:
        """Let the client read the last answer: closing while the client still sends would reset the connection."""
        if not self._writer.can_write_eof():  # TLS has no half-closed connections
            return
        self._writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                while await self._reader.read(_CHUNK_BYTES):
                    pass

    async def _close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()


class RoutedConnection(Connection):
    """A connection whose requests are answered by the route of their path."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        routes: Mapping[str, Route],
        limits: Limits,
        guard: Guard | None = None,
    ) -> None:
        super().__init__(reader, writer, limits)
        self._guard = guard
        self._routes = routes
        receives = any(isinstance(route, Receiver) for route in routes.values())
        reads = not all(isinstance(route, Receiver) for route in routes.values())
        self._methods = (_READING if reads else ()) + (_RECEIVING if receives else ())  # of any path
        self._allowed = self._methods

    async def _respond(self, request: h11.Request) -> Page | None:
        path = request.target.partition(b"?")[0].decode("ascii")
        known, route = self._routed(path)
        if isinstance(route, Prefix):
            return await self._respond_below(known, path, route, request)
        is_receiver = isinstance(route, Receiver)
        has_body = not is_receiver and not isinstance(self._http.next_event(), h11.EndOfMessage)
        self._allowed = self._methods if route is None else _RECEIVING if is_receiver else _READING
        if request.method not in self._allowed:
            return plain(HTTPStatus.METHOD_NOT_ALLOWED)
        if has_body and request.method not in _RECEIVING:
            return plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if (refused := await self._refusal(path, request)) is not None:
            return refused
        if route is None:
            return plain(HTTPStatus.NOT_FOUND)
        if isinstance(route, Upgrade):
            return await self._go_on(route, request)
        if not isinstance(route, Receiver):
            return await self._call(path, route)
        body = await self._body(request, route.max_body_bytes)
        if body is None:
            return plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        whole = Request(list(request.headers), body)
        return await self._call(path, lambda: route.receive(whole))

    async def _go_on(self, route: Upgrade, request: h11.Request) -> Page | None:
        """Let the connection go on with another protocol, to its end. Returns the refusal, or raises OSError then."""
        try:
            answer = accepted(route, request)
        except UpgradeRefusedError as error:
            return error.status, "text/plain; charset=utf-8", f"{error}\n".encode()
        except Exception:
            log.exception("http.failed path=%s", request.target.decode("ascii"))
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        await self._write(self._http.send(switching(route, answer)) or b"")
        answer.protocol.begin(self._writer.transport)  # type: ignore[arg-type]  # of asyncio's streams: a Transport
        await answer.protocol.ended
        raise ConnectionResetError("the connection has ended")

    def _routed(self, path: str) -> tuple[str, Route | None]:
        """Return the route of a path, and the path of the route."""
        end = path.find("/", 1) + 1
        if path not in self._routes and end and isinstance(self._routes.get(path[:end]), Prefix):
            return path[:end], self._routes[path[:end]]
        return path, self._routes.get(path)

    async def _respond_below(self, known: str, path: str, route: Prefix, request: h11.Request) -> Page:
        self._allowed = (b"GET", *_RECEIVING)
        if request.method not in self._allowed:
            return plain(HTTPStatus.METHOD_NOT_ALLOWED)
        if (refused := await self._refusal(known, request)) is not None:
            return refused
        body = await self._body(request, route.max_body_bytes)
        if body is None:
            return plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        whole = Request(list(request.headers), body) if request.method in _RECEIVING else None
        return await self._call(known, lambda: self._while_connected(route.call(path.removeprefix(known), whole)))

    async def _refusal(self, path: str, request: h11.Request) -> Page | None:
        if self._guard is None:
            return None
        names_user = any(name == _AS_USER for name, _ in request.headers)
        return await self._guard(path, _authorization(request), names_user)

    async def _while_connected(self, answer: Awaitable[Page]) -> Page:
        """Await an answer. If the client leaves before, the answer is cancelled, and OSError is raised."""
        answering = asyncio.ensure_future(answer)
        reading = asyncio.ensure_future(self._receive())  # what a client sends ahead waits for its turn
        try:
            await asyncio.wait({answering, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and (reading.exception() is not None or self._reader.at_eof()):
                raise ConnectionResetError("the client is gone")
            return await answering
        finally:
            for task in (answering, reading):
                task.cancel()
            await asyncio.gather(answering, reading, return_exceptions=True)

    async def _call(self, path: str, handler: Handler) -> Page:
        self.is_answering = True
        try:
            page = handler()
            return page if isinstance(page, tuple) else await page
        except ConnectionResetError:
            raise
        except Exception:
            log.exception("http.failed path=%s", path)
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        finally:
            self.is_answering = False

    async def _body(self, request: h11.Request, limit: int) -> bytes | None:
        """Return the body of a request; None if it is larger than ``limit``. Raises as ``_next_request``.

        At most two times ``request_s`` passes until a body is complete or refused.
        """
        length = next((value for name, value in request.headers if name == b"content-length"), b"0")
        if int(length) > limit:
            return None
        self._ask_for_body()
        body, ends_s = bytearray(), asyncio.get_running_loop().time() + self._limits.request_s
        while not isinstance(event := await self._next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                body += event.data
            if len(body) > limit:
                return None
            if asyncio.get_running_loop().time() > ends_s:
                raise TimeoutError
        return bytes(body)


def _authorization(request: h11.Request) -> str | None:
    values = [value for name, value in request.headers if name == b"authorization"]
    return values[0].decode("latin-1") if len(values) == 1 else None


def plain(status: HTTPStatus) -> Page:
    """Return a response that contains only its status."""
    return status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode()
