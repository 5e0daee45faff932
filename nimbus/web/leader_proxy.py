"""Forwarding of requests from a standby nimbus to the leader, so that the web UI works at any nimbus.

The standby forwards rather than redirects: a browser follows a redirect to another host only if that host allows it,
and may not be able to reach the host at all. A request is forwarded at most once. If the second nimbus does not lead
either, the response has status 503.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

import h11
from starlette.requests import Request
from starlette.responses import Response

from tupletree._coord.store import Store
from tupletree._daemon.ttl_cache import TtlCache
from tupletree._security.current import current
from tupletree._security.impersonation import HEADER
from tupletree.errors import UnavailableError
from tupletree.v1.topology_pb2 import Presence

from ..leader.known_leader import KnownLeader

_MARK: Final = "x-tupletree-forwarded"
_KNOWN_S: Final = 2.0
_MAX_BYTES: Final = 64 * 1024 * 1024
_PASSED_ON: Final = ("accept", "authorization", "content-type", "cookie", "host", "origin", "x-requested-with", HEADER)
_PASSED_BACK: Final = frozenset(
    {"content-type", "cache-control", "content-disposition", "set-cookie", "www-authenticate"}
)


class LeaderProxy:
    """Forwards requests to the leader over HTTP."""

    def __init__(self, known: KnownLeader, store: Store) -> None:
        self._known = known
        self._store = store
        self._leaders: TtlCache[str, Presence] = TtlCache(_KNOWN_S)

    def applies(self, request: Request) -> bool:
        """True if another nimbus leads, as far as this nimbus knows, and the request was not forwarded already."""
        leadership = self._known.leadership
        if self._known.own is not None or leadership is None or _MARK in request.headers:
            return False
        return leadership.identity != self._known.identity

    async def forward(self, request: Request, body: bytes, timeout_s: float) -> Response:
        """Return the leader's response to a request. Raises UnavailableError if the leader cannot be reached."""
        host, port = await self._leader()
        target = request.url.path.encode()
        raw: bytes = request.scope.get("raw_path") or target
        query: bytes = request.scope["query_string"]
        headers = [(name, request.headers[name]) for name in _PASSED_ON if name in request.headers]
        headers += [(_MARK, "1"), ("content-length", str(len(body))), ("connection", "close")]
        if "host" not in request.headers:
            headers.append(("host", f"{host}:{port}"))
        asked = h11.Request(method=request.method, target=raw + (b"?" + query if query else b""), headers=headers)
        try:
            async with asyncio.timeout(timeout_s):
                return await _exchange(host, port, asked, body)
        except TimeoutError:
            raise UnavailableError(f"the leader at {host}:{port} does not answer") from None
        except (OSError, h11.ProtocolError) as error:
            raise UnavailableError(f"the leader at {host}:{port} cannot be reached: {_reason(error)}") from None

    async def _leader(self) -> tuple[str, int]:
        leadership = self._known.leadership
        if leadership is None:
            raise UnavailableError("no nimbus leads; see 'tupletree health'")

        async def read() -> Presence:
            nimbuses = await asyncio.to_thread(self._store.nimbuses)
            if leadership.identity not in nimbuses:
                raise UnavailableError(f"the leader {leadership.address} is not registered; try again later")
            return nimbuses[leadership.identity]

        presence = await self._leaders.get(leadership.identity, read)
        return presence.host, presence.http_port


async def _exchange(host: str, port: int, asked: h11.Request, body: bytes) -> Response:
    tls = current().tls
    reader, writer = await asyncio.open_connection(host, port, ssl=None if tls is None else tls.client_context())
    try:
        http = h11.Connection(h11.CLIENT)
        for part in (asked, h11.Data(data=body), h11.EndOfMessage()):
            writer.write(http.send(part) or b"")
        await writer.drain()
        status, data = 0, bytearray()
        headers: dict[str, str] = {}
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(64 * 1024))
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
            elif isinstance(event, h11.Data):
                data += event.data
                if len(data) > _MAX_BYTES:
                    raise UnavailableError(f"the leader's response has more than {_MAX_BYTES} bytes")
            elif isinstance(event, h11.EndOfMessage):
                kept = {name: value for name, value in headers.items() if name in _PASSED_BACK}
                return Response(bytes(data), HTTPStatus(status), headers=kept)
            elif isinstance(event, h11.ConnectionClosed):
                raise UnavailableError(f"the leader at {host}:{port} closed the connection during its response")
    finally:
        writer.transport.abort()  # a leader that hangs would not take part in the end of a connection of TLS


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return error.strerror or "the connection was lost" if isinstance(error, OSError) else "it does not speak HTTP"
