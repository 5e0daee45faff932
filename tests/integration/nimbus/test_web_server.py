"""nimbus's HTTP server with clients that are slow, silent, many, or do not take their answer: over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tupletree._daemon.http_connection import Limits
from tupletree._net import bind
from tupletree.nimbus.web.server import WebServer

HANG_S = 30.0  # what takes so long hangs
LARGE = bytes(64 * 1024 * 1024)
NEVER_S = 3600.0

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the length of the body, or with much; fails; leaves an answer incomplete; or waits a little."""
    if scope["path"] == "/fails":
        raise ValueError("a secret")
    if scope["path"] == "/incomplete":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        return
    if scope["path"] == "/later":
        await asyncio.sleep(0.05)
    body = LARGE
    if scope["path"] != "/large":
        length, more = 0, True
        while more:
            message = await receive()
            length += len(message.get("body", b""))
            more = message.get("more_body", False)
        body = str(length).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> bytes:
        """The body of the next answer."""
        async with asyncio.timeout(HANG_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            return await self.reader.readexactly(length)

    async def is_ended(self) -> bool:
        """Wait until the server has ended the connection."""
        async with asyncio.timeout(HANG_S):
            try:
                while await self.reader.read(1 << 20):
                    pass
            except ConnectionError:
                pass
        return True


class Site:
    def __init__(self, port: int) -> None:
        self.port = port
        self.clients: list[Client] = []

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client


@asynccontextmanager
async def served(**limits: Any) -> AsyncIterator[Site]:
    chosen = {"request_s": NEVER_S, "idle_s": NEVER_S, **limits}
    server = WebServer(application, Limits(**chosen))
    listener = bind("127.0.0.1", 0)
    await server.start(listener)
    site = Site(listener.getsockname()[1])
    try:
        yield site
    finally:
        async with asyncio.timeout(HANG_S):
            await server.stop()
            await server.stop()
        for client in site.clients:
            assert await client.is_ended()
            client.writer.close()


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def test_requests_one_after_the_other_and_without_waiting() -> None:
    async def scenario() -> None:
        async with served() as site:
            client = await site.connect()
            for _ in range(3):
                client.send(GET)
                assert await client.answer() == b"0"
            client.send(GET * 3)
            assert [await client.answer() for _ in range(3)] == [b"0"] * 3

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "beginning",
    [b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"],
)
def test_a_request_that_does_not_arrive_is_not_waited_for(beginning: bytes) -> None:
    async def scenario() -> None:
        async with served(request_s=0.3) as site:
            for before in (b"", GET):  # as the first request, and after another
                client = await site.connect()
                if before:
                    client.send(before)
                    await client.answer()
                client.send(beginning)
                assert await client.is_ended()

    asyncio.run(scenario())


def test_a_request_that_trickles_is_not_waited_for() -> None:
    async def scenario() -> None:
        async with served(request_s=0.5) as site:
            client = await site.connect()
            ended = asyncio.create_task(client.is_ended())
            client.send(b"GET / HTTP/1.1\r\n")
            while not ended.done():
                client.send(b"X: y\r\n")
                await asyncio.wait({ended}, timeout=0.05)
            assert await ended

    asyncio.run(scenario())


def test_a_client_that_says_nothing_is_left() -> None:
    async def scenario() -> None:
        async with served(idle_s=0.3) as site:
            client = await site.connect()
            assert await client.is_ended()
            client = await site.connect()
            client.send(GET)
            await client.answer()
            assert await client.is_ended()

    asyncio.run(scenario())


def test_an_answer_that_is_not_taken_is_not_kept() -> None:
    async def scenario() -> None:
        async with served(request_s=0.3) as site:
            client = await site.connect()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.send(GET.replace(b"/ ", b"/large "))
            other = await site.connect()
            other.send(GET)
            assert await other.answer() == b"0"
            async with asyncio.timeout(HANG_S):
                while not _is_reset(client):
                    client.send(b"\r\n")
                    await asyncio.sleep(0.02)

    asyncio.run(scenario())


def _is_reset(client: Client) -> bool:
    """True if writing to the connection has failed."""
    return client.writer.transport.is_closing()


def test_the_oldest_connection_makes_room() -> None:
    async def scenario() -> None:
        async with served(connections=3) as site:
            clients = []
            for _ in range(4):
                client = await site.connect()
                client.send(GET)
                assert await client.answer() == b"0"
                clients.append(client)
            assert await clients[0].is_ended()
            for client in clients[1:]:
                client.send(GET)
                assert await client.answer() == b"0"

    asyncio.run(scenario())


def test_headers_have_a_limit() -> None:
    async def scenario() -> None:
        async with served() as site:
            client = await site.connect()
            client.send(b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000)
            assert (await client.reader.readline()).startswith(b"HTTP/1.1 431")
            assert await client.is_ended()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (b"GET /fails HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"HTTP/1.1 500"),
        (b"GET /incomplete HTTP/1.1\r\nHost: x\r\n\r\n", b""),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", b"HTTP/1.1 400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", b"HTTP/1.1 408"),
        (b"nonsense\r\n\r\n", b"HTTP/1.1 400"),
    ],
)
def test_what_goes_wrong_is_answered_or_ends_the_connection(asked: bytes, answered: bytes) -> None:
    async def scenario() -> None:
        async with served(request_s=0.3) as site:
            client = await site.connect()
            client.send(asked)
            assert (await client.reader.readline()).startswith(answered)
            rest = await client.reader.read()
            assert b"a secret" not in rest

    asyncio.run(scenario())


def test_a_body_is_asked_for_and_a_connection_is_kept_after_it() -> None:
    async def scenario() -> None:
        async with served() as site:
            client = await site.connect()
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
            client.send(b"abc")
            assert await client.answer() == b"3"
            client.send(GET)
            assert await client.answer() == b"0"

    asyncio.run(scenario())


def test_stopping_lets_a_request_under_way_be_answered() -> None:
    async def scenario() -> None:
        async with served() as site:
            client = await site.connect()
            client.send(GET + GET.replace(b"/ ", b"/later "))
            assert await client.answer() == b"0"
            answered = asyncio.create_task(client.answer())
        assert await answered == b"0"

    asyncio.run(scenario())


def test_stopping_ends_whoever_is_connected() -> None:
    async def scenario() -> None:
        async with served() as site:
            for data in (b"", b"GET /", GET.replace(b"/ ", b"/large ")):
                client = await site.connect()
                client.send(data)

    asyncio.run(scenario())
