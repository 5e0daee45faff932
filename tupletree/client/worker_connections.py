"""Connections on which a client of states asks one worker (docs/protocol.md).

There are at most MAX_CONNECTIONS to a worker for a component.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from google.protobuf.message import DecodeError

from tupletree._address import address_of
from tupletree.errors import ProtocolError, UnavailableError
from tupletree.state.answers import MAX_REPLY_BYTES
from tupletree.state.direct import COMPONENT, FIELDS, LENGTH_BYTES, PATH, PROTOCOL, TOPOLOGY, WORKER
from tupletree.v1.nimbus_pb2 import LocateStateReply, StatePlace
from tupletree.v1.worker_pb2 import DirectAnswer

MAX_CONNECTIONS: Final = 8
CONNECT_S: Final = 1.0
_MAX_HEAD_BYTES: Final = 16 * 1024
_MAX_ANSWER_BYTES: Final = 2 * MAX_REPLY_BYTES
_PIECE_BYTES: Final = 64 * 1024
_END: Final = b"\r\n\r\n"


class UnreachableError(UnavailableError):
    """A worker that cannot be reached from here, or knows no questions of clients: it is not tried again soon."""


class NoneFreeError(TimeoutError):
    """A worker whose connections are all in use."""


class Connection:
    """One connection to a worker. ``fields``: what the worker says of its keys. Not thread-safe.

    Raises OSError if the worker refuses it or does not answer, UnreachableError if that will not change soon.
    """

    def __init__(self, place: StatePlace, given: LocateStateReply, component: str, tls: ssl.SSLContext | None) -> None:
        where = f"worker at {address_of(place.host, place.http_port)}"
        self._until_s = time.monotonic() + CONNECT_S
        try:
            self._socket = socket.create_connection((place.host, place.http_port), CONNECT_S)
        except (TimeoutError, socket.gaierror) as error:
            raise UnreachableError(f"{where} cannot be reached: {error}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=place.host)
            self._socket.sendall(_request(place, given, component))
            self.fields = self._accepted(where)
        except ssl.SSLError as error:
            self.close()
            raise UnreachableError(f"{where} cannot be reached: {error}") from error
        except BaseException:
            self.close()
            raise

    def send(self, question: bytes, timeout_s: float) -> None:
        """Send a question, which is answered within a time, or not at all. Raises OSError."""
        self._until_s = time.monotonic() + timeout_s
        self._socket.settimeout(timeout_s)
        self._socket.sendall(len(question).to_bytes(LENGTH_BYTES, "big") + question)

    def receive(self) -> DirectAnswer:
        """Return the next answer. Raises OSError, and ProtocolError if it is none."""
        received = self._read()
        if len(received) != _end_of(received):
            received = self._with_rest(received)
        try:
            return DirectAnswer.FromString(received[LENGTH_BYTES:])
        except DecodeError as error:
            raise ProtocolError("a worker gave an answer that cannot be decoded") from error

    def _with_rest(self, first: bytes) -> bytes:
        """Read the rest of an answer, of which less or more than all has arrived."""
        received = bytearray(first)
        while len(received) < _end_of(received):
            received += self._read()
        if len(received) > _end_of(received):
            raise ProtocolError("a worker gave an answer to no question")
        return bytes(received)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _read(self) -> bytes:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the worker takes too long for its answer")
        self._socket.settimeout(left_s)
        data = self._socket.recv(_PIECE_BYTES)
        if not data:
            raise ConnectionResetError("the worker has ended the connection")
        return data

    def _accepted(self, where: str) -> int:
        """Read the response to the request for a connection; return the fields of keys."""
        received = bytearray()
        while _END not in received:
            if len(received) > _MAX_HEAD_BYTES:
                raise UnreachableError(f"{where} speaks another protocol")
            received += self._read()
        status, fields = _head(bytes(received.partition(_END)[0]))
        if status == HTTPStatus.SWITCHING_PROTOCOLS and fields is not None and received.endswith(_END):
            return fields
        if status in (HTTPStatus.CONFLICT, HTTPStatus.UNAUTHORIZED):  # another worker by now, or a ticket that ended
            raise ConnectionRefusedError(f"{where} refuses the connection")
        raise UnreachableError(f"{where} takes no questions of clients (status {status})")


class Worker:
    """A worker and the free connections to it. ``open_connection`` makes another one. Thread-safe."""

    def __init__(self, place: StatePlace, open_connection: Callable[[StatePlace], Connection]) -> None:
        self.indexes = frozenset(place.indexes)
        self._place = place
        self._open = open_connection
        self._free: list[Connection] = []  # those used last come last
        self._permits = threading.Semaphore(MAX_CONNECTIONS)
        self._is_closed = False

    def take(self, timeout_s: float) -> Connection:
        """Return a connection that is free, or a new one. Raises OSError as Connection, and if none gets free."""
        if not self._permits.acquire(timeout=timeout_s):
            raise NoneFreeError("all connections to a worker are in use")
        try:
            return self._free.pop()
        except IndexError:
            pass
        try:
            return self._open(self._place)
        except BaseException:
            self._permits.release()
            raise

    def give_back(self, connection: Connection, *, is_broken: bool = False) -> None:
        """Make a connection free again."""
        if is_broken:
            connection.close()
        else:
            self._free.append(connection)
        self._permits.release()
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Close the free connections; the others when they are given back."""
        self._is_closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._free.pop().close()


def _end_of(received: bytes | bytearray) -> int:
    """Return the length of an answer with the length before it, of which the first bytes are given."""
    if len(received) < LENGTH_BYTES:
        return LENGTH_BYTES
    size = int.from_bytes(received[:LENGTH_BYTES], "big")
    if size > _MAX_ANSWER_BYTES:
        raise ProtocolError(f"a worker gave an answer of {size:,} bytes")
    return LENGTH_BYTES + size


def _request(place: StatePlace, given: LocateStateReply, component: str) -> bytes:
    lines = [
        f"GET {PATH} HTTP/1.1",
        f"Host: {address_of(place.host, place.http_port)}",
        "Connection: Upgrade",
        f"Upgrade: {PROTOCOL}",
        f"{TOPOLOGY}: {given.topology_id}",
        f"{WORKER}: {place.worker_id}",
        f"{COMPONENT}: {quote(component, safe='')}",
    ]
    if given.ticket:
        lines.append(f"Authorization: Bearer {given.ticket}")
    return "\r\n".join([*lines, "", ""]).encode()


def _head(head: bytes) -> tuple[int, int | None]:
    """Return the status of a response, and the fields of keys that it names. Raises UnreachableError."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if version != "HTTP/1.1" or not rest[:3].isdecimal():
        raise UnreachableError("a worker speaks another protocol")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    fields = headers.get(FIELDS, "")
    return int(rest[:3]), int(fields) if fields.isdecimal() and len(fields) < 4 else None
