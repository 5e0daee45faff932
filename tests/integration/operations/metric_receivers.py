"""Receivers of metrics for tests: a statsd server and an OTLP server, on free ports; and the command that sends."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

_LINE = re.compile(r"([\w.-]+):(-?[\d.e+-]+)\|([cg])(?:\|#(.*))?")


class Line(NamedTuple):
    """A line of statsd."""

    name: str
    value: float
    kind: str
    tags: dict[str, str]


class Statsd:
    """A UDP server that keeps the lines of all packets."""

    def __init__(self, port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 1024 * 1024)
        self._socket.bind(("127.0.0.1", port))
        self._socket.settimeout(0.2)
        self.port = self._socket.getsockname()[1]
        self.lines: list[Line] = []
        self.longest = 0
        self._is_open = True
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        while self._is_open:
            with contextlib.suppress(TimeoutError):
                packet = self._socket.recv(65536)
                self.longest = max(self.longest, len(packet))
                self.lines += [parsed(line) for line in packet.decode().split("\n")]

    def total(self, name: str, **tags: str) -> float:
        """The sum of a counter's lines with these tags."""
        return sum(
            line.value
            for line in list(self.lines)
            if (line.name, line.kind) == (name, "c") and tags.items() <= line.tags.items()
        )

    def close(self) -> None:
        self._is_open = False
        self._thread.join()
        self._socket.close()


def parsed(line: str) -> Line:
    found = _LINE.fullmatch(line)
    assert found is not None, line
    tags = dict(one.split(":", 1) for one in found[4].split(",")) if found[4] else {}
    return Line(found[1], float(found[2]), found[3], tags)


class Otlp:
    """An HTTP server that keeps the requests of OTLP. ``status``: of its replies."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.reply = ExportMetricsServiceResponse()
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
                assert (self.path, self.headers["Content-Type"]) == ("/v1/metrics", "application/x-protobuf")
                outer.headers.append(dict(self.headers))
                outer.requests.append(ExportMetricsServiceRequest.FromString(body))
                content = outer.reply.SerializeToString()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def services(self) -> set[str]:
        """The service names of all requests."""
        return service_names(self.requests)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def service_names(requests: Sequence[ExportMetricsServiceRequest]) -> set[str]:
    """The service names of some requests. Others may be added meanwhile."""
    return {
        attribute.value.string_value
        for request in list(requests)
        for one in request.resource_metrics
        for attribute in one.resource.attributes
        if attribute.key == "service.name"
    }


class OtlpGrpc:
    """A gRPC server that keeps the requests of OTLP. ``reply``: a status, or the reply."""

    def __init__(self, port: int = 0, tls: Path | None = None) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.metadata: list[dict[str, str | bytes]] = []
        self.reply: ExportMetricsServiceResponse | grpc.StatusCode = ExportMetricsServiceResponse()
        self._server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
        export = grpc.unary_unary_rpc_method_handler(
            self._export, ExportMetricsServiceRequest.FromString, ExportMetricsServiceResponse.SerializeToString
        )
        service = "opentelemetry.proto.collector.metrics.v1.MetricsService"
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {"Export": export})])
        if tls is None:
            self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        else:
            pair = (tls / "cluster.key").read_bytes(), (tls / "cluster.crt").read_bytes()
            self.port = self._server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([pair]))
        self._server.start()

    def _export(
        self, request: ExportMetricsServiceRequest, context: grpc.ServicerContext
    ) -> ExportMetricsServiceResponse:
        self.metadata.append(dict(context.invocation_metadata()))
        if isinstance(self.reply, grpc.StatusCode):
            context.abort(self.reply, "not now")
        self.requests.append(request)
        return self.reply

    def close(self) -> None:
        self._server.stop(None).wait()


def command(nimbus_http_port: int, *arguments: str) -> list[str]:
    """The command line of ``tupletree metrics push`` for a cluster of this machine."""
    where = ["--nimbus", "127.0.0.1", "-c", f"nimbus.http.port={nimbus_http_port}"]
    return [sys.executable, "-m", "tupletree", "metrics", "push", *where, *arguments]


@contextlib.contextmanager
def pushing(directory: Path, nimbus_http_port: int, *arguments: str, **environment: str) -> Iterator[Pusher]:
    """A process that sends until the end of the block."""
    with open(directory / "push.err", "w") as errors, open(directory / "push.out", "w") as output:
        process = subprocess.Popen(
            command(nimbus_http_port, *arguments), stdout=output, stderr=errors, env={**os.environ, **environment}
        )
    try:
        yield Pusher(process, directory)
    finally:
        process.kill()
        process.wait()


class Pusher(NamedTuple):
    """A process that sends metrics."""

    process: subprocess.Popen[bytes]
    directory: Path

    def errors(self) -> str:
        return (self.directory / "push.err").read_text()

    def output(self) -> str:
        return (self.directory / "push.out").read_text()

    def terminate(self) -> int:
        """End it with SIGTERM; return its exit status."""
        self.process.terminate()
        return self.process.wait(60)
