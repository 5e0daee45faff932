"""Binding a port, with a one-sentence error if that fails; and reserving ports that survive a restart.

A port assigned by the kernel for ``bind(0)`` lies in the ephemeral range, from which the kernel also takes the local
ports of outgoing connections. While the daemon behind such a port is down, any process can get the port as its local
port; a client that keeps reconnecting to it can even end up connected to itself. A daemon that must come back on its
port therefore needs a port outside that range.
"""

from __future__ import annotations

import errno
import random
import socket
import sys
from typing import Final, Literal

from tupletree.errors import UsageError


def bind(host: str, port: int) -> socket.socket:
    """Return a bound TCP socket that does not listen yet (port 0: any free port).

    Raises UsageError if the port is in use or ``host`` is not an address of this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise UsageError(f"cannot listen on {host}: the name does not resolve") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} on {host} is in use") from error
        if error.errno == errno.EADDRNOTAVAIL:
            raise UsageError(f"cannot listen on {host}: it is not an address of this machine") from error
        raise UsageError(f"cannot listen on port {port} of {host}: {error.strerror}") from error
    return listener


def address_towards(host: str, port: int) -> str:
    """Return this machine's address on the way to ``host``, without sending anything.

    Raises UsageError if the name does not resolve, or if there is no way to it.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise UsageError(f"cannot find this machine's address on the way to {host}: {error.strerror}") from error


_LOWEST: Final = 10_240
_HIGHEST: Final = 65_535


def _candidates() -> list[range]:
    """Return the unprivileged ports outside the ephemeral range."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            low, high = map(int, file.read().split())
    except (OSError, ValueError):
        low, high = 32_768, 60_999
    outside = [range(_LOWEST, low), range(high + 1, _HIGHEST + 1)]
    return [part for part in outside if len(part) >= 1_000] or [range(_LOWEST, _HIGHEST + 1)]


class ReservedPorts:
    """Loopback ports that no other ReservedPorts on this machine hands out until ``release``.

    On Linux a reservation is a socket in the abstract namespace: it uses no file and ends with the process. Elsewhere
    a port is only known to be free at the time of ``reserve``. Programs that do not use this class can take a port.
    """

    def __init__(self) -> None:
        self._held: dict[int, socket.socket | None] = {}

    def reserve(self, count: int, host: str = "127.0.0.1") -> list[int]:
        """Reserve and return ``count`` free ports, ascending."""
        parts = _candidates()
        taken: list[int] = []
        while len(taken) < count:
            port = random.choice(random.choices(parts, weights=[len(part) for part in parts])[0])
            if self._reserve(port, host):
                taken.append(port)
        return sorted(taken)

    def _reserve(self, port: int, host: str) -> bool:
        if port in self._held:
            return False
        claim = _claim(port)
        if claim is False:
            return False
        try:
            bind(host, port).close()
        except UsageError:
            if claim is not None:
                claim.close()
            return False
        self._held[port] = claim
        return True

    def release(self) -> None:
        """Release all ports. Idempotent."""
        for claim in self._held.values():
            if claim is not None:
                claim.close()
        self._held.clear()


def _claim(port: int) -> socket.socket | Literal[False] | None:
    """Return the claim on a port; False if another process holds the claim, None if claims are not supported."""
    if sys.platform != "linux":
        return None
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        claim.bind(f"\0tupletree-port-{port}")
    except OSError as error:
        claim.close()
        return False if error.errno == errno.EADDRINUSE else None
    return claim
