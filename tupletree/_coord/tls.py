"""TLS to ZooKeeper: sockets for kazoo that trust ``zookeeper.tls.ca`` alone and compare the name of the server.

kazoo's own TLS also trusts the authorities of the system. The files are read for each connection, so that a renewed
certificate counts from the next one.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

from tupletree._security.tls import Tls
from tupletree.errors import ConfigError

PREFIX: Final = "zookeeper.tls"


class TlsRefusedError(OSError):
    """A server was reached, and no TLS came about. ``strerror``: the reason, in one sentence."""


def tls_of(conf: Mapping[str, Any]) -> Tls | None:
    """Return the settings of ``zookeeper.tls``; None: no TLS. Raises ConfigError for a missing or invalid file."""
    return Tls.from_conf(conf, PREFIX)


def open_socket(tls: Tls, address: tuple[str, int], server_name: str, timeout_s: float | None) -> ssl.SSLSocket:
    """Return a connection to ``address`` after the TLS handshake, with a certificate for ``server_name``.

    Raises TlsRefusedError, or another OSError if no server is reached.
    """
    plain = socket.create_connection(address, timeout_s)
    who = f"{server_name}:{address[1]}"
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return tls.client_context().wrap_socket(plain, server_hostname=server_name)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        reason = f"the certificate of {who} is refused: {error.verify_message} (zookeeper.tls.ca)"
        raise TlsRefusedError(0, reason) from None
    except ConfigError as error:  # the files are being replaced
        plain.close()
        raise TlsRefusedError(0, str(error)) from None
    except OSError as error:
        plain.close()
        reason = f"no TLS with {who}: {error.strerror or error}; is the port its secureClientPort?"
        raise TlsRefusedError(0, reason) from None
    except BaseException:
        plain.close()
        raise


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's handler, with sockets of ``open_socket``. ``server_name``: the server that is called next."""

    server_name = ""

    def __init__(self, tls: Tls) -> None:
        super().__init__()
        self._tls = tls

    def create_connection(self, address: tuple[str, int], timeout: float | None = None, **_: Any) -> ssl.SSLSocket:
        return open_socket(self._tls, address, self.server_name, timeout)
