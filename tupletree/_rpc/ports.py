"""Binding a port, with the one sentence for a port that cannot be had."""

from __future__ import annotations

import errno
import socket

from tupletree.errors import UsageError


def bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket that does not listen yet (port 0: any free one).

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
