"""Receivers of metrics: statsd by UDP, and OTLP over HTTP and over gRPC."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import os
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Final, Protocol
from urllib.parse import unquote

import grpc

from tupletree._address import address_of
from tupletree._rpc.status import transport_failure
from tupletree.cli.pushing.addresses import ReceiverAddress
from tupletree.cli.pushing.history import Differences
from tupletree.cli.pushing.notices import REJECTED, Notices
from tupletree.cli.pushing.readings import Reading
from tupletree.cli.pushing.statsd import Tags, lines_of, packets_of
from tupletree.errors import UnavailableError, UsageError

TIMEOUT_S: Final = 10.0
_MAX_REPLY_BYTES: Final = 1024 * 1024
_EXPORT: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
_OPTIONS: Final = (("grpc.enable_retries", 0), ("grpc.max_reconnect_backoff_ms", 1000))
_HEADERS: Final = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS")


class Receiver(Protocol):
    """One receiver of metrics."""

    def send(self, readings: Sequence[Reading]) -> int:
        """Send readings; return the number of values. Raises UnavailableError if the receiver may not have them.

        Counters need not be sent again: the next readings tell of all that has happened until then.
        """

    def close(self) -> None:
        """Close the connection."""


class StatsdReceiver:
    """A statsd server. UDP confirms nothing: all that is noticed is that nobody listens at the address."""

    def __init__(self, address: ReceiverAddress, job: str, tags: Tags) -> None:
        self._address = address
        self._job = job
        self._tags: Tags = tags
        self._differences = Differences(time.time())
        self._socket: socket.socket | None = None

    def send(self, readings: Sequence[Reading]) -> int:
        lines = [
            line
            for reading in readings
            for line in lines_of(reading, self._differences.of(reading), self._job, self._tags)
        ]
        try:
            connected = self._connected()
            for packet in packets_of(lines):
                connected.send(packet)
            pending = connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # of the last packet
            if pending:
                raise OSError(pending, os.strerror(pending))
        except OSError as error:
            self.close()
            raise UnavailableError(f"no statsd server listens at {self._address}: {error.strerror or error}") from error
        self._differences.commit(readings, time.time())
        return len(lines)

    def _connected(self) -> socket.socket:
        """Return the socket, connected so that the system reports a closed port. Looks the name up when it is made."""
        if self._socket is None:
            host, port = self._address.host, self._address.port
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            made = socket.socket(family, kind, protocol)
            try:
                made.connect(address)
            except OSError:
                made.close()
                raise
            self._socket = made
        return self._socket

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class OtlpReceiver(ABC):
    """An OpenTelemetry collector, or whatever takes OTLP. Needs ``tupletree[otel]``.

    Headers, such as a key for the receiver, are those of OpenTelemetry's own variables of the environment.
    """

    def __init__(self, address: ReceiverAddress, job: str, notices: Notices) -> None:
        try:
            from tupletree.cli.pushing.otlp import Requests, rejected
        except ImportError:
            raise UsageError(f"--to {address} needs OpenTelemetry's messages: pip install 'tupletree[otel]'") from None
        self._address = address
        self._requests = Requests(job)
        self._rejected = rejected
        self._notices = notices
        self._context = ssl.create_default_context() if address.scheme.startswith("otlps") else None
        self._headers = headers_of([os.environ.get(name, "") for name in _HEADERS])

    @abstractmethod
    def send(self, readings: Sequence[Reading]) -> int:
        """Send readings; return the number of values. Raises UnavailableError."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def _note(self, reply: bytes) -> None:
        """Report values that the receiver has rejected, once, or that it takes values again."""
        refused = self._rejected(reply)
        if refused is not None:
            self._notices.report(REJECTED, f"the receiver at {self._address} does not take all values: {refused}")
        else:
            self._notices.resolve(REJECTED, f"the receiver at {self._address} takes values again")


class OtlpHttpReceiver(OtlpReceiver):
    """OTLP over HTTP, on a connection for each reading."""

    def send(self, readings: Sequence[Reading]) -> int:
        sent = 0
        with contextlib.closing(self._connection()) as connection:
            for count, message in self._requests.of(readings, time.time()):
                self._post(connection, message)
                sent += count
        return sent

    def close(self) -> None:
        pass

    def _connection(self) -> http.client.HTTPConnection:
        address = self._address
        if self._context is None:
            return http.client.HTTPConnection(address.host, address.port, timeout=TIMEOUT_S)
        return http.client.HTTPSConnection(address.host, address.port, timeout=TIMEOUT_S, context=self._context)

    def _post(self, connection: http.client.HTTPConnection, message: bytes) -> None:
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", **self._headers}
        try:
            connection.request("POST", self._address.path, gzip.compress(message, 1), headers)
            reply = connection.getresponse()
            content = reply.read(_MAX_REPLY_BYTES)
            if reply.read(1):
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise UnavailableError(f"the receiver at {self._address} does not answer: {cause}") from error
        if reply.status // 100 != 2:
            hint = "" if reply.status in (429, 502, 503, 504) else "; is it one of OTLP over HTTP, and the path right?"
            raise UnavailableError(f"the receiver at {self._address} answers with status {reply.status}{hint}")
        self._note(content)


class OtlpGrpcReceiver(OtlpReceiver):
    """OTLP over gRPC, on one connection, which gRPC opens again after it has broken."""

    def __init__(self, address: ReceiverAddress, job: str, notices: Notices) -> None:
        super().__init__(address, job, notices)
        where, options = address_of(address.host, address.port), list(_OPTIONS)
        if self._context is None:
            self._channel = grpc.insecure_channel(where, options, grpc.Compression.Gzip)
        else:  # those of the system, not those that gRPC brings along
            trusted = "".join(map(ssl.DER_cert_to_PEM_cert, self._context.get_ca_certs(binary_form=True)))
            credentials = grpc.ssl_channel_credentials(trusted.encode() or None)
            self._channel = grpc.secure_channel(where, credentials, options, grpc.Compression.Gzip)
        self._export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(_EXPORT)
        self._metadata = tuple((name.lower(), value) for name, value in self._headers.items())

    def send(self, readings: Sequence[Reading]) -> int:
        sent = 0
        for count, message in self._requests.of(readings, time.time()):
            self._note(self._call(message))
            sent += count
        return sent

    def close(self) -> None:
        self._channel.close()

    def _call(self, message: bytes) -> bytes:
        try:
            return self._export(message, timeout=TIMEOUT_S, metadata=self._metadata)
        except grpc.RpcError as error:
            code, details = error.code(), str(error.details())
            if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise UnavailableError(
                    f"the receiver at {self._address} does not answer: {self._why(details)}"
                ) from error
            hint = "; is it one of OTLP over gRPC?" if code is grpc.StatusCode.UNIMPLEMENTED else ""
            raise UnavailableError(f"the receiver at {self._address} answers {code.name}: {details}{hint}") from error

    def _why(self, details: str) -> str:
        reason = transport_failure(details) or details
        if "tls." not in reason:  # a key of Tupletree's own connections
            return reason
        if self._context is None:
            return "it ended the connection at once; does it expect TLS (otlps+grpc://)?"
        return "the TLS handshake failed; is its certificate signed by an authority that this system trusts?"


def headers_of(texts: Iterable[str]) -> dict[str, str]:
    """Return headers from ``name=value,name=value`` with values as in URLs. Raises UsageError."""
    headers = {}
    for entry in (entry.strip() for text in texts for entry in text.split(",")):
        name, equals, value = entry.partition("=")
        if entry and (not equals or not name.strip()):
            raise UsageError(f"{_HEADERS[0]} holds NAME=VALUE, separated by commas, not {entry.partition('=')[0]!r}")
        if entry:
            headers[name.strip()] = unquote(value.strip())
    return headers
