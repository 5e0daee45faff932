"""Channels to other daemons, with the options that determine how fast a dead peer is detected.

A peer whose process died answers with a reset at once. A peer whose machine is gone does not answer: keep-alive pings
detect this within ``KEEPALIVE_TIME_MS + KEEPALIVE_TIMEOUT_MS``. gRPC answers pings from its own threads, so a peer that
is merely busy in Python stays connected. Reconnecting starts quickly and never waits more than a second, because a
restarted daemon is normally back within a second.
"""

from __future__ import annotations

from typing import Any, Final

import grpc
import grpc.aio

from tupletree._security.current import Security, current

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
KEEPALIVE_TIME_MS: Final = 5_000
KEEPALIVE_TIMEOUT_MS: Final = 5_000

MESSAGE_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
)

CHANNEL_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    *MESSAGE_OPTIONS,
    ("grpc.keepalive_time_ms", KEEPALIVE_TIME_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # also the timeout of one attempt
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),  # daemons talk to each other, never through a proxy meant for the web
    ("grpc.use_local_subchannel_pool", 1),  # a new channel does not inherit another channel's backoff
)


def aio_channel(address: str, security: Security | None = None) -> grpc.aio.Channel:
    """Return a channel to ``host:port`` for asyncio code. Connects at the first call; close it when done.

    ``security`` None: the settings of this process. Raises ConfigError if a file of ``tls.*`` is no longer readable.
    """
    security = current() if security is None else security
    options = list(CHANNEL_OPTIONS)
    if security.tls is None:
        opened = grpc.aio.insecure_channel(address, options=options)
    else:
        opened = grpc.aio.secure_channel(address, security.tls.channel_credentials(), options=options)
    return opened if security.token is None else _Introduced(opened, security)  # type: ignore[return-value]


def channel(address: str, security: Security | None = None) -> grpc.Channel:
    """Return a channel to ``host:port`` for threads; otherwise as ``aio_channel``."""
    security = current() if security is None else security
    options = list(CHANNEL_OPTIONS)
    if security.tls is None:
        opened = grpc.insecure_channel(address, options=options)
    else:
        opened = grpc.secure_channel(address, security.tls.channel_credentials(), options=options)
    return opened if security.token is None else _Introduced(opened, security)  # type: ignore[return-value]


class _Introduced:
    """A channel whose calls carry the caller's token. gRPC's own mechanisms for this require TLS, or add a cost to
    each message of a stream."""

    def __init__(self, opened: grpc.Channel | grpc.aio.Channel, security: Security) -> None:
        self._opened: Any = opened
        self._security = security

    def unary_unary(self, *arguments: Any, **named: Any) -> Any:
        return self._introduced(self._opened.unary_unary(*arguments, **named))

    def unary_stream(self, *arguments: Any, **named: Any) -> Any:
        return self._introduced(self._opened.unary_stream(*arguments, **named))

    def stream_unary(self, *arguments: Any, **named: Any) -> Any:
        return self._introduced(self._opened.stream_unary(*arguments, **named))

    def stream_stream(self, *arguments: Any, **named: Any) -> Any:
        return self._introduced(self._opened.stream_stream(*arguments, **named))

    def _introduced(self, call: Any) -> Any:
        def start(*arguments: Any, metadata: Any = None, **named: Any) -> Any:
            return call(*arguments, metadata=(*(metadata or ()), *self._security.metadata()), **named)

        return start

    def close(self, grace: float | None = None) -> Any:
        return self._opened.close() if grace is None else self._opened.close(grace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)

    def __enter__(self) -> _Introduced:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    async def __aenter__(self) -> _Introduced:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.close()
