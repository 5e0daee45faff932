"""Rubbish at every port, below and above gRPC and HTTP: each daemon lives on, healthy, and the steady topology runs."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tupletree._rpc.channels import channel
from tupletree.testing import DevCluster, ProcessInfo, wait_until
from tupletree.v1 import acker_pb2, nimbus_pb2, supervisor_pb2, worker_pb2

ROLES = ["nimbus", "supervisor", "acker", "worker"]
SERVICES = {
    "nimbus": nimbus_pb2.DESCRIPTOR.services_by_name["Nimbus"],
    "supervisor": supervisor_pb2.DESCRIPTOR.services_by_name["Supervisor"],
    "acker": acker_pb2.DESCRIPTOR.services_by_name["Acker"],
    "worker": worker_pb2.DESCRIPTOR.services_by_name["Worker"],
}
RANDOM = random.Random(20_260_101)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

BYTES = {
    "nothing": b"",
    "noise": RANDOM.randbytes(10_000),
    "zeros": bytes(10_000),
    "half a request": b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
    "a request line without end": b"GET /" + b"a" * 200_000,
    "a header without end": b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    "a length that is none": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
    "a verb that is none": b"FROBNICATE \x00\x01 HTTP/9.9\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + RANDOM.randbytes(500),
    "HTTP/2, then noise": PREFACE + RANDOM.randbytes(10_000),
    "HTTP/2, then a frame that is too long": PREFACE + struct.pack(">BHBBL", 0xFF, 0xFFFF, 1, 4, 1) + bytes(1000),
    "HTTP/2, then a message that is too long": PREFACE + struct.pack(">BHBBL", 0, 0, 4, 0, 0)
    # a DATA frame on a stream that nobody opened, with gRPC's length field at its most
    + struct.pack(">BHBBL", 0, 5, 0, 0, 1) + b"\x00\xff\xff\xff\xff",
}  # fmt: skip


def find(cluster: DevCluster, role: str) -> ProcessInfo:
    return wait_until(
        lambda: next((p for p in cluster.processes if p.role == role and p.http_port and p.grpc_port), None), 30
    )


def send(port: int, data: bytes, reset: bool) -> None:
    """Send bytes, and close the connection with or without ceremony. What is answered is of no interest."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1000)
        except OSError:
            pass  # it had enough


def is_well(process: ProcessInfo) -> bool:
    """True if a daemon says so itself, on both its ports."""
    with urllib.request.urlopen(f"http://127.0.0.1:{process.http_port}/healthz", timeout=5) as reply:
        alive = reply.status == 200
    with urllib.request.urlopen(f"http://127.0.0.1:{process.http_port}/readyz", timeout=5) as reply:
        ready = reply.status == 200
    with channel(f"127.0.0.1:{process.grpc_port}") as peer:
        answer = health_pb2_grpc.HealthStub(peer).Check(health_pb2.HealthCheckRequest(), timeout=5)
    return alive and ready and answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.fixture(params=ROLES)
def process(cluster: DevCluster, request: pytest.FixtureRequest) -> Iterator[ProcessInfo]:
    """A daemon, which must be as well after the test as before, and have logged no traceback."""
    found = find(cluster, request.param)
    log = Path(found.log_path)
    assert is_well(found)
    before = log.read_text().count("Traceback")
    yield found
    assert is_well(found)
    assert log.read_text().count("Traceback") == before


def test_bytes_that_no_client_sends(process: ProcessInfo) -> None:
    for data in BYTES.values():
        for port in (process.grpc_port, process.http_port):
            send(port, data, reset=False)
            send(port, data, reset=True)


def test_many_connections_that_say_nothing(process: ProcessInfo) -> None:
    ports = [process.grpc_port, process.http_port] * 100
    silent = [socket.create_connection(("127.0.0.1", port), timeout=5) for port in ports]
    try:
        assert is_well(process)
    finally:
        for connection in silent:
            connection.close()


def answer(peer: grpc.Channel, path: str, request: bytes) -> grpc.StatusCode:
    """How a call ends whose two requests are these bytes."""
    call = peer.stream_stream(path)(iter([request, request]), timeout=10)
    with contextlib.suppress(grpc.RpcError):
        list(call)
    return call.code()


def test_requests_that_make_no_sense(process: ProcessInfo) -> None:
    """Every call is answered, whether it gets bytes that are no message, an empty message, or noise."""
    service = SERVICES[process.role]
    unanswered = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    with channel(f"127.0.0.1:{process.grpc_port}") as peer:
        for method in service.methods:
            for request in (b"", b"\xff" * 100, *(RANDOM.randbytes(size) for size in (1, 10, 1000))):
                code = answer(peer, f"/{service.full_name}/{method.name}", request)
                assert code not in unanswered, f"{method.name}({request[:10]!r})"


def test_bytes_that_are_no_message_are_the_peers_fault(process: ProcessInfo) -> None:
    service = SERVICES[process.role]
    with channel(f"127.0.0.1:{process.grpc_port}") as peer:
        for method in service.methods:
            code = answer(peer, f"/{service.full_name}/{method.name}", b"\xff" * 100)
            assert code is grpc.StatusCode.OUT_OF_RANGE, method.name
