"""The HTTP side of a daemon: /healthz, /readyz, /metrics and whatever routes the daemon adds."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence

import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tupletree._daemon.health import Readiness
from tupletree._rpc.ports import bind


class _Server(uvicorn.Server):
    """Uvicorn inside somebody else's loop: signals are not its business, and it says when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


class HttpServer:
    """Serves a daemon's health and metrics in the daemon's own event loop.

    /healthz  200 while the process answers at all
    /readyz   200 {"ready": true, "reasons": []}, or 503 with the reasons
    /metrics  Prometheus text of ``registry``
    """

    def __init__(self, readiness: Readiness, registry: CollectorRegistry, routes: Sequence[BaseRoute] = ()) -> None:
        self._readiness = readiness
        self._registry = registry
        own = [
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
        ]
        self._app = Starlette(routes=[*own, *routes])
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (0: any free port) and return the real port. Raises UsageError if it is in use."""
        listener = bind(host, port)
        listener.listen(128)
        config = uvicorn.Config(
            self._app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            ws="none",
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        up = asyncio.create_task(self._server.up.wait())
        await asyncio.wait({self._task, up}, return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if self._task.done():
            self._task.result()
        return int(listener.getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and end open connections within a second. Idempotent."""
        if self._server is None or self._task is None:
            return
        self._server.should_exit = True
        await self._task

    async def _healthz(self, request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def _readyz(self, request: Request) -> Response:
        reasons = self._readiness.reasons
        return JSONResponse({"ready": not reasons, "reasons": reasons}, status_code=503 if reasons else 200)

    async def _metrics(self, request: Request) -> Response:
        return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_LATEST})
