"""Connections to Redis: one client per process and address, shared by all states, tables and sinks there."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tupletree.errors import UnavailableError, UsageError

_log = logging.getLogger(__name__)


class KeyInUseError(UsageError):
    """A key in Redis has another type: another program uses the key."""


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """The address of a Redis server, 5 or newer, not a Redis Cluster. Its text has no password.

    ``user``: the class that uses the server, named in error messages. ``decodes``: replies are str, not bytes.

    Raises:
        UsageError: the URL is invalid, or the package redis is not installed.
    """

    user: str = field(repr=False)
    url: str = field(repr=False)
    timeout_s: float
    decodes: bool = False

    def __post_init__(self) -> None:
        library = self._library()
        try:
            library.Redis.from_url(self.url).close()
            str(self)
        except ValueError as error:  # the message omits the URL, which can contain a password
            raise UsageError(f"{self.user}: its 'url' cannot be used: {error}") from error

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return f"Redis at {parts.hostname or parts.path}" + (f":{parts.port}" if parts.port else "")

    def shared_client(self) -> Any:
        """Return the client of this process. It is thread-safe and reconnects.

        A command whose reply was lost is sent again once.
        """
        return _client(self.url, self.timeout_s, self.decodes, os.getpid())

    @contextlib.contextmanager
    def client(self, subject: str = "") -> Iterator[Any]:
        """Return the client of this process. Redis errors raised inside become UnavailableError or KeyInUseError.

        ``subject``: what the client is used for, named in these errors.
        """
        errors = self._library().exceptions
        try:
            yield self.shared_client()
        except errors.RedisError as error:
            what = f"{self}: {subject and f'{subject}: '}{error}"
            if isinstance(error, errors.ResponseError) and "WRONGTYPE" in str(error):
                raise KeyInUseError(f"{what}: the prefix is used by another program") from error
            raise UnavailableError(what) from error

    def close(self) -> None:
        """Close idle connections. They are opened again when needed."""
        self.shared_client().connection_pool.disconnect(inuse_connections=False)

    def _library(self) -> Any:
        try:
            import redis
        except ImportError as error:
            raise UsageError(f"{self.user} needs the package redis: pip install 'tupletree[redis]'") from error
        return redis


@functools.cache
def _client(url: str, timeout_s: float, decodes: bool, process: int) -> Any:
    import redis
    from redis.backoff import ExponentialBackoff
    from redis.retry import Retry

    return redis.Redis.from_url(
        url,
        decode_responses=decodes,
        protocol=2,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(ExponentialBackoff(cap=0.1, base=0.01), 1),
    )


@functools.cache
def warn_if_forgetful(address: RedisAddress) -> None:
    """Log a warning, once per process, if the server can lose committed data in a crash."""
    from redis.exceptions import ResponseError

    client = address.shared_client()
    try:
        appends = client.info("persistence").get("aof_enabled")
        synchronous = client.config_get("appendfsync").get("appendfsync")
    except ResponseError:  # a hosted Redis can refuse these commands
        return
    if not appends or synchronous != "always":
        _log.warning(
            "%s can lose the last commits if it crashes: exactly once needs appendonly yes and appendfsync always",
            address,
        )
