"""Callers that go without a word: their streams and requests at a real DRPC server end at once."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import signal
import subprocess
import sys
import urllib.request
import weakref

from drpc_by_hand import Topology
from drpc_harness import DrpcProcess

from tupletree.drpc import DRPCClient
from tupletree.testing import wait_until

PROGRAM = """
import sys
from tupletree.drpc import DRPCClient
DRPCClient(sys.argv[1]).execute("unserved", 1)
"""


def page(server: DrpcProcess, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}{path}", timeout=10) as reply:
        return str(reply.read().decode())


def queued(server: DrpcProcess) -> int:
    return sum(one["queued"] for one in json.loads(page(server, "/functions")).values())


def open_streams(server: DrpcProcess) -> float:
    """Return the number of open streams of callers."""
    found = re.search(r'tupletree_grpc_calls_active{method="/tupletree.v1.Drpc/Call"} (\S+)', page(server, "/metrics"))
    return float(found[1]) if found else 0.0


def test_the_requests_of_a_killed_program_are_cancelled(server: DrpcProcess) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, server.address]) as program:
        try:
            wait_until(lambda: queued(server) == 1, 30, what="the request is queued")
        finally:
            program.send_signal(signal.SIGKILL)
    wait_until(lambda: queued(server) == 0 and open_streams(server) == 0, 10, what="the request is cancelled")


def test_the_stream_of_threads_ends_with_a_client_that_is_dropped(server: DrpcProcess, topology: Topology) -> None:
    client = DRPCClient(server.address)
    assert client.execute("echo", 1) == 1
    assert open_streams(server) == 1
    gone = weakref.ref(client)
    del client
    gc.collect()
    assert gone() is None
    wait_until(lambda: open_streams(server) == 0, 10, what="the stream has ended")


def test_the_stream_of_a_loop_ends_with_a_client_that_is_dropped(server: DrpcProcess, topology: Topology) -> None:
    async def run() -> None:
        assert await DRPCClient(server.address).execute_async("echo", 1) == 1
        gc.collect()
        await asyncio.to_thread(wait_until, lambda: open_streams(server) == 0, 10, what="the stream has ended")

    asyncio.run(run())
