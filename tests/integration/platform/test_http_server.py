"""The HTTP side of a daemon, over real sockets."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.error
import urllib.request
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from tupletree._daemon.health import Readiness
from tupletree._daemon.http import HttpServer, json_page
from tupletree._daemon.http_connection import Page
from tupletree.errors import UsageError


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_readiness_metrics_and_own_routes() -> None:
    def ledger() -> Page:
        return json_page({"shards": []})

    async def scenario() -> None:
        readiness, registry = Readiness(), CollectorRegistry()
        Counter("tupletree_trees", "trees", registry=registry).inc(3)
        server = HttpServer(readiness, registry, {"/ledger": ledger})
        port = await server.start("127.0.0.1", 0)

        async def fetch(path: str) -> tuple[int, Any]:
            status, body = await asyncio.to_thread(get, port, path)
            return status, json.loads(body) if body.startswith("{") else body

        assert (await fetch("/healthz"))[0] == 200
        assert await fetch("/readyz") == (200, {"ready": True, "reasons": []})
        readiness.set("zookeeper", "connecting")
        assert await fetch("/readyz") == (503, {"ready": False, "reasons": ["zookeeper: connecting"]})
        assert (await fetch("/healthz"))[0] == 200
        status, metrics = await fetch("/metrics")
        assert status == 200
        assert "tupletree_trees_total 3.0" in metrics
        assert await fetch("/ledger") == (200, {"shards": []})
        assert (await fetch("/nothing"))[0] == 404
        await server.stop()
        await server.stop()
        with pytest.raises(urllib.error.URLError):
            await fetch("/healthz")

    asyncio.run(scenario())


def test_the_loops_owner_keeps_its_signal_handlers() -> None:
    async def scenario() -> None:
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        server = HttpServer(Readiness(), CollectorRegistry())
        await server.start("127.0.0.1", 0)
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
        await server.stop()

    asyncio.run(scenario())


def test_a_port_in_use_is_one_sentence() -> None:
    async def scenario() -> None:
        first = HttpServer(Readiness(), CollectorRegistry())
        port = await first.start("127.0.0.1", 0)
        second = HttpServer(Readiness(), CollectorRegistry())
        with pytest.raises(UsageError, match=f"^port {port} on 127.0.0.1 is in use$"):
            await second.start("127.0.0.1", port)
        await second.stop()
        await first.stop()

    asyncio.run(scenario())
