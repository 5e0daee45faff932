"""TLS from one set of files: an authority, a certificate and its key, for every listener and every connection.

The files are read when a channel or a server is made, and again when they have changed: a server offers the new
certificate to the next connection, a channel made later shows it. A channel that is open keeps the one it began with.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from tupletree._security.files import read_private, read_public
from tupletree.errors import ConfigError

Stamp = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Tls:
    """The files, and who must show a certificate. ``cert`` and ``key`` are None for a client that has none."""

    ca: str
    cert: str | None = None
    key: str | None = None
    require_client_cert: bool = True
    http_require_client_cert: bool = False
    warning_days: float = 30

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> Tls | None:
        """None if no file is named. Raises ConfigError if one is missing or names nothing that TLS can use."""
        ca, cert, key = (conf.get(name) for name in ("tls.ca", "tls.cert", "tls.key"))
        if not (ca or cert or key):
            return None
        if not ca:
            raise ConfigError("tls.cert and tls.key need tls.ca, the authority that signed the others' certificates")
        if bool(cert) != bool(key):
            raise ConfigError("tls.cert and tls.key belong together: one of them is not set")
        tls = cls(
            ca=_absolute(ca),
            cert=_absolute(cert) if cert else None,
            key=_absolute(key) if key else None,
            require_client_cert=bool(conf.get("tls.require.client.cert", True)),
            http_require_client_cert=bool(conf.get("tls.http.require.client.cert", False)),
            warning_days=float(conf.get("tls.expiry.warning.days", 30)),
        )
        tls.check()
        return tls

    def check(self) -> None:
        """Raises ConfigError unless the files hold what TLS needs, in one sentence that names the file."""
        read_public(self.ca, "tls.ca")
        if self.key is not None:
            read_private(self.key, "tls.key")
        if self.cert is not None:
            read_public(self.cert, "tls.cert")
        self.client_context()

    @property
    def can_serve(self) -> bool:
        """Whether there is a certificate to show to those who connect."""
        return self.cert is not None

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For a connection to a gRPC server of the cluster, as the files are now."""
        key, cert = self._pair()
        return grpc.ssl_channel_credentials(read_public(self.ca, "tls.ca"), key, cert)

    def server_credentials(self) -> grpc.ServerCredentials:
        """For a gRPC server; a connection made after a change of the files gets the new ones."""
        stamp, lock = self.stamp(), threading.Lock()

        def newest() -> grpc.ServerCertificateConfiguration | None:
            nonlocal stamp
            with lock:
                try:
                    now = self.stamp()
                    if now == stamp:
                        return None
                    configuration = self._configuration()
                    self.check()
                except (ConfigError, OSError):
                    return None  # half replaced: the old ones do for another connection
                stamp = now
                return configuration

        return grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            newest,  # type: ignore[arg-type]  # None says: as before
            require_client_authentication=self.require_client_cert,
        )

    def server_context(self) -> ssl.SSLContext:
        """For an HTTP server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED if self.http_require_client_cert else ssl.CERT_NONE
        self.load_into(context)
        return context

    def client_context(self) -> ssl.SSLContext:
        """For an HTTP client of the cluster's servers."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which trusts nobody but tls.ca
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """Have ``context`` use the files as they are now. Raises ConfigError if they are not what TLS needs."""
        try:
            context.load_verify_locations(self.ca)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"the file {self.ca} (tls.ca) holds no certificate: {error}") from None
        if self.cert is None:
            return
        try:
            context.load_cert_chain(self.cert, self.key)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(
                f"the files {self.cert} and {self.key} (tls.cert, tls.key) are no certificate with its key: {error}"
            ) from None

    def stamp(self) -> Stamp:
        """What tells one state of the files from another."""
        found = [os.stat(path) for path in (self.ca, self.cert, self.key) if path is not None]
        return tuple((one.st_mtime_ns, one.st_ino) for one in found)

    def expires_unix_s(self) -> float | None:
        """When the certificate ends; None if there is none. Raises ConfigError."""
        if self.cert is None:
            return None
        from cryptography import x509  # takes its time, and few processes ask

        try:
            return x509.load_pem_x509_certificate(read_public(self.cert, "tls.cert")).not_valid_after_utc.timestamp()
        except ValueError as error:
            raise ConfigError(f"the file {self.cert} (tls.cert) holds no certificate: {error}") from None

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        key, cert = self._pair()
        if key is None or cert is None:
            raise ConfigError("a daemon with tls.ca needs tls.cert and tls.key too: a certificate to show")
        return grpc.ssl_server_certificate_configuration([(key, cert)], read_public(self.ca, "tls.ca"))

    def _pair(self) -> tuple[bytes | None, bytes | None]:
        if self.cert is None or self.key is None:
            return None, None
        return read_private(self.key, "tls.key"), read_public(self.cert, "tls.cert")


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())
