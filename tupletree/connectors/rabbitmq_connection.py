"""Connections to RabbitMQ: their URLs and their errors."""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from tupletree.connectors.amqp_headers import FRAME_HEADER, decoded_table, frame_end, without_headers
from tupletree.connectors.extras import imported
from tupletree.errors import UsageError

BLOCKED_TIMEOUT_S: Final = 30.0
"""How long RabbitMQ may take no messages, as in an alarm of memory or disk, until a connection is given up."""
MAX_NAME_BYTES: Final = 255
MAX_GATHERED_BYTES: Final = 65_536
"""How much is gathered for one write to the socket."""


def checked_url(url: str) -> str:
    """Return the URL. Raises UsageError, which does not show the URL, as it holds a password."""
    form = "RabbitMQ: url must be like amqp://user:password@host:5672/vhost, its special characters as %XX"
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("amqp", "amqps") and bool(parts.hostname) and (parts.port or 1) > 0
        is_right = is_right and (parts.username is None) == (parts.password is None) and not parts.fragment
    except (ValueError, AttributeError, TypeError):
        is_right = False
    if not is_right:
        raise UsageError(form)
    return url


def checked_name(what: str, name: str, *, min_bytes: int = 1) -> str:
    """Return a name. Raises UsageError if AMQP has no room for it."""
    if not isinstance(name, str) or not min_bytes <= len(name.encode()) <= MAX_NAME_BYTES:
        raise UsageError(f"{what} is {name!r}: expected a text of {min_bytes} to {MAX_NAME_BYTES} bytes")
    return name


def parameters(url: str) -> Any:
    """Return pika's parameters. Raises UsageError if pika is not installed or does not know an option of the URL."""
    try:
        found = imported("pika", "rabbitmq").URLParameters(url)
    except (ValueError, TypeError, SyntaxError):  # their texts may show parts of the URL
        raise UsageError("the URL of RabbitMQ has options, after '?', that pika does not know or take") from None
    if found.blocked_connection_timeout is None:
        found.blocked_connection_timeout = BLOCKED_TIMEOUT_S
    return found


@functools.cache
def gathering_connection() -> Any:
    """Return a class of SelectConnections that can publish many messages with few writes to the socket.

    pika writes each frame to the socket by itself: three system calls per message, which cost the broker as much.
    """

    class GatheringConnection(imported("pika", "rabbitmq").SelectConnection):  # type: ignore[misc]  # imported late
        _frames: list[bytes] | None = None
        _size = 0

        @contextlib.contextmanager
        def gather(self) -> Iterator[None]:
            """Write what is sent meanwhile in large pieces. On the connection's thread."""
            self._frames = []
            try:
                yield
            finally:
                self._write()
                self._frames = None

        def _adapter_emit_data(self, data: bytes) -> None:  # what an adapter of pika overrides
            if self._frames is None:
                super()._adapter_emit_data(data)
                return
            self._frames.append(data)
            self._size += len(data)
            if self._size >= MAX_GATHERED_BYTES:
                self._write()

        def _write(self) -> None:
            frames, self._frames, self._size = self._frames, [], 0
            if frames:
                super()._adapter_emit_data(b"".join(frames))

    return GatheringConnection


@functools.cache
def reading_connection() -> Any:
    """Return a class of SelectConnections that reads the headers of messages itself (amqp_headers.py).

    Properties whose headers cannot be read have an attribute ``problem``, which says why.
    """

    class ReadingConnection(imported("pika", "rabbitmq").SelectConnection):  # type: ignore[misc]  # imported late
        def _read_frame(self) -> tuple[int, Any]:  # of pika's Connection
            data = self._frame_buffer
            if data[:1] != FRAME_HEADER:
                found: tuple[int, Any] = super()._read_frame()
                return found
            end = frame_end(data)
            if not end:
                return 0, None
            frame, table = without_headers(data[:end])
            _, header = imported("pika.frame", "rabbitmq").decode_frame(frame)
            try:
                header.properties.headers = decoded_table(table)
            except (ValueError, struct.error, RecursionError) as error:
                header.properties.problem = f"the headers of the message cannot be read: {error}"
            return end, header

    return ReadingConnection


def lost(url: str, error: BaseException) -> ConnectionError:
    """Return the error of a lost connection: the server's address, and the text of what RabbitMQ or pika says."""
    parts = urlsplit(url)
    port = parts.port or (5671 if parts.scheme == "amqps" else 5672)
    return ConnectionError(f"{parts.hostname}:{port}: {getattr(error, 'reply_text', '') or str(error) or repr(error)}")


@contextlib.contextmanager
def connection_errors(url: str) -> Iterator[None]:
    """Raise ConnectionError for any error of pika."""
    try:
        yield
    except imported("pika.exceptions", "rabbitmq").AMQPError as error:
        raise lost(url, error) from error
