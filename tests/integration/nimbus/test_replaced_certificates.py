"""Certificates that are replaced while nimbus runs: what cannot be read for a moment ends no watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tupletree._coord.leader import Front
from tupletree._net import bind
from tupletree._security import current
from tupletree._security.tls import Tls
from tupletree.nimbus.leader.acker_health import AckerHealth
from tupletree.nimbus.leader.leader_watch import LeaderWatch
from tupletree.nimbus.rpc_clients import Peers
from tupletree.v1.topology_pb2 import Presence


@pytest.fixture
def missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The files of tls.* are not there, until this is undone."""
    monkeypatch.setattr(current, "_current", current.Security(tls=Tls(str(tmp_path / "ca.crt"))))
    return monkeypatch


async def until_logged(caplog: pytest.LogCaptureFixture, name: str) -> None:
    async with asyncio.timeout(10):
        while name not in caplog.text:
            await asyncio.sleep(0.01)


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port that refuses connections."""
    with bind("127.0.0.1", 0) as nobody_listens:
        yield nobody_listens.getsockname()[1]


def test_an_acker_is_watched_when_the_certificates_are_there_again(
    missing: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, dead_port: int
) -> None:
    async def run(port: int) -> None:
        woken = asyncio.Event()
        health = AckerHealth(woken.set, lambda reply, uptime_s, now_s: None)
        health.watch({"a": Presence(id="a", host="127.0.0.1", grpc_port=port)})
        await until_logged(caplog, "acker.not_asked")
        assert "a" in health.alive()
        missing.undo()
        async with asyncio.timeout(20):
            await woken.wait()
        assert "a" not in health.alive()  # its port refuses connections
        await health.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run(dead_port))


def test_a_leader_is_watched_when_the_certificates_are_there_again(
    missing: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, dead_port: int
) -> None:
    async def run(port: int) -> None:
        unseated: asyncio.Future[Front] = asyncio.get_running_loop().create_future()

        async def unseat(front: Front) -> None:
            unseated.set_result(front)

        watch = LeaderWatch("127.0.0.1:1", unseat)
        front = Front("n2-0000000001", f"127.0.0.1:{port}", False)
        watch.watch(front)
        await until_logged(caplog, "leader.not_unseated")
        missing.undo()
        async with asyncio.timeout(20):
            assert await unseated == front
        await watch.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run(dead_port))


def test_hints_that_cannot_be_sent_end_no_leadership(
    missing: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        peers = Peers()
        peers.wake_supervisors(["127.0.0.1:1"], 1)
        peers.drop_topology(["127.0.0.1:2"], 1, "words-1-1")
        await peers.close()

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())
    assert "supervisor.unwoken address=127.0.0.1:1" in caplog.text
    assert "acker.undropped address=127.0.0.1:2" in caplog.text
