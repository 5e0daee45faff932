"""TLS between real servers and channels: who gets in, and what everybody else is told."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import h11
import pytest
from prometheus_client import CollectorRegistry
from security_harness import Secured, in_loop

from tupletree._daemon import certificates
from tupletree._daemon.health import Readiness
from tupletree._daemon.http import HttpServer
from tupletree._daemon.http_connection import Limits
from tupletree._net import bind
from tupletree._rpc.channels import aio_channel
from tupletree._rpc.server import RpcServer, start_server
from tupletree._rpc.status import from_rpc_error
from tupletree._security.authority import Authority
from tupletree._security.current import OFF, Security, use
from tupletree._security.guard import Gatekeeper
from tupletree.errors import TupletreeError
from tupletree.nimbus.web import leader_proxy
from tupletree.nimbus.web.server import WebServer
from tupletree.v1 import acker_pb2, acker_pb2_grpc


class Ledger(acker_pb2_grpc.AckerServicer):
    async def DescribeLedger(self, request: object, context: object) -> acker_pb2.DescribeLedgerReply:
        return acker_pb2.DescribeLedgerReply(acker_id="me")


@pytest.fixture
def secured(tmp_path: Path) -> Secured:
    return Secured.make(tmp_path / "tls")


@contextlib.asynccontextmanager
async def serving(security: Security, host: str = "127.0.0.1") -> AsyncIterator[RpcServer]:
    add = functools.partial(acker_pb2_grpc.add_AckerServicer_to_server, Ledger())
    server = await start_server([add], host, 0, gate=Gatekeeper(security))
    try:
        yield server
    finally:
        await server.stop()


async def ask(server: RpcServer, security: Security, host: str = "127.0.0.1") -> str:
    """The acker's id, or the sentence of why there is none."""
    async with aio_channel(f"{host}:{server.port}", security) as channel:
        try:
            stub = acker_pb2_grpc.AckerStub(channel)
            return str((await stub.DescribeLedger(acker_pb2.DescribeLedgerRequest(), timeout=20)).acker_id)
        except grpc.aio.AioRpcError as error:
            return str(from_rpc_error(error, "the acker"))


@in_loop
async def test_both_sides_with_certificates_of_one_authority(secured: Secured) -> None:
    async with serving(Security(secured.tls())) as server:
        assert await ask(server, Security(secured.tls("client"))) == "me"
        assert await ask(server, Security(secured.tls())) == "me"


@in_loop
async def test_a_peer_without_a_certificate_gets_nothing(secured: Secured) -> None:
    async with serving(Security(secured.tls())) as server:
        said = await ask(server, Security(secured.tls(None)))
        assert said.startswith("the acker cannot be reached: ")
    async with serving(Security(secured.tls(require_client_cert=False))) as server:
        assert await ask(server, Security(secured.tls(None))) == "me"


@in_loop
async def test_a_peer_with_another_authority_s_certificate_gets_nothing(secured: Secured, tmp_path: Path) -> None:
    other = Secured.make(tmp_path / "other")
    mixed = other.tls("client")
    async with serving(Security(secured.tls())) as server:
        trusting = type(mixed)(secured.tls().ca, mixed.cert, mixed.key)
        assert (await ask(server, Security(trusting))).startswith("the acker cannot be reached: ")
        said = await ask(server, Security(other.tls("client")))
        assert said == "the acker cannot be reached: its certificate is not signed by tls.ca, or names another host"


@in_loop
async def test_a_name_that_the_certificate_does_not_have(secured: Secured) -> None:
    async with serving(Security(secured.tls()), "0.0.0.0") as server:
        said = await ask(server, Security(secured.tls("client")), "127.0.0.2")
        assert said == "the acker cannot be reached: its certificate is not signed by tls.ca, or names another host"


@in_loop
async def test_plain_to_tls_and_tls_to_plain_say_what_is_wrong(secured: Secured) -> None:
    async with serving(Security(secured.tls())) as server:
        assert await ask(server, OFF) == (
            "the acker cannot be reached: it ended the connection at once; "
            "does it expect TLS (tls.ca), or a certificate (tls.cert)?"
        )
    async with serving(OFF) as server:
        assert await ask(server, Security(secured.tls())) == (
            "the acker cannot be reached: it does not speak TLS, which tls.ca requires"
        )


@in_loop
async def test_a_renewed_certificate_is_shown_to_the_next_connection(secured: Secured) -> None:
    async with serving(Security(secured.tls())) as server:
        before = await certificate_at(server.port, secured)
        Authority(secured.directory).prepare([], 30, True)
        assert await certificate_at(server.port, secured) != before
        assert await ask(server, Security(secured.tls("client"))) == "me"


@in_loop
async def test_half_replaced_files_leave_the_old_certificate(secured: Secured) -> None:
    async with serving(Security(secured.tls())) as server:
        before = await certificate_at(server.port, secured)
        whole = (secured.directory / "cluster.crt").read_bytes()
        (secured.directory / "cluster.crt").write_bytes(whole[: len(whole) // 2])
        assert await certificate_at(server.port, secured) == before
        (secured.directory / "cluster.crt").write_bytes(whole)
        assert await ask(server, Security(secured.tls("client"))) == "me"


@in_loop
async def test_http_with_tls_and_its_certificate_s_end(
    secured: Secured, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "LOOK_S", 0.05)
    registry = CollectorRegistry()
    server = HttpServer(Readiness(), registry, security=Security(secured.tls()))
    port = await server.start("127.0.0.1", 0)
    try:
        assert (await get(port, "/healthz", secured.tls(None).client_context())).startswith(b"HTTP/1.1 200")
        before = await certificate_at(port, secured)
        name = "tupletree_tls_certificate_expiry_timestamp_seconds"
        assert registry.get_sample_value(name) == secured.tls().expires_unix_s()
        caplog.set_level(logging.INFO, "tupletree.tls")
        Authority(secured.directory).prepare([], 3, True)
        deadline = time.monotonic() + 20
        while await certificate_at(port, secured) == before:
            assert time.monotonic() < deadline, "the renewed certificate is not shown"
            await asyncio.sleep(0.05)
        said = " ".join(record.getMessage() for record in caplog.records)
        assert "tls.reloaded" in said and "tls.certificate_ends" in said and "it ends in 3.0 days" in said
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await get(port, "/healthz", ssl.create_default_context())
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await get(port, "/healthz", None)
    finally:
        await server.stop()


@in_loop
async def test_nimbus_does_not_wait_for_a_handshake(secured: Secured) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    server = WebServer(application, Limits(request_s=0.5), secured.tls().server_context())
    listener = bind("127.0.0.1", 0)
    await server.start(listener)
    port = listener.getsockname()[1]
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(20):  # asyncio itself would wait for a minute
            assert await reader.read() == b""
        writer.close()
        assert (await get(port, "/", secured.tls(None).client_context())).startswith(b"HTTP/1.1 200")
    finally:
        await server.stop()


@in_loop
async def test_a_standby_waits_for_a_leader_that_hangs_no_longer_than_it_may(secured: Secured) -> None:
    is_over = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await is_over.wait()
        writer.transport.abort()

    server = await asyncio.start_server(hang, "127.0.0.1", 0, ssl=secured.tls().server_context())
    asked = h11.Request(method="GET", target="/api/v1/cluster/summary", headers=[("host", "leader")])
    use(Security(secured.tls()))
    try:
        began_s = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await leader_proxy._exchange("127.0.0.1", server.sockets[0].getsockname()[1], asked, b"")
        assert time.monotonic() - began_s < 15, "asyncio waits for the end of TLS for half a minute"
    finally:
        use(OFF)
        is_over.set()
        server.close()


@in_loop
async def test_http_may_ask_for_a_client_s_certificate(secured: Secured) -> None:
    security = Security(secured.tls(http_require_client_cert=True))
    server = HttpServer(Readiness(), CollectorRegistry(), security=security)
    port = await server.start("127.0.0.1", 0)
    try:
        assert b"200 OK" in await get(port, "/readyz", secured.tls("client").client_context())
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await get(port, "/readyz", secured.tls(None).client_context())
    finally:
        await server.stop()


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@in_loop
async def test_probes_need_no_token_and_metrics_do(secured: Secured, path: str) -> None:
    server = HttpServer(Readiness(), CollectorRegistry(), security=Security(keyring=secured.keyring))
    port = await server.start("127.0.0.1", 0)
    try:
        assert b"200 OK" in await get(port, path, None)
        refused = await get(port, "/metrics", None)
        assert b"401 Unauthorized" in refused and b"www-authenticate: Bearer" in refused
        assert b"403 Forbidden" in await get(port, "/metrics", None, secured.user("alice", "submit"))
        assert b"200 OK" in await get(port, "/metrics", None, secured.user("prometheus", "metrics"))
        assert b"401 Unauthorized" in await get(port, "/metrics", None, "rubbish")
        assert b"403 Forbidden" in await get(port, "/nowhere", None, secured.user("root", "admin"))
    finally:
        await server.stop()


async def get(port: int, path: str, context: ssl.SSLContext | None, token: str | None = None) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{authorization}Connection: close\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        return head + await reader.read()
    finally:
        writer.close()


async def certificate_at(port: int, secured: Secured) -> bytes | None:
    """The certificate that a server shows."""
    context = secured.tls("client").client_context()
    if hasattr(context, "set_alpn_protocols"):
        context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert found is None or isinstance(found, bytes)
        return found
    finally:
        writer.close()


def test_the_errors_of_tls_are_ours(secured: Secured) -> None:
    (secured.directory / "cluster.key").chmod(0o644)
    with pytest.raises(TupletreeError, match="is open to every user of this machine"):
        Security.of_daemon(secured.conf, "acker")
