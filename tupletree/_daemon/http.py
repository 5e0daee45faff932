"""A daemon's HTTP server: /healthz, /readyz, /metrics and the daemon's own routes."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from tupletree._daemon.certificates import CertificateWatch
from tupletree._daemon.health import Readiness
from tupletree._daemon.http_connection import Limits, Page, Route, RoutedConnection
from tupletree._daemon.http_listener import HttpListener
from tupletree._security.current import Security, current
from tupletree._security.guard import Gatekeeper, bearer, caller
from tupletree._security.impersonation import HEADER
from tupletree._security.rights import PAGES, Right
from tupletree.errors import ForbiddenError, TupletreeError, UnauthenticatedError


class HttpServer:
    """Serves a daemon's health and metrics in the daemon's own event loop.

    /healthz  200 while the process can answer
    /readyz   200 {"ready": true, "reasons": []}, or 503 with the reasons
    /metrics  Prometheus text of ``registry``

    ``routes`` adds handlers by path, or replaces these. ``security`` determines TLS and access to
    each path; None: the security settings of this process.
    """

    def __init__(
        self,
        readiness: Readiness,
        registry: CollectorRegistry,
        routes: Mapping[str, Route] | None = None,
        limits: Limits | None = None,
        security: Security | None = None,
    ) -> None:
        self._readiness = readiness
        self._registry = registry
        own: dict[str, Route] = {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics}
        self._security = current() if security is None else security
        self._gate = Gatekeeper(self._security)
        self._certificates = CertificateWatch(self._security.tls, registry) if self._security.tls else None
        self._watching: asyncio.Task[None] | None = None
        limits = limits or Limits()
        connect = functools.partial(
            RoutedConnection, routes=own | dict(routes or {}), limits=limits, guard=self._refused
        )
        self._listener = HttpListener(connect, limits)

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (0: any free port) and return the real port. Raises UsageError if it is in use."""
        if self._certificates is None:
            return await self._listener.start(host, port)
        context = self._certificates.server_context()
        bound = await self._listener.start(host, port, context)
        self._watching = asyncio.create_task(self._certificates.keep())
        return bound

    async def stop(self) -> None:
        """Stop listening and end open connections within a second. Idempotent."""
        if self._watching is not None:
            self._watching.cancel()
        await self._listener.stop()

    async def _refused(self, path: str, authorization: str | None, names_user: bool) -> Page | None:
        caller.set(None)  # a connection may have carried another's request before
        if self._security.keyring is None:
            return None
        if names_user:
            refused = ForbiddenError(f"{path} takes no {HEADER}: calls of gRPC and nimbus's pages do")
            return _sentence(HTTPStatus.FORBIDDEN, refused)
        row = PAGES.get(path)
        if row is not None and row.right is Right.OPEN:
            return None
        try:
            who = await self._gate.identify(bearer(authorization))
            await self._gate.judge(who, row, f"GET {path}")
            caller.set(who)
        except UnauthenticatedError as error:
            return _sentence(HTTPStatus.UNAUTHORIZED, error)
        except ForbiddenError as error:
            return _sentence(HTTPStatus.FORBIDDEN, error)
        return None

    def _healthz(self) -> Page:
        return json_page({"alive": True})

    def _readyz(self) -> Page:
        reasons = self._readiness.reasons
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return json_page({"ready": not reasons, "reasons": reasons}, status)

    def _metrics(self) -> Page:
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry)


def _sentence(status: HTTPStatus, error: TupletreeError) -> Page:
    return status, "text/plain; charset=utf-8", f"{error}\n".encode()


def json_page(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Page:
    """Return a JSON response. Raises TypeError or ValueError if ``value`` is not valid JSON, as for NaN."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return status, "application/json", text.encode()
