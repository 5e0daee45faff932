"""Halves of surrogate pairs on their way through a real DRPC server, clients that are closed, tokens that are gone."""

from __future__ import annotations

import asyncio
import http.client
from pathlib import Path
from typing import Any

import pytest
from drpc_by_hand import Topology
from drpc_harness import DrpcProcess

from tupletree._rpc.channels import channel
from tupletree.drpc import DRPCClient
from tupletree.drpc.values import decoded, encoded
from tupletree.errors import TupletreeError, UsageError

HALF = "half of a pair: \ud800"


def test_half_of_a_surrogate_pair_is_escaped() -> None:
    assert decoded(encoded(HALF, "it").encode(), "it") == HALF
    assert encoded("ä", "it") == '"ä"'


def test_half_of_a_surrogate_pair_is_answered_and_ends_no_stream(server: DrpcProcess) -> None:
    with channel(server.address) as opened:
        topology = Topology(opened)
        try:
            connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=20)
            connection.request("POST", "/drpc/echo", b'"\\ud800"', {"Content-Type": "application/json"})
            assert connection.getresponse().status == 200
            connection.close()
            with DRPCClient(server.address) as client:
                assert client.execute("echo", HALF) == HALF
                assert client.execute("echo", 1) == 1
        finally:
            topology.close()


def test_a_client_that_is_closed_makes_no_connection_any_more(server: DrpcProcess) -> None:
    client = DRPCClient(server.address)
    client.close()
    with pytest.raises(UsageError, match=r"this DRPCClient is closed"):
        client.execute("echo", 1)
    with pytest.raises(UsageError, match=r"this DRPCClient is closed"):
        asyncio.run(client.execute_async("echo", 1))


def test_a_token_that_cannot_be_read_is_the_error_of_both_ways(server: DrpcProcess, tmp_path: Path) -> None:
    conf: dict[str, Any] = {"drpc.servers": [server.address], "security.token.file": str(tmp_path / "token")}
    Path(tmp_path, "token").touch(0o600)
    Path(tmp_path, "token").write_text("a token")
    client = DRPCClient(conf=conf)
    Path(tmp_path, "token").unlink()

    async def call() -> None:
        try:
            await client.execute_async("echo", 1)
        finally:
            await client.aclose()

    with pytest.raises(TupletreeError, match=r"token"):
        client.execute("echo", 1)
    with pytest.raises(TupletreeError, match=r"token"):
        asyncio.run(call())
