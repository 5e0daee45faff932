"""Routes of an HTTP server whose connections go on with another protocol (RFC 9110, 7.8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import h11

from tupletree.errors import TupletreeError

Headers = Mapping[str, str]
"""Those headers of a request that occur once, by their names in lower case."""


class UpgradedProtocol(asyncio.Protocol):
    """The protocol of a connection that goes on. ``transport`` is set when it begins, ``ended`` when it is lost."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._before: asyncio.BaseProtocol | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """Take a connection over."""
        self.transport = transport
        self._before = transport.get_protocol()
        transport.set_protocol(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
        if self._before is not None:
            self._before.connection_lost(exc)  # whoever made the connection waits for its end


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted connection. ``headers``: of the response."""

    protocol: UpgradedProtocol
    headers: Mapping[str, str] = field(default_factory=dict)


class UpgradeRefusedError(TupletreeError):
    """A connection that does not go on with another protocol. ``status``: of the response."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Serves GET of one path by the protocol of this name. ``accept`` can raise UpgradeRefusedError."""

    name: str
    accept: Callable[[Headers], Accepted]


def headers_of(request: h11.Request) -> dict[str, str]:
    """Return the headers of a request that occur once."""
    names: Sequence[bytes] = [name for name, _ in request.headers]
    return {
        name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers if names.count(name) == 1
    }


def accepted(route: Upgrade, request: h11.Request) -> Accepted:
    """Accept a request, or raise UpgradeRefusedError."""
    headers = headers_of(request)
    tokens = [one.strip().lower() for one in headers.get("connection", "").split(",")]
    if "upgrade" not in tokens or headers.get("upgrade", "").lower() != route.name:
        sentence = f"this path takes connections that go on as {route.name}: send 'Upgrade: {route.name}'"
        raise UpgradeRefusedError(HTTPStatus.UPGRADE_REQUIRED, sentence)
    return route.accept(headers)


def switching(route: Upgrade, answer: Accepted) -> h11.InformationalResponse:
    """Return the response after which a connection goes on with the other protocol."""
    headers = [("connection", "Upgrade"), ("upgrade", route.name), *answer.headers.items()]
    return h11.InformationalResponse(status_code=HTTPStatus.SWITCHING_PROTOCOLS, reason="Switching", headers=headers)
