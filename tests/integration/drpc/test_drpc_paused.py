"""Tasks of a deactivated topology take no requests: those wait for others, also as the task connects again."""

from __future__ import annotations

import json
import queue
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from drpc_by_hand import Topology
from drpc_harness import DrpcProcess

from tupletree._rpc.channels import channel
from tupletree.drpc import DRPCClient
from tupletree.drpc.intake import RemoteIntake, Serving
from tupletree.testing import wait_until
from tupletree.v1 import drpc_pb2 as pb
from tupletree.v1 import drpc_pb2_grpc

CALLS = 20
SERVING = Serving("t-1", "echo", 1000, False)


class ServerByHand(drpc_pb2_grpc.DrpcServicer):
    """A DRPC server that sends requests to a task which has just paused, and then breaks its stream."""

    def __init__(self) -> None:
        self.received: queue.Queue[pb.ServeRequest] = queue.Queue()

    def Serve(self, request_iterator: Any, context: Any) -> Iterator[pb.ServeReply]:
        hello = next(request_iterator)
        self.received.put(hello)
        yield pb.ServeReply()
        if hello.hello.paused:
            for _ in request_iterator:
                pass
            return
        for request in request_iterator:
            self.received.put(request)
            if request.update.given_back:
                return
            if request.update.paused:
                yield pb.ServeReply(requests=[pb.DrpcRequest(id=id, args=b"1") for id in "ab"])


@pytest.fixture
def by_hand() -> Iterator[tuple[ServerByHand, str]]:
    servicer = ServerByHand()
    server = grpc.server(ThreadPoolExecutor(4))
    drpc_pb2_grpc.add_DrpcServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"127.0.0.1:{port}"
    server.stop(0).wait()


def functions(server: DrpcProcess) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/functions", timeout=10) as reply:
        return json.loads(reply.read())


def test_a_paused_task_gives_back_what_was_on_the_way_and_connects_again_as_paused(
    by_hand: tuple[ServerByHand, str],
) -> None:
    servicer, address = by_hand
    intake = RemoteIntake(address, SERVING, lambda: None, lambda error: None)
    try:
        assert not servicer.received.get(timeout=10).hello.paused
        intake.set_paused(True)
        assert servicer.received.get(timeout=10).update.paused
        late = servicer.received.get(timeout=10).update
        assert late.given_back == ["a", "b"] and late.paused
        assert intake.next() is None
        assert servicer.received.get(timeout=10).hello.paused
    finally:
        intake.close()


def test_a_task_that_connects_as_paused_is_sent_nothing_until_it_is_active(server: DrpcProcess) -> None:
    hello = pb.ServeHello(topology_id="t-1", function="echo", max_in_flight=1000, paused=True)
    updates: queue.SimpleQueue[pb.ServeRequest | None] = queue.SimpleQueue()
    updates.put(pb.ServeRequest(hello=hello))
    with channel(server.address) as opened, ThreadPoolExecutor(CALLS) as pool, DRPCClient(server.address) as client:
        calls = [pool.submit(client.execute, "echo", n) for n in range(CALLS)]
        wait_until(lambda: functions(server).get("echo", {}).get("queued") == CALLS, 10, what="the calls are queued")
        replies = drpc_pb2_grpc.DrpcStub(opened).Serve(iter(updates.get, None))
        assert not next(replies).requests
        assert functions(server)["echo"] == {"queued": CALLS, "sent": 0, "serving_tasks": 1}
        updates.put(pb.ServeRequest(update=pb.ServeUpdate(paused=False)))
        assert len(next(replies).requests) == CALLS
        updates.put(None)
        replies.cancel()
        assert all(call.exception(10) is not None for call in calls)  # lost with the task


def test_requests_go_past_a_task_that_is_deactivated_as_it_opens(server: DrpcProcess) -> None:
    with channel(server.address) as opened, ThreadPoolExecutor(CALLS) as pool, DRPCClient(server.address) as client:
        calls = [pool.submit(client.execute, "echo", n) for n in range(CALLS)]
        wait_until(lambda: functions(server).get("echo", {}).get("queued") == CALLS, 10, what="the calls are queued")
        intake = RemoteIntake(server.address, SERVING, lambda: None, lambda error: None)
        try:
            intake.set_paused(True)  # a worker opens the spouts of an inactive topology, then deactivates them
            wait_until(lambda: intake.is_connected, 10, what="the task is connected")
            topology = Topology(opened)
            assert sorted(call.result(10) for call in calls) == list(range(CALLS))
            topology.close()
        finally:
            intake.close()
