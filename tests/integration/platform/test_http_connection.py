"""What a daemon's HTTP server does with each kind of client, over real sockets. No test leaves a task or a socket."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tupletree._daemon.health import Readiness
from tupletree._daemon.http import HttpServer, json_page
from tupletree._daemon.http_connection import Handler, Limits, Page

LARGE = bytes(64 * 1024 * 1024)
HANG_S = 30.0  # what takes so long hangs


def large() -> Page:
    return HTTPStatus.OK, "application/octet-stream", LARGE


def broken() -> Page:
    raise ValueError("a secret")


async def later() -> Page:
    await asyncio.sleep(0)
    return json_page({"later": True})


async def never() -> Page:
    await asyncio.Event().wait()
    raise AssertionError


ROUTES: Mapping[str, Handler] = {"/large": large, "/broken": broken, "/later": later, "/never": never}


def request(path: str = "/healthz", *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


LAST = "Connection: close"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG_S):
        while not condition():
            await asyncio.sleep(0.005)


def sockets() -> set[str]:
    """The sockets that this process holds. Those of earlier tests may be closed at any time."""
    held = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the directory's own
            held.add(os.readlink(f"/proc/self/fd/{name}"))
    return {one for one in held if one.startswith("socket:")}


class Client:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def rest(self) -> bytes:
        """All that the server still sends; it must end the connection."""
        async with asyncio.timeout(HANG_S):
            return await self.reader.read()

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer; the connection stays open."""
        async with asyncio.timeout(HANG_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            assert length is not None
            return int(head.split()[1]), await self.reader.readexactly(int(length[1]))


class Bench:
    """A server and its clients."""

    def __init__(self, limits: Limits) -> None:
        self.server = HttpServer(Readiness(), CollectorRegistry(), ROUTES, limits)
        self.port = 0
        self.clients: list[Client] = []

    async def client(self, data: bytes = b"") -> Client:
        """A connection over which ``data`` was sent."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        client.writer.write(data)
        return client

    async def talk(self, data: bytes) -> bytes:
        """All that is answered to ``data`` until the server ends the connection."""
        return await (await self.client(data)).rest()


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[Bench]:
    tasks, held = asyncio.all_tasks(), sockets()
    bench = Bench(Limits(**limits))
    bench.port = await bench.server.start("127.0.0.1", 0)
    try:
        yield bench
    finally:
        async with asyncio.timeout(HANG_S):
            await bench.server.stop()
        for client in bench.clients:
            client.writer.transport.abort()
    assert asyncio.all_tasks() == tasks
    await until(lambda: not sockets() - held)


def run(scenario: Callable[[Bench], Awaitable[None]], **limits: Any) -> None:
    async def main() -> None:
        async with serving(**limits) as bench:
            await scenario(bench)

    asyncio.run(main())


def statuses(answers: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", answers)]


def test_one_connection_serves_many_requests() -> None:
    async def scenario(bench: Bench) -> None:
        def ask() -> list[int]:
            connection = http.client.HTTPConnection("127.0.0.1", bench.port, timeout=HANG_S)
            found = []
            for path in ("/healthz", "/later?and=a#query", "/nothing", "/metrics"):
                connection.request("GET", path)
                used = connection.sock
                with connection.getresponse() as reply:
                    found.append(reply.status)
                    reply.read()
                assert connection.sock is used
            connection.close()
            return found

        assert await asyncio.to_thread(ask) == [200, 200, 404, 200]

    run(scenario)


def test_head_says_what_get_says_without_the_body() -> None:
    async def scenario(bench: Bench) -> None:
        got = await bench.talk(request("/healthz", LAST))
        head = await bench.talk(request("/healthz", LAST, method="HEAD"))
        lines, _, body = got.partition(b"\r\n\r\n")
        assert json.loads(body) == {"alive": True}
        assert re.sub(rb"date: [^\r]*", b"", head) == re.sub(rb"date: [^\r]*", b"", lines) + b"\r\n\r\n"
        assert f"content-length: {len(body)}".encode() in head

    run(scenario)


def test_requests_sent_at_once_are_answered_in_order() -> None:
    async def scenario(bench: Bench) -> None:
        paths = ["/later", "/nothing", "/broken", "/healthz"]
        data = b"".join(request(path) for path in paths) + request("/metrics", LAST) + request("/healthz")
        assert statuses(await bench.talk(data)) == [200, 404, 500, 200, 200]

    run(scenario)


def test_an_old_client_gets_its_answer_and_the_end() -> None:
    async def scenario(bench: Bench) -> None:
        assert statuses(await bench.talk(b"GET /healthz HTTP/1.0\r\n\r\n")) == [200]

    run(scenario)


def test_a_client_that_closes_its_side_gets_its_answer() -> None:
    async def scenario(bench: Bench) -> None:
        client = await bench.client(request())
        client.writer.write_eof()
        assert statuses(await client.rest()) == [200]

    run(scenario)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01" + bytes(100), 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),  # names no host
        (b"GET /healthz HTTP/1.1\r\nHost x\r\n\r\n", 400),
        (request("/healthz", "Content-Length: many"), 400),
        (request("/healthz", "Transfer-Encoding: chunked", method="POST") + b"zzz\r\n", 400),
        (b"GET /" + b"a" * 200_000, 431),
        (request("/healthz", "X: " + "a" * 200_000), 431),
        (request("/healthz", "Content-Length: 5") + b"hello", 413),
        (request("/healthz", "Content-Length: 5"), 413),
        (request("/healthz", "Transfer-Encoding: chunked"), 413),
        (request("/healthz", "Content-Length: 1000000") + bytes(1_000_000), 413),
        (request("/healthz", "Content-Length: 5", "Expect: 100-continue", method="PUT"), 405),
        (request("/healthz", "Content-Length: 5", method="POST") + b"hello", 405),
        (request("x:1", method="CONNECT"), 405),
        (request("/healthz", "Upgrade: websocket", "Connection: upgrade"), 200),
    ],
)
def test_what_is_no_request_is_answered_once_and_ends_the_connection(data: bytes, status: int) -> None:
    async def scenario(bench: Bench) -> None:
        answer = await bench.talk(data)
        assert statuses(answer) == [status]
        assert b"connection: close" in answer.lower()
        assert (b"allow: GET, HEAD" in answer) == (status == 405)
        assert statuses(await bench.talk(request("/healthz", LAST))) == [200]

    run(scenario)


def test_another_method_without_a_body_does_not_end_the_connection() -> None:
    async def scenario(bench: Bench) -> None:
        assert statuses(await bench.talk(request(method="DELETE") + request("/healthz", LAST))) == [405, 200]

    run(scenario)


def test_a_handler_that_raises_tells_the_log_and_not_the_client(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        client = await bench.client(request("/broken"))
        assert await client.answer() == (500, b"Internal Server Error\n")
        client.writer.write(request("/healthz"))
        assert (await client.answer())[0] == 200

    run(scenario)
    [record] = [record for record in caplog.records if record.name == "tupletree.http"]
    assert record.getMessage() == "http.failed path=/broken"
    assert "a secret" in caplog.text


def test_a_request_that_does_not_get_on_is_ended() -> None:
    async def scenario(bench: Bench) -> None:
        client = await bench.client(request()[:-2])
        assert statuses(await client.rest()) == [408]
        after_another = await bench.client(request() + request()[:-2])
        assert statuses(await after_another.rest()) == [200, 408]

    run(scenario, request_s=0.05)


def test_a_client_with_nothing_to_say_is_ended_without_a_word() -> None:
    async def scenario(bench: Bench) -> None:
        assert await bench.talk(b"") == b""
        assert statuses(await bench.talk(request())) == [200]

    run(scenario, idle_s=0.05)


def test_a_client_that_does_not_take_its_answer_is_cut_off() -> None:
    async def scenario(bench: Bench) -> None:
        before = asyncio.all_tasks()
        client = await bench.client(request("/large"))
        await until(lambda: asyncio.all_tasks() != before)
        await until(lambda: asyncio.all_tasks() == before)
        with suppress(ConnectionResetError):
            assert len(await client.rest()) < len(LARGE)

    run(scenario, request_s=0.05)


def test_a_large_answer_arrives_whole() -> None:
    async def scenario(bench: Bench) -> None:
        assert (await bench.talk(request("/large", LAST))).endswith(b"\r\n\r\n" + LARGE)

    run(scenario)


def test_of_too_many_connections_the_oldest_end() -> None:
    async def scenario(bench: Bench) -> None:
        silent = [await bench.client() for _ in range(20)]
        assert statuses(await bench.talk(request("/healthz", LAST))) == [200]
        for client in silent[:-4]:
            assert await client.rest() == b""
        for client in silent[-4:]:
            client.writer.write(request())
            assert (await client.answer())[0] == 200

    run(scenario, connections=5)


def test_many_clients_at_once() -> None:
    async def scenario(bench: Bench) -> None:
        for _ in range(5):
            answers = await asyncio.gather(*(bench.talk(request("/later", LAST)) for _ in range(100)))
            assert [statuses(answer) for answer in answers] == [[200]] * 100

    run(scenario, connections=500)  # the server may still be ending connections of earlier rounds, which count


def test_stop_ends_connections_whatever_they_are_at() -> None:
    async def scenario(bench: Bench) -> None:
        idle = await bench.client(request())
        assert (await idle.answer())[0] == 200
        silent, half, waiting, full = [
            await bench.client(data) for data in (b"", request()[:-2], request("/never"), request("/large"))
        ]
        async with asyncio.timeout(HANG_S):
            await full.reader.readuntil(b"\r\n\r\n")
            await asyncio.gather(bench.server.stop(), bench.server.stop())
            await bench.server.stop()
        for client in (idle, silent, half, waiting):
            assert await client.rest() == b""
        with suppress(ConnectionResetError):
            assert len(await full.rest()) < len(LARGE)

    run(scenario)


@pytest.mark.parametrize("turns", range(8))
def test_stop_while_a_client_connects(turns: int) -> None:
    async def scenario(bench: Bench) -> None:
        with socket.create_connection(("127.0.0.1", bench.port), timeout=HANG_S) as client:
            client.sendall(request())
            for _ in range(turns):
                await asyncio.sleep(0)
            await bench.server.stop()
            with suppress(ConnectionResetError):
                assert statuses(await asyncio.to_thread(client.recv, 1000)) in ([], [200])

    run(scenario)
