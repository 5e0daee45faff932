"""The HTTP application of nimbus: health, metrics, the REST API and the files of the web UI.

    request -> POST from a foreign site?   -> 403
            -> user not allowed?           -> 401 or 403           Authorizer.allow, the only access check
            -> another nimbus leads?       -> forward to leader    leader_proxy.py
            -> response cached?            -> cached response      of the last second
            -> otherwise                   -> build the response   handlers.py

GET never changes state; every change is a POST. Bodies are JSON of at most 1 MB.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Hashable
from http import HTTPStatus
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tupletree._coord.store import Store
from tupletree._daemon.health import Readiness
from tupletree._daemon.ttl_cache import TtlCache
from tupletree._security.guard import Gatekeeper, caller
from tupletree._security.rights import PAGES
from tupletree.errors import ForbiddenError, TupletreeError

from ..blob_requests import BlobRequests
from ..config import NimbusConfig
from ..leader.known_leader import KnownLeader
from ..leader_api import LeaderApi
from ..metrics import NimbusMetrics
from ..savepoints import Savepoints
from ..state_queries import StateQueries
from . import openapi, requests
from .auth import Authorizer
from .endpoint import PREFIX, Endpoint
from .handlers import Handlers
from .leader_proxy import LeaderProxy
from .routes import ENDPOINTS

log = logging.getLogger("tupletree.http")

_PATTERN: Final = "tupletree.pattern"
_FRESH_S: Final = 1.0  # each response is built at most once in this time, regardless of the number of clients
_MAX_CACHED: Final = 256
_MAX_CACHED_BYTES: Final = 16 * 1024 * 1024
_OWN_PATHS: Final = ("/healthz", "/readyz", "/metrics")
_STATIC: Final = os.path.join(os.path.dirname(__file__), "static")
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
)


class WebApplication:
    """The ASGI application of nimbus, served at ``http_port``."""

    def __init__(
        self,
        readiness: Readiness,
        metrics: NimbusMetrics,
        leader_api: LeaderApi,
        state_queries: StateQueries,
        blob_requests: BlobRequests,
        known: KnownLeader,
        store: Store,
        config: NimbusConfig,
        keeper: Gatekeeper,
        version: str,
        http_port: int,
        savepoints: Savepoints,
    ) -> None:
        self._readiness = readiness
        self._registry = metrics.registry
        self._version = version
        self._own_place = f"{config.host}:{http_port}"
        self._authorizer = Authorizer(keeper)
        self._handlers = Handlers(leader_api, state_queries, blob_requests, store, config, http_port, savepoints)
        self._recent: TtlCache[Hashable, tuple[str, bytes]] = TtlCache(  # content type and text
            _FRESH_S, max_entries=_MAX_CACHED, max_weight=_MAX_CACHED_BYTES, weigh=lambda built: len(built[1])
        )
        self._leader_proxy = LeaderProxy(known, store)
        routes: list[BaseRoute] = [
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
            *(Route(PREFIX + one.path, self._endpoint(one), methods=[one.method]) for one in ENDPOINTS),
            Route(PREFIX + "/openapi.json", self._openapi),
            Route(PREFIX + "/{rest:path}", _no_such_path, methods=["GET", "POST"]),
        ]
        if os.path.isdir(_STATIC):
            routes += [Route("/", self._index), Route("/login", self._authorizer.login_page)]
            routes += [Route("/login", self._authorizer.log_in, methods=["POST"])]
            routes += [Route("/logout", self._authorizer.log_out, methods=["POST"])]
            routes.append(Mount("/", StaticFiles(directory=_STATIC, html=True)))
        handlers = {HTTPException: _http_failed, Exception: _failed}
        inner = Starlette(routes=routes, exception_handlers=handlers)
        self.asgi: ASGIApp = _with_headers(_counted(inner, metrics))

    async def _healthz(self, request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def _readyz(self, request: Request) -> Response:
        reasons = self._readiness.reasons
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return JSONResponse({"ready": not reasons, "reasons": reasons}, status)

    async def _index(self, request: Request) -> Response:
        return await self._authorizer.index(request) or FileResponse(os.path.join(_STATIC, "index.html"))

    async def _metrics(self, request: Request) -> Response:
        try:
            await self._authorizer.allow(request, "/metrics", PAGES["/metrics"])
        except TupletreeError as error:
            return _refused(error)
        return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_LATEST})

    async def _openapi(self, request: Request) -> Response:
        return _json(HTTPStatus.OK, openapi.description(ENDPOINTS, self._version))

    def _endpoint(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            request.scope[_PATTERN] = PREFIX + endpoint.path
            caller.set(None)  # the connection may have carried another's request before
            callback = request.query_params.get("callback", "") if endpoint.method == "GET" else ""
            try:
                reply = await self._serve(endpoint, request, callback)
            except BaseException as error:
                self._authorizer.audit(request, endpoint, error)
                if not isinstance(error, TupletreeError):
                    raise
                return _refused(error)
            self._authorizer.audit(request, endpoint, None, reply.status_code)
            return reply

        return serve

    async def _serve(self, endpoint: Endpoint, request: Request, callback: str) -> Response:
        if endpoint.method == "POST":
            reason = requests.forbidden_post(request.headers)
            if reason is not None:
                raise ForbiddenError(reason)
        body = await _body(request)
        if body is None:
            sentence = f"the body is larger than the limit of {requests.MAX_BODY_BYTES} bytes"
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            return _json(status, requests.refusal(status, sentence), close=True)
        user = await self._authorizer.allow(request, endpoint.operation, endpoint.row)
        if self._leader_proxy.applies(request):
            return await self._leader_proxy.forward(request, body, endpoint.longest_s)
        call = requests.ApiCall(
            path=request.path_params,
            query=dict(request.query_params),
            body=requests.decode_body(body) if endpoint.method == "POST" else None,
            base=requests.base_of(request.url.scheme, request.headers.get("host", ""), self._own_place),
            user=user,
            accept=request.headers.get("accept", ""),
        )
        if not endpoint.is_cached:
            found = await endpoint.handler(self._handlers, call)
            if endpoint.method == "POST":
                self._recent.clear()
            if isinstance(found, Response):
                return found
            content_type, text = requests.encode(found, callback)
        else:

            async def build() -> tuple[str, bytes]:
                return requests.encode(await endpoint.handler(self._handlers, call), callback)

            key = (call.base, caller.get(), request.url.path, request.url.query)
            content_type, text = await self._recent.get(key, build)
        return Response(text, headers={"content-type": content_type, "cache-control": "no-store"})


async def _body(request: Request) -> bytes | None:
    """Return the body, or None if the body is too large. Reading a body whole keeps the connection usable.

    A body that is too large is read and discarded up to ``MAX_DISCARDED_BYTES``. Most clients read the response only
    after sending the whole body, and would otherwise see a broken connection instead of the reason.
    """
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > requests.MAX_DISCARDED_BYTES:
        return None
    data, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > requests.MAX_DISCARDED_BYTES:
            return None
        if size <= requests.MAX_BODY_BYTES:
            data += chunk
    return bytes(data) if size <= requests.MAX_BODY_BYTES else None


def _json(status: HTTPStatus, value: object, close: bool = False) -> Response:
    content_type, text = requests.encode(value)
    headers = {"content-type": content_type, "cache-control": "no-store"}
    return Response(text, status, headers={**headers, "connection": "close"} if close else headers)


def _refused(error: TupletreeError) -> Response:
    status, body = requests.failure(error)
    reply = _json(status, body)
    if status is HTTPStatus.UNAUTHORIZED:
        reply.headers["www-authenticate"] = "Bearer"
    return reply


async def _no_such_path(request: Request) -> Response:
    known = any(route.matches(request.scope)[0] is Match.PARTIAL for route in request.app.routes)
    raise HTTPException(405 if known else 404)


async def _http_failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    what = {
        HTTPStatus.NOT_FOUND: f"there is nothing at {request.url.path[:200]}",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.url.path[:200]} does not support {request.method[:20]}",
    }.get(status, status.phrase)
    reply = _json(status, requests.refusal(status, what))
    reply.headers.update(error.headers or {})
    return reply


async def _failed(request: Request, error: Exception) -> Response:
    if not isinstance(error, ClientDisconnect):
        log.error("http.failed path=%r", request.url.path[:200], exc_info=error)
    status, body = requests.failure(error)
    return _json(status, body)


def _counted(inner: ASGIApp, metrics: NimbusMetrics) -> ASGIApp:
    """Count requests by matched path pattern. Label cardinality is bounded by the number of routes."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                metrics.answered(_pattern(scope), message["status"])
            await send(message)

        await inner(scope, receive, send_counted)

    return application


def _pattern(scope: Scope) -> str:
    """Return the pattern of the served path; "other" for the web UI's files and for unknown paths."""
    path = str(scope.get(_PATTERN, scope["path"]))
    return path if _PATTERN in scope or path in _OWN_PATHS else "other"


def _with_headers(inner: ASGIApp) -> ASGIApp:
    """Add the security headers to every response, and keep exceptions from reaching the server."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            await inner(scope, receive, send_with_headers)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # already logged and answered by _failed; Starlette re-raises it
            log.debug("http.raised %r", error)

    return application
