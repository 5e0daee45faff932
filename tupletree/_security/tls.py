"""TLS from one set of files: a CA, a certificate and its key, for every listener and every connection.

The files are read when a channel or a server is created, and again when they have changed: a server presents the new
certificate on the next connection, a new channel presents it as well. An open channel keeps its original certificate.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tupletree._extras import SERVER, imported
from tupletree._security.files import read_private, read_public
from tupletree.errors import ConfigError

if TYPE_CHECKING:
    import grpc

Stamp = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Tls:
    """The TLS files and settings. ``cert`` and ``key`` are None for a client without a certificate.

    ``prefix``: what the names of the files' configuration keys begin with.
    """

    ca: str
    cert: str | None = None
    key: str | None = None
    require_client_cert: bool = True
    http_require_client_cert: bool = False
    warning_days: float = 30
    prefix: str = "tls"

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any], prefix: str = "tls") -> Tls | None:
        """Return the TLS settings; None if no file is configured. Raises ConfigError for a missing or invalid file."""
        ca, cert, key = (conf.get(f"{prefix}.{name}") for name in ("ca", "cert", "key"))
        if not (ca or cert or key):
            return None
        if not ca:
            raise ConfigError(
                f"{prefix}.cert and {prefix}.key need {prefix}.ca, the authority that signed the others' certificates"
            )
        if bool(cert) != bool(key):
            raise ConfigError(f"{prefix}.cert and {prefix}.key must be set together: one is missing")
        tls = cls(
            ca=_absolute(ca),
            cert=_absolute(cert) if cert else None,
            key=_absolute(key) if key else None,
            require_client_cert=bool(conf.get("tls.require.client.cert", True)),
            http_require_client_cert=bool(conf.get("tls.http.require.client.cert", False)),
            warning_days=float(conf.get("tls.expiry.warning.days", 30)),
            prefix=prefix,
        )
        tls.check()
        return tls

    def check(self) -> None:
        """Check the files. Raises ConfigError, in one sentence that names the file, if a file is invalid."""
        read_public(self.ca, f"{self.prefix}.ca")
        if self.key is not None:
            read_private(self.key, f"{self.prefix}.key")
        if self.cert is not None:
            read_public(self.cert, f"{self.prefix}.cert")
        self.client_context()

    @property
    def can_serve(self) -> bool:
        """True if there is a certificate for serving."""
        return self.cert is not None

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Return credentials for a gRPC connection within the cluster, from the current files."""
        import grpc  # here: a reader in Spark's processes connects to ZooKeeper, and needs no gRPC

        key, cert = self._pair()
        return grpc.ssl_channel_credentials(read_public(self.ca, f"{self.prefix}.ca"), key, cert)

    def server_credentials(self) -> grpc.ServerCredentials:
        """Return credentials for a gRPC server; new connections use the current files."""
        import grpc

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
                    return None  # half replaced: keep the old files for this connection
                stamp = now
                return configuration

        return grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            newest,  # type: ignore[arg-type]  # None: unchanged
            require_client_authentication=self.require_client_cert,
        )

    def server_context(self) -> ssl.SSLContext:
        """Return a context for an HTTP server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED if self.http_require_client_cert else ssl.CERT_NONE
        self.load_into(context)
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return a context for an HTTP client of the cluster's servers."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts only tls.ca
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load the current files into ``context``. Raises ConfigError if they are invalid."""
        try:
            context.load_verify_locations(self.ca)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"the file {self.ca} ({self.prefix}.ca) holds no certificate: {error}") from None
        if self.cert is None:
            return
        try:
            context.load_cert_chain(self.cert, self.key)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(
                f"the files {self.cert} and {self.key} ({self.prefix}.cert, {self.prefix}.key) are not a certificate "
                f"and its key: {error}"
            ) from None

    def stamp(self) -> Stamp:
        """Return a stamp that changes when the files change."""
        found = [os.stat(path) for path in (self.ca, self.cert, self.key) if path is not None]
        return tuple((one.st_mtime_ns, one.st_ino) for one in found)

    def expires_unix_s(self) -> float | None:
        """Return the expiry of the certificate; None without a certificate. Raises ConfigError."""
        if self.cert is None:
            return None
        x509 = imported("cryptography.x509", SERVER, "tls.cert")  # slow to import, and rarely needed
        try:
            certificate = x509.load_pem_x509_certificate(read_public(self.cert, f"{self.prefix}.cert"))
            return float(certificate.not_valid_after_utc.timestamp())
        except ValueError as error:
            raise ConfigError(f"the file {self.cert} (tls.cert) holds no certificate: {error}") from None

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        import grpc

        key, cert = self._pair()
        if key is None or cert is None:
            raise ConfigError("a daemon with tls.ca also needs tls.cert and tls.key")
        return grpc.ssl_server_certificate_configuration([(key, cert)], read_public(self.ca, f"{self.prefix}.ca"))

    def _pair(self) -> tuple[bytes | None, bytes | None]:
        if self.cert is None or self.key is None:
            return None, None
        return read_private(self.key, f"{self.prefix}.key"), read_public(self.cert, f"{self.prefix}.cert")


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())
