"""Connections to Redis, from the driver and from Spark's tasks: one client per process and address."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tupletree.errors import UnavailableError, UsageError


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Address of a Redis. Its text has no password. UsageError for an invalid URL, or without the package redis."""

    url: str = field(repr=False)
    timeout_s: float

    def __post_init__(self) -> None:
        try:
            _redis().Redis.from_url(self.url).close()
        except ValueError as error:
            raise UsageError(f"RedisHashes: {self}: {error}") from error

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return f"Redis at {parts.hostname or parts.path}" + (f":{parts.port}" if parts.port else "")

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        """Return the client of this process.

        The client is thread-safe, reconnects, and resends a command whose answer was lost. Redis errors raised inside
        become UnavailableError, or UsageError if a key has another type.
        """
        errors = _redis().exceptions
        try:
            yield _client(self.url, self.timeout_s, os.getpid())
        except errors.RedisError as error:
            if isinstance(error, errors.ResponseError) and "WRONGTYPE" in str(error):
                raise UsageError(f"{self}: {error}: the prefix is in use for something else") from error
            raise UnavailableError(f"{self}: {error}") from error

    def close(self) -> None:
        """Close idle connections."""
        _client(self.url, self.timeout_s, os.getpid()).connection_pool.disconnect(inuse_connections=False)


def _redis() -> Any:
    """Import the client library."""
    try:
        import redis
    except ImportError as error:
        raise UsageError("RedisHashes needs the package redis: pip install 'tupletree[redis]'") from error
    return redis


@functools.cache
def _client(url: str, timeout_s: float, process: int) -> Any:
    from redis.backoff import ExponentialBackoff
    from redis.retry import Retry

    return _redis().Redis.from_url(
        url,
        protocol=2,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(ExponentialBackoff(cap=0.1, base=0.01), 1),
    )
