"""Questions to a daemon that was started here: whether it is ready."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tupletree._daemon.health import Readiness
from tupletree._daemon.http import HttpServer
from tupletree._devcluster.daemon import DaemonProcess
from tupletree._devcluster.plan import DaemonPlan
from tupletree._net import bind


def test_a_daemon_is_asked_directly_where_the_web_needs_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bind("127.0.0.1", 0) as nobody:
        proxy = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.delenv("no_proxy", raising=False)

    async def scenario() -> None:
        readiness = Readiness()
        server = HttpServer(readiness, CollectorRegistry())
        port = await server.start("127.0.0.1", 0)
        daemon = DaemonProcess(DaemonPlan("nimbus", 0, str(tmp_path), 0, port, (), {}))
        assert await asyncio.to_thread(daemon.not_ready) == []
        readiness.set("zookeeper", "connecting")
        assert await asyncio.to_thread(daemon.not_ready) == ["zookeeper: connecting"]
        await server.stop()
        assert await asyncio.to_thread(daemon.not_ready) == ["it does not answer"]

    asyncio.run(scenario())
