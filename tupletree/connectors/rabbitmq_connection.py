"""Connections to RabbitMQ: their URLs and their errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from tupletree.connectors.extras import imported
from tupletree.errors import UsageError

BLOCKED_TIMEOUT_S: Final = 30.0
"""How long RabbitMQ may take no messages, as in an alarm of memory or disk, until a connection is given up."""
MAX_NAME_BYTES: Final = 255


def checked_url(url: str) -> str:
    """Return the URL. Raises UsageError, which does not show the URL, as it holds a password."""
    form = "the URL of RabbitMQ must be like amqp://user:password@host:5672/vhost, its special characters as %XX"
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


def lost(error: BaseException) -> ConnectionError:
    """Return the error of a lost connection, with the text of what RabbitMQ or pika says."""
    return ConnectionError(getattr(error, "reply_text", "") or str(error) or repr(error))


@contextlib.contextmanager
def connection_errors() -> Iterator[None]:
    """Raise ConnectionError for any error of pika."""
    try:
        yield
    except imported("pika.exceptions", "rabbitmq").AMQPError as error:
        raise lost(error) from error
