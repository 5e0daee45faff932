"""Connections to an HTTP server that go on with another protocol, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from prometheus_client import CollectorRegistry

from tupletree._daemon.health import Readiness
from tupletree._daemon.http import HttpServer
from tupletree._daemon.http_connection import Limits
from tupletree._daemon.http_upgrade import Accepted, Headers, Upgrade, UpgradedProtocol, UpgradeRefusedError

HANG_S = 30.0
HEAD = b"GET /echo HTTP/1.1\r\nHost: x\r\n"
SWITCH = HEAD + b"Connection: keep-alive, Upgrade\r\nUpgrade: Echo\r\nX-Name: me\r\n\r\n"


class Echo(UpgradedProtocol):
    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data.upper())
        if data == b"bye":
            self.transport.close()


def accept(headers: Headers) -> Accepted:
    if headers.get("x-name") == "nobody":
        raise ValueError("a secret")
    if headers.get("x-name") != "me":
        raise UpgradeRefusedError(HTTPStatus.FORBIDDEN, "only for me")
    return Accepted(Echo(), {"x-told": "yes"})


@asynccontextmanager
async def serving(**limits: int) -> AsyncIterator[int]:
    before = asyncio.all_tasks()
    routes = {"/echo": Upgrade("echo", accept)}
    server = HttpServer(Readiness(), CollectorRegistry(), routes, Limits(**limits))
    try:
        yield await server.start("127.0.0.1", 0)
    finally:
        async with asyncio.timeout(HANG_S):
            await server.stop()
        assert asyncio.all_tasks() == before


async def asked(port: int, request: bytes) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(HANG_S):
        return await reader.readuntil(b"\r\n\r\n"), reader, writer


def test_a_connection_goes_on_and_ends() -> None:
    async def scenario() -> None:
        async with serving() as port:
            head, reader, writer = await asked(port, SWITCH)
            assert head.startswith(b"HTTP/1.1 101 ") and b"upgrade: echo\r\n" in head and b"x-told: yes\r\n" in head
            for said in (b"one", b"two"):
                writer.write(said)
                async with asyncio.timeout(HANG_S):
                    assert await reader.readexactly(3) == said.upper()
            writer.write(b"bye")
            async with asyncio.timeout(HANG_S):
                assert await reader.read() == b"BYE"
            writer.close()

    asyncio.run(scenario())


def test_what_is_not_accepted_is_answered_in_http() -> None:
    async def scenario() -> None:
        async with serving() as port:
            for request, status, sentence in (
                (HEAD + b"\r\n", b"426", b"this path takes connections that go on as echo: send 'Upgrade: echo'\n"),
                (HEAD + b"Connection: Upgrade\r\nUpgrade: other\r\n\r\n", b"426", b"this path takes connections that"),
                (HEAD + b"Upgrade: echo\r\n\r\n", b"426", b"this path takes connections that go on as echo"),
                (SWITCH.replace(b": me", b": you"), b"403", b"only for me\n"),
                (SWITCH.replace(b": me", b": nobody"), b"500", b"Internal Server Error\n"),
                (SWITCH.replace(b"GET", b"POST"), b"405", b"Method Not Allowed\n"),
            ):
                head, reader, writer = await asked(port, request)
                assert head.split()[1] == status, head
                async with asyncio.timeout(HANG_S):
                    assert (await reader.readexactly(len(sentence))) == sentence
                writer.close()

    asyncio.run(scenario())


def test_the_end_of_the_server_and_later_connections_end_it() -> None:
    async def scenario() -> None:
        async with serving(connections=1) as port:
            _, first, one = await asked(port, SWITCH)
            _, second, two = await asked(port, SWITCH)
            async with asyncio.timeout(HANG_S):
                assert await first.read() == b"", "the oldest connection gives way"
            two.write(b"abc")
            async with asyncio.timeout(HANG_S):
                assert await second.readexactly(3) == b"ABC"
        async with asyncio.timeout(HANG_S):
            assert await second.read() == b""
        one.close()
        two.close()

    asyncio.run(scenario())
