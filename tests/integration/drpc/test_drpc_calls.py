"""Many calls on one stream to a real DRPC server: breaks, cancellation, rubbish from either side, a slow client."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from drpc_by_hand import Topology
from drpc_harness import DrpcProcess

from tupletree._rpc.channels import channel
from tupletree.drpc import DRPCClient
from tupletree.errors import DRPCError, DRPCTimeoutError, OverloadedError, UnavailableError, UsageError
from tupletree.testing import wait_until
from tupletree.v1 import drpc_pb2 as pb

METHOD = "/tupletree.v1.Drpc/Call"
HELD = 50


def page(server: DrpcProcess, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def pending(server: DrpcProcess) -> int:
    """Return the number of requests that have not ended."""
    return sum(one["queued"] + one["sent"] for one in json.loads(page(server, "/functions")).values())


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait beside the event loop."""
    await asyncio.to_thread(wait_until, condition, 30, what=what)


def test_calls_share_a_stream(server: DrpcProcess, topology: Topology) -> None:
    async def run() -> None:
        async with DRPCClient(server.address) as client:
            held = [asyncio.create_task(client.execute_async("unserved", n)) for n in range(HELD)]
            await until(lambda: pending(server) == HELD, "the calls are queued")
            answers = await asyncio.gather(*(client.execute_async("echo", n) for n in range(300)))
            assert answers == list(range(300))  # each its own, and none waits for those that are held
            assert f'tupletree_grpc_calls_started_total{{method="{METHOD}"}} 1.0' in page(server, "/metrics")
            held[0].cancel()
            held[7].cancel()
            await until(lambda: pending(server) == HELD - 2, "two are cancelled")
        ends = await asyncio.gather(*held, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        await until(lambda: pending(server) == 0, "a client that is closed leaves nothing")

    asyncio.run(run())


def test_a_client_outlives_an_event_loop_and_serves_one_at_a_time(server: DrpcProcess, topology: Topology) -> None:
    client = DRPCClient(server.address)

    async def run(number: int) -> Any:
        answer = await client.execute_async("echo", number)
        if number == 2:
            with pytest.raises(UsageError, match="was called in another event loop: make a DRPCClient in each"):
                await asyncio.to_thread(lambda: asyncio.run(run(3)))
        return answer

    assert [asyncio.run(run(number)) for number in (1, 2)] == [1, 2]
    asyncio.run(client.aclose())


def test_ends_of_calls_on_a_stream(server: DrpcProcess, topology: Topology) -> None:
    async def run() -> None:
        async with DRPCClient(server.address) as client:
            with pytest.raises(DRPCError, match=r"asked to fail") as raised:
                await client.execute_async("echo", "fail")
            assert raised.value.kind == "failed"
            with pytest.raises(DRPCTimeoutError, match=r"no topology has served function 'unserved' in time"):
                await client.execute_async("unserved", timeout_s=0.1)
            with pytest.raises(UsageError, match=r"must be named by at most"):
                await client.execute_async("a b")
            with pytest.raises(UsageError, match=r"the arguments of 'echo' have \d+ bytes, expected at most"):
                await client.execute_async("echo", "x" * 16 * 1024 * 1024)
            large = "y" * 3_000_000
            answers = await asyncio.gather(*(client.execute_async("echo", large) for _ in range(12)))
            assert {len(one) for one in answers} == {3_000_000}

    asyncio.run(run())


def test_a_server_without_room_refuses_a_call_and_another_is_asked(tmp_path: Path) -> None:
    async def run(full: DrpcProcess, free: DrpcProcess) -> None:
        async with DRPCClient(full.address) as one:
            held = [asyncio.create_task(one.execute_async("echo", "keep")) for _ in range(5)]
            await until(lambda: pending(full) == 5, "the server is full")
            with pytest.raises(OverloadedError, match=r"drpc.max.pending is 10\): call again later"):
                await one.execute_async("echo", 1)
            async with DRPCClient([full.address, free.address]) as both:
                assert [await both.execute_async("echo", n) for n in range(4)] == [0, 1, 2, 3]
            for task in held:
                task.cancel()

    with (
        DrpcProcess(tmp_path / "full", drpc_max_pending=10) as full,
        DrpcProcess(tmp_path / "free") as free,
        channel(free.address) as opened,
    ):
        topology = Topology(opened)
        asyncio.run(run(full, free))
        topology.close()


def test_a_server_killed_in_the_middle_fails_each_call_once(
    server: DrpcProcess, topology: Topology, tmp_path: Path
) -> None:
    async def run() -> None:
        async with DRPCClient(server.address) as client:
            ends: Counter[int] = Counter()
            kept = [asyncio.create_task(client.execute_async("echo", "keep")) for _ in range(HELD)]
            for number, task in enumerate(kept):
                task.add_done_callback(lambda _, number=number: ends.update([number]))  # type: ignore[misc]
            await until(lambda: pending(server) == HELD, "the calls are accepted")
            server.process.kill()
            late = [asyncio.create_task(client.execute_async("echo", n)) for n in range(20)]
            for error in await asyncio.gather(*kept, return_exceptions=True):
                assert isinstance(error, DRPCError) and error.kind == "lost", error
                assert "the call was lost" in str(error) and "possibly processed" in str(error)
            assert len(ends) == HELD and set(ends.values()) == {1}
            for error in await asyncio.gather(*late, return_exceptions=True):
                assert isinstance(error, UnavailableError | DRPCError), error
            with pytest.raises(UnavailableError, match=r"cannot be reached"):
                await client.execute_async("echo", 1)
            with DrpcProcess(tmp_path / "again", server.port) as again, channel(again.address) as opened:
                second = Topology(opened)
                await until(lambda: asyncio.run(_is_answered(again.address)), "the new server answers")
                answered = [await _answer(client) for _ in range(20)]  # the channel connects within a second
                assert answered[-1] == 5
                second.close()

    server.process.poll()
    asyncio.run(run())


async def _is_answered(address: str) -> bool:
    async with DRPCClient(address) as client:
        return bool(await client.execute_async("echo", True, timeout_s=5))


async def _answer(client: DRPCClient) -> Any:
    deadline_s = time.monotonic() + 20
    while True:
        try:
            return await client.execute_async("echo", 5, timeout_s=5)
        except UnavailableError:  # was not processed
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.05)


@pytest.mark.long
def test_no_call_fails_while_one_of_two_servers_ends(tmp_path: Path) -> None:
    async def run(first: DrpcProcess, second: DrpcProcess) -> None:
        async with DRPCClient([first.address, second.address]) as client:
            assert await asyncio.gather(*(client.execute_async("echo", n) for n in range(10))) == list(range(10))
            kept = asyncio.create_task(client.execute_async("unserved", 1))  # by the first, in turn
            await until(lambda: pending(first) == 1, "the call is queued")
            first.process.terminate()
            answered = 0
            while first.process.poll() is None:
                assert await client.execute_async("echo", answered) == answered
                answered += 1
            assert answered > 0
            with pytest.raises(DRPCError, match=r"has ended before the request was answered") as raised:
                await kept
            assert raised.value.kind == "shutdown"
            assert [await client.execute_async("echo", n) for n in range(4)] == [0, 1, 2, 3]

    with (
        DrpcProcess(tmp_path / "first") as first,
        DrpcProcess(tmp_path / "second") as second,
        channel(first.address) as to_first,
        channel(second.address) as to_second,
    ):
        topologies = [Topology(to_first), Topology(to_second)]
        asyncio.run(run(first, second))
        for one in topologies:
            one.close()


def _raw(opened: grpc.Channel, requests: Iterator[bytes]) -> Any:
    return opened.stream_stream(METHOD)(requests)


@pytest.mark.parametrize(
    ("rubbish", "why"),
    [
        (b"\xff\xff\xff\xff", "cannot be decoded"),
        (pb.CallRequest(calls=[pb.NumberedCall(function="echo")]).SerializeToString(), "expected a higher number"),
    ],
)
def test_rubbish_ends_its_own_stream_alone(server: DrpcProcess, topology: Topology, rubbish: bytes, why: str) -> None:
    async def run() -> None:
        async with DRPCClient(server.address) as client:
            kept = asyncio.create_task(client.execute_async("unserved", 1))
            await until(lambda: pending(server) == 1, "the call is queued")
            mine = pb.CallRequest(calls=[pb.NumberedCall(number=1, function="unserved")]).SerializeToString()
            with channel(server.address) as opened, pytest.raises(grpc.RpcError) as raised:
                list(_raw(opened, iter([mine, rubbish])))
            assert raised.value.code() is grpc.StatusCode.OUT_OF_RANGE, raised.value
            assert why in raised.value.details()
            await until(lambda: pending(server) == 1, "the calls of that stream are cancelled")
            assert await client.execute_async("echo", 3) == 3
            kept.cancel()

    asyncio.run(run())


def test_a_client_that_does_not_read_is_not_read(server: DrpcProcess, topology: Topology) -> None:
    written: list[float] = []
    is_over = threading.Event()

    def requests() -> Iterator[bytes]:
        for message in range(100_000):
            if is_over.is_set():
                return
            written.append(time.monotonic())
            refused = [pb.NumberedCall(number=1000 * message + n, function="!" * 100) for n in range(1, 1001)]
            yield pb.CallRequest(calls=refused).SerializeToString()

    with channel(server.address) as opened, DRPCClient(server.address) as client:
        call = _raw(opened, requests())
        wait_until(lambda: bool(written) and time.monotonic() - written[-1] > 2, 60, what="writing has stopped")
        assert len(written) < 2000
        assert [client.execute("echo", n) for n in range(5)] == [0, 1, 2, 3, 4]
        is_over.set()
        call.cancel()


class Peer:
    """A server that answers the stream with given bytes: the hello, then a message for each further request."""

    def __init__(self, replies: list[bytes]) -> None:
        self.replies = replies

    async def _call(self, requests: Any, context: Any) -> AsyncIterator[bytes]:
        await anext(aiter(requests))
        yield b""
        await anext(aiter(requests))
        for reply in self.replies:
            yield reply
        async for _ in requests:
            pass

    async def __aenter__(self) -> str:
        self._server = grpc.aio.server()
        method = grpc.stream_stream_rpc_method_handler(self._call)
        service, _, name = METHOD[1:].partition("/")
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: method}),))
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return f"127.0.0.1:{port}"

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)


def _reply(number: int, **outcome: Any) -> bytes:
    return pb.CallReply(replies=[pb.NumberedReply(number=number, **outcome)]).SerializeToString()


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        ([b"\xff\xff\xff"], r"cannot be decoded; it was possibly processed"),
        ([_reply(9, result=b"1"), _reply(1)], r"neither an answer nor a reason"),
        ([_reply(1, result=b"{")], r"the answer is not JSON"),
    ],
)
def test_rubbish_from_a_server_fails_the_call(replies: list[bytes], why: str) -> None:
    async def run() -> None:
        async with Peer(replies) as address, DRPCClient(address) as client:
            with pytest.raises((DRPCError, UsageError), match=why):
                await client.execute_async("f", 1, timeout_s=20)

    asyncio.run(run())


def test_replies_to_calls_that_have_ended_are_ignored() -> None:
    async def run() -> None:
        twice = [_reply(77, result=b"1"), _reply(1, result=b"1"), _reply(1, result=b"2")]
        async with Peer(twice) as address, DRPCClient(address) as client:
            assert await client.execute_async("f", 1) == 1

    asyncio.run(run())


def test_a_silent_server_is_not_waited_for_forever() -> None:
    async def run() -> None:
        async with Peer([]) as address, DRPCClient(address, {"drpc.servers": None}) as client:
            client.timeout_s = 0.2 - 10
            with pytest.raises(DRPCTimeoutError, match=r"did not answer in time; the call was possibly processed"):
                await client.execute_async("f", 1)

    asyncio.run(run())


def test_what_a_server_has_not_read_is_called_on_another_stream() -> None:
    """A server that retires the stream before the call: the client opens another, and nothing is lost or doubled."""

    class Retiring(Peer):
        opened = 0

        async def _call(self, requests: Any, context: Any) -> AsyncIterator[bytes]:
            self.opened += 1
            self.replies = [_reply(1, result=b"7")]
            if self.opened == 1:
                self.replies = [pb.CallReply(read_until=0).SerializeToString()]
            async for reply in super()._call(requests, context):
                yield reply

    async def run() -> None:
        peer = Retiring([])
        async with peer as address, DRPCClient(address) as client:
            assert await client.execute_async("f", 1) == 7
            assert peer.opened == 2

    asyncio.run(run())
