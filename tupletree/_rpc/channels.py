"""Channels to other daemons: one place for the options that decide how fast a dead peer is noticed.

A peer whose process died answers with a reset at once. A peer whose machine is gone answers nothing: keep-alive pings
find that in ``KEEPALIVE_TIME_MS + KEEPALIVE_TIMEOUT_MS``. gRPC answers pings from its own threads, so a peer that is
merely busy in Python stays connected. Reconnecting starts quickly and never waits more than a second, because a daemon
that was restarted is normally back within one.
"""

from __future__ import annotations

from typing import Final

import grpc
import grpc.aio

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
    ("grpc.min_reconnect_backoff_ms", 2_000),  # also the time one attempt may take
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),  # daemons talk to each other, never through a proxy meant for the web
    ("grpc.use_local_subchannel_pool", 1),  # a new channel starts without another one's backoff
)


def aio_channel(address: str) -> grpc.aio.Channel:
    """A channel to ``host:port`` for asyncio code. Connects at the first call; close it when done."""
    return grpc.aio.insecure_channel(address, options=list(CHANNEL_OPTIONS))


def channel(address: str) -> grpc.Channel:
    """A channel to ``host:port`` for threads. Connects at the first call; close it when done."""
    return grpc.insecure_channel(address, options=list(CHANNEL_OPTIONS))
