"""Blocking calls of many threads, which share a stream to a real DRPC server."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from drpc_by_hand import Topology
from drpc_harness import DrpcProcess

from tupletree._rpc.channels import channel
from tupletree.drpc import DRPCClient
from tupletree.errors import DRPCError, DRPCTimeoutError, OverloadedError, TupletreeError, UnavailableError
from tupletree.testing import wait_until

HELD = 20


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(HELD + 5) as threads:
        yield threads


def page(server: DrpcProcess, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def pending(server: DrpcProcess) -> int:
    return sum(one["queued"] + one["sent"] for one in json.loads(page(server, "/functions")).values())


def error_of(call: Callable[[], Any]) -> TupletreeError | None:
    try:
        call()
    except TupletreeError as error:
        return error
    return None


def test_threads_share_a_stream(server: DrpcProcess, topology: Topology, pool: ThreadPoolExecutor) -> None:
    with DRPCClient(server.address) as client:
        answers = list(pool.map(lambda number: client.execute("echo", number), range(300)))
        assert answers == list(range(300))
        assert 'calls_started_total{method="/tupletree.v1.Drpc/Call"} 1.0' in page(server, "/metrics")


def test_a_client_that_is_closed_ends_the_calls_of_its_threads(server: DrpcProcess, pool: ThreadPoolExecutor) -> None:
    with DRPCClient(server.address) as client:
        ends = [pool.submit(error_of, lambda: client.execute("unserved")) for _ in range(HELD)]
        wait_until(lambda: pending(server) == HELD, what="the calls are queued")
    for end in ends:
        error = end.result(10)
        assert isinstance(error, DRPCError) and error.kind == "lost" and "the client was closed" in str(error)
    wait_until(lambda: pending(server) == 0, what="their requests are cancelled")


def test_a_killed_server_fails_each_call_once(
    server: DrpcProcess, topology: Topology, pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    with DRPCClient(server.address) as client:
        ends = [pool.submit(error_of, lambda: client.execute("unserved")) for _ in range(HELD)]
        wait_until(lambda: pending(server) == HELD, what="the calls are queued")
        server.process.kill()
        assert {getattr(end.result(20), "kind", None) for end in ends} == {"lost"}
        with pytest.raises(UnavailableError, match=r"cannot be reached"):
            client.execute("echo", 1)
        with DrpcProcess(tmp_path / "again", server.port) as again, channel(again.address) as opened:
            second = Topology(opened)
            wait_until(lambda: error_of(lambda: client.execute("echo", 1)) is None, 20, what="it answers")
            second.close()


@pytest.mark.long
def test_no_blocking_call_fails_while_one_of_two_servers_ends(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    with (
        DrpcProcess(tmp_path / "first") as first,
        DrpcProcess(tmp_path / "second") as second,
        channel(first.address) as to_first,
        channel(second.address) as to_second,
        DRPCClient([first.address, second.address]) as client,
    ):
        topologies = [Topology(to_first), Topology(to_second)]
        kept = pool.submit(error_of, lambda: client.execute("unserved"))
        wait_until(lambda: pending(first) == 1, what="the call is queued")
        first.process.terminate()
        answered = 0
        while first.process.poll() is None:
            assert list(pool.map(lambda number: client.execute("echo", number), range(8))) == list(range(8))
            answered += 1
        assert answered > 0
        error = kept.result(10)
        assert isinstance(error, DRPCError) and error.kind == "shutdown"
        for one in topologies:
            one.close()


def test_a_thread_that_waits_too_long_gives_up(server: DrpcProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tupletree.drpc.attempts.SLACK_S", -59.8)
    with DRPCClient(server.address) as client:
        with pytest.raises(DRPCTimeoutError, match=r"did not answer in time; the call was possibly processed"):
            client.execute("unserved", timeout_s=60)
        wait_until(lambda: pending(server) == 0, what="the request is cancelled")


def test_more_open_calls_than_a_client_holds_are_refused(server: DrpcProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tupletree.drpc.stream_state.MAX_OPEN", 1)
    with DRPCClient(server.address) as client:
        thread = threading.Thread(target=error_of, args=[lambda: client.execute("unserved")])
        thread.start()
        wait_until(lambda: pending(server) == 1, what="the call is queued")
        with pytest.raises(OverloadedError, match=r"the client waits for 1 calls of the DRPC server"):
            client.execute("echo")
    thread.join(10)
