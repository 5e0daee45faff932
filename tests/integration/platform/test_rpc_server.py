"""The gRPC server of a daemon, over real sockets."""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tupletree._daemon.health import Readiness
from tupletree._rpc.channels import aio_channel, channel
from tupletree._rpc.server import RpcServer, start_server
from tupletree._rpc.status import from_rpc_error
from tupletree.errors import InternalError, NotFoundError, ProtocolError, UnavailableError, UsageError
from tupletree.v1 import acker_pb2, acker_pb2_grpc, nimbus_pb2, nimbus_pb2_grpc

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVING = health_pb2.HealthCheckResponse.SERVING


class Nimbus(nimbus_pb2_grpc.NimbusServicer):
    """One method of each kind, each with its own way to fail."""

    async def Kill(self, request: Any, context: Any) -> Any:
        raise NotFoundError(f"no topology is named {request.name!r}")

    async def Activate(self, request: Any, context: Any) -> Any:
        raise ValueError("a bug")

    async def Submit(self, request_iterator: AsyncIterator[Any], context: Any) -> Any:
        received = [request.chunk async for request in request_iterator]
        return nimbus_pb2.SubmitReply(topology_id=b"".join(received).decode())

    async def FetchBundle(self, request: Any, context: Any) -> AsyncIterator[Any]:
        yield nimbus_pb2.FetchBundleReply(chunk=b"first")
        raise OSError(errno.ENOSPC, "No space left on device", "/blobs/x")


class Acker(acker_pb2_grpc.AckerServicer):
    async def Track(self, request_iterator: AsyncIterator[Any], context: Any) -> None:  # type: ignore[override]
        async for request in request_iterator:
            if request.updates.sequence == 13:
                raise ProtocolError("update 13 is out of order")
            await context.write(acker_pb2.TrackReply(confirmed=request.updates.sequence))


async def serve(readiness: Readiness | None = None, port: int = 0) -> RpcServer:
    add_nimbus = functools.partial(nimbus_pb2_grpc.add_NimbusServicer_to_server, cast(Any, Nimbus)())
    add_acker = functools.partial(acker_pb2_grpc.add_AckerServicer_to_server, cast(Any, Acker)())
    return await start_server([add_nimbus, add_acker], "127.0.0.1", port, readiness)


def test_errors_of_every_kind_of_method_arrive_as_our_types(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        server = await serve()
        async with aio_channel(f"127.0.0.1:{server.port}") as peer:
            stub: Any = nimbus_pb2_grpc.NimbusStub(peer)
            with pytest.raises(grpc.RpcError) as unary:
                await stub.Kill(nimbus_pb2.KillRequest(name="wc"), timeout=5)
            error = from_rpc_error(unary.value)
            assert isinstance(error, NotFoundError)
            assert str(error) == "no topology is named 'wc'"

            with pytest.raises(grpc.RpcError) as bug:
                await stub.Activate(nimbus_pb2.ActivateRequest(), timeout=5)
            assert isinstance(from_rpc_error(bug.value), InternalError)
            assert "a bug" not in str(from_rpc_error(bug.value))

            with pytest.raises(grpc.RpcError) as missing:
                await stub.GetLeader(nimbus_pb2.GetLeaderRequest(), timeout=5)
            assert str(from_rpc_error(missing.value, "nimbus")) == "nimbus does not offer this call"

            replies = stub.FetchBundle(nimbus_pb2.FetchBundleRequest(), timeout=5)
            assert (await replies.read()).chunk == b"first"
            with pytest.raises(grpc.RpcError) as full:
                await replies.read()
            assert str(from_rpc_error(full.value)) == "the disk is full at /blobs/x"

            track: Any = acker_pb2_grpc.AckerStub(peer)
            stream = track.Track()
            for sequence in (1, 13):
                updates = acker_pb2.LedgerUpdates(sequence=sequence)
                await stream.write(acker_pb2.TrackRequest(updates=updates))
            assert (await stream.read()).confirmed == 1
            with pytest.raises(grpc.RpcError) as nonsense:
                await stream.read()
            assert isinstance(from_rpc_error(nonsense.value), ProtocolError)
        await server.stop()

    with caplog.at_level(logging.ERROR, "tupletree.rpc"):
        asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == ["rpc.failed method=/tupletree.v1.Nimbus/Activate"]
    assert caplog.records[0].exc_info is not None


def test_a_blocking_channel_gets_the_same_errors() -> None:
    def call(port: int) -> Exception:
        with channel(f"127.0.0.1:{port}") as peer:
            stub: Any = nimbus_pb2_grpc.NimbusStub(peer)
            chunks = (nimbus_pb2.SubmitRequest(chunk=chunk) for chunk in (b"w", b"c"))
            assert stub.Submit(chunks, timeout=5).topology_id == "wc"
            with pytest.raises(grpc.RpcError) as raised:
                stub.Kill(nimbus_pb2.KillRequest(name="wc"), timeout=5)
            return from_rpc_error(raised.value)

    async def scenario() -> Exception:
        server = await serve()
        try:
            return await asyncio.to_thread(call, server.port)
        finally:
            await server.stop()

    assert isinstance(asyncio.run(scenario()), NotFoundError)


def test_health_follows_readiness_and_stopping_ends_the_watch() -> None:
    async def scenario() -> None:
        readiness = Readiness()
        readiness.set("zookeeper", "connecting")
        server = await serve(readiness)
        async with aio_channel(f"127.0.0.1:{server.port}") as peer:
            health: Any = health_pb2_grpc.HealthStub(peer)
            assert (await health.Check(health_pb2.HealthCheckRequest(), timeout=5)).status == NOT_SERVING
            watch = health.Watch(health_pb2.HealthCheckRequest())
            assert (await watch.read()).status == NOT_SERVING
            await asyncio.to_thread(readiness.set, "zookeeper", None)
            assert (await watch.read()).status == SERVING
            began = time.monotonic()
            await server.stop(grace_s=30)
            assert time.monotonic() - began < 5
            assert (await watch.read()).status == NOT_SERVING
            assert await watch.read() is grpc.aio.EOF

    asyncio.run(scenario())


def test_a_port_in_use_is_one_sentence() -> None:
    async def scenario() -> None:
        server = await serve()
        try:
            with pytest.raises(UsageError, match=f"^port {server.port} on 127.0.0.1 is in use$"):
                await serve(port=server.port)
        finally:
            await server.stop()

    asyncio.run(scenario())


def test_a_port_is_free_again_as_soon_as_its_server_stopped() -> None:
    async def scenario() -> None:
        first = await serve()
        async with aio_channel(f"127.0.0.1:{first.port}") as peer:
            await health_pb2_grpc.HealthStub(peer).Check(health_pb2.HealthCheckRequest(), timeout=5)
            await first.stop()
            await peer.wait_for_state_change(grpc.ChannelConnectivity.READY)  # the peer has seen it go
            second = await serve(port=first.port)
            try:
                await health_pb2_grpc.HealthStub(peer).Check(
                    health_pb2.HealthCheckRequest(), timeout=10, wait_for_ready=True
                )
            finally:
                await second.stop()

    asyncio.run(scenario())


def test_a_peer_that_is_not_there_is_unavailable_in_plain_words() -> None:
    async def scenario() -> Exception:
        server = await serve()
        await server.stop()
        async with aio_channel(f"127.0.0.1:{server.port}") as peer:
            stub: Any = nimbus_pb2_grpc.NimbusStub(peer)
            with pytest.raises(grpc.RpcError) as raised:
                await stub.GetLeader(nimbus_pb2.GetLeaderRequest(), timeout=5)
            return from_rpc_error(raised.value, "nimbus")

    error = asyncio.run(scenario())
    assert isinstance(error, UnavailableError)
    assert str(error) == "nimbus cannot be reached: connection refused"
