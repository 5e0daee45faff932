"""Addresses of receivers, such as ``otlp://collector:4318`` and ``statsd://10.0.0.5``.

otlp, otlps              OTLP over HTTP, without and with TLS; a path may follow
otlp+grpc, otlps+grpc    OTLP over gRPC, likewise
statsd                   UDP
"""

from __future__ import annotations  # pure

from typing import Final, NamedTuple

from tupletree._address import address_of, split_address
from tupletree.errors import UsageError

_PORTS: Final = {"otlp": 4318, "otlps": 4318, "otlp+grpc": 4317, "otlps+grpc": 4317, "statsd": 8125}
_WITH_PATH: Final = ("otlp", "otlps")
_MAX_PORT: Final = 65535


class ReceiverAddress(NamedTuple):
    """The place at which a receiver listens. ``path``: of OTLP over HTTP."""

    scheme: str
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{address_of(self.host, self.port)}{self.path}"


def parse_address(text: str) -> ReceiverAddress:
    """Return the address that a text names. Raises UsageError."""
    scheme, has_scheme, rest = text.partition("://")
    if not has_scheme or scheme not in _PORTS:
        raise UsageError(
            f"--to takes otlp://HOST:PORT, otlp+grpc://HOST:PORT or statsd://HOST:PORT, not {text!r}; "
            "otlp is OTLP over HTTP, otlps and otlps+grpc are with TLS"
        )
    authority, slash, path = rest.partition("/")
    host, port = split_address(authority, _PORTS[scheme])
    is_host = host and not any(character in "@?# " or character.isspace() for character in host)
    if not is_host or not 1 <= port <= _MAX_PORT:
        raise UsageError(f"--to {text!r} names no host, or a port that is none: write {scheme}://HOST:PORT")
    if scheme not in _WITH_PATH:
        if path:
            raise UsageError(f"--to {text!r} has a path, which {scheme} has not: write {scheme}://HOST:PORT")
        return ReceiverAddress(scheme, host, port)
    return ReceiverAddress(scheme, host, port, slash + path if path else "/v1/metrics")
