"""Connections to Redis: one client per process and address, shared by all states, tables and sinks there."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tupletree.errors import UnavailableError, UsageError

_log = logging.getLogger(__name__)

_CUT_PASSWORD = re.compile(r"rediss?://[^@/?#]*[/?#][^=]*@")
"""A password with a delimiter: its beginning would be taken for a port, and shown."""


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
            if _CUT_PASSWORD.match(self.url):
                raise ValueError("write / ? # in its password as %2F %3F %23")
        except ValueError as error:  # it may quote a piece of a password as the port
            reason = str(error).partition(" as ")[0]
            raise UsageError(f"{self.user}: its 'url' cannot be used: {reason}") from None

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
        """Return the client of this process. Errors are those of ``errors``."""
        with self.errors(subject):
            yield self.shared_client()

    def own_client(self, *, is_single: bool = False) -> Any:
        """Return a new client, which sends each command once: a lost connection is an error.

        ``is_single``: all commands but pipelines use one connection, and the client connects now.
        """
        library = self._library()
        return library.Redis.from_url(
            self.url,
            single_connection_client=is_single,
            decode_responses=self.decodes,
            protocol=2,
            socket_timeout=self.timeout_s,
            socket_connect_timeout=self.timeout_s,
            retry=library.retry.Retry(library.backoff.NoBackoff(), 0),
        )

    @contextlib.contextmanager
    def errors(self, subject: str = "", key: str = "prefix") -> Iterator[None]:
        """Redis errors raised inside become UnavailableError or KeyInUseError, which name ``subject`` and ``key``."""
        errors = self._library().exceptions
        try:
            yield
        except errors.RedisError as error:
            what = f"{self}: {subject and f'{subject}: '}{error}"
            if isinstance(error, errors.ResponseError) and "WRONGTYPE" in str(error):
                raise KeyInUseError(f"{what}: the {key} is used by another program") from error
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
