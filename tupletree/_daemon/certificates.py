"""A running daemon's certificate: reloaded when its files change, with a warning before it expires."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from tupletree._log import event
from tupletree._security.tls import Tls
from tupletree.errors import ConfigError

log = logging.getLogger("tupletree.tls")

LOOK_S: Final = 10.0
_WARN_AGAIN_S: Final = 24 * 3600.0
_DAY_S: Final = 24 * 3600.0


class CertificateWatch:
    """Keeps the contexts it created up to date with the files, and exposes the certificate's expiry."""

    def __init__(self, tls: Tls, registry: CollectorRegistry) -> None:
        self._tls = tls
        self._contexts: list[ssl.SSLContext] = []
        self._stamp = tls.stamp()
        self._warned_s: float | None = None
        self._expires_unix_s = tls.expires_unix_s() or 0.0
        name = "tupletree_tls_certificate_expiry_timestamp_seconds"
        ends = Gauge(name, "When this process's certificate ends, in Unix time; with TLS only.", registry=registry)
        ends.set_function(lambda: self._expires_unix_s)

    def server_context(self) -> ssl.SSLContext:
        """Return a context whose certificate follows the files. Raises ConfigError."""
        context = self._tls.server_context()
        self._contexts.append(context)
        return context

    async def keep(self) -> None:
        """Check the files every ``LOOK_S`` seconds, forever."""
        while True:
            self.refresh(time.time())
            await asyncio.sleep(LOOK_S)

    def refresh(self, now_unix_s: float) -> None:
        """Reload changed files, and warn once a day if the certificate expires soon."""
        try:
            stamp = self._tls.stamp()
            if stamp != self._stamp:
                self._tls.check()  # before any context is partially updated
                for context in self._contexts:
                    self._tls.load_into(context)
                self._stamp, self._warned_s = stamp, None
                self._expires_unix_s = self._tls.expires_unix_s() or 0.0
                event(log, "tls.reloaded", certificate=self._tls.cert)
        except (ConfigError, OSError) as error:  # half replaced, or gone: keep the loaded files
            event(log, "tls.not_reloaded", level=logging.WARNING, cause=error)
        left_days = (self._expires_unix_s - now_unix_s) / _DAY_S
        is_told = self._warned_s is not None and now_unix_s - self._warned_s < _WARN_AGAIN_S
        if left_days > self._tls.warning_days or is_told:
            return
        self._warned_s = now_unix_s
        left = "has ended" if left_days <= 0 else f"ends in {left_days:.1f} days"
        event(log, "tls.certificate_ends", level=logging.WARNING, certificate=self._tls.cert, cause=f"it {left}")
