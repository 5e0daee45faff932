"""The HTTP server of nimbus: the daemons' own, with their limits, in front of an ASGI application."""

from __future__ import annotations

import functools
import socket
import ssl
from typing import Final

from starlette.types import ASGIApp

from tupletree._daemon.http_connection import Limits
from tupletree._daemon.http_listener import HttpListener

from .asgi import AsgiConnection

_GRACE_S: Final = 0.5
LIMITS: Final = Limits()


class WebServer:
    """HTTP server for an ASGI application, running until ``stop``."""

    def __init__(self, application: ASGIApp, limits: Limits = LIMITS, tls: ssl.SSLContext | None = None) -> None:
        connect = functools.partial(AsgiConnection, application=application, limits=limits)
        self._listener = HttpListener(connect, limits, _GRACE_S)
        self._tls = tls

    async def start(self, listener: socket.socket) -> None:
        """Serve at a bound socket."""
        await self._listener.serve(listener, self._tls)

    async def stop(self) -> None:
        """Stop listening, and close open connections within two seconds. Idempotent."""
        await self._listener.stop()
