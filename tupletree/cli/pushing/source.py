"""Metrics of the cluster's processes, read over HTTP with the cluster's TLS and token.

Nimbus lists the processes, as it does for Prometheus. While no nimbus answers, or none leads, the last list is used.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tupletree._address import address_of, split_address
from tupletree._security.current import Security
from tupletree.cli.pushing.notices import NIMBUS, Notices
from tupletree.cli.pushing.readings import Reading, Target, parse_reading, parse_targets
from tupletree.errors import UnavailableError

TIMEOUT_S: Final = 5.0
MAX_PAGE_BYTES: Final = 64 * 1024 * 1024
_CHUNK_BYTES: Final = 256 * 1024
_THREADS: Final = 16
_REFUSED: Final = (http.client.UNAUTHORIZED, http.client.FORBIDDEN)


class Source:
    """The processes of one cluster. ``nimbuses``: the addresses of their HTTP ports, of which one has to answer."""

    def __init__(self, nimbuses: list[str], security: Security, notices: Notices, clock: Callable[[], float]) -> None:
        self._nimbuses = nimbuses
        self._security = security
        self._notices = notices
        self._clock = clock
        self._targets: list[Target] = []

    def targets(self) -> list[Target]:
        """Return the processes of the cluster. Raises UnavailableError if no nimbus lists them."""
        faults = []
        for at, address in enumerate(self._nimbuses):
            try:
                self._targets = parse_targets(self._page(address, "/api/v1/prometheus/targets"))
            except UnavailableError as error:
                faults.append(f"nimbus at {address} {error}")
            except (ValueError, RecursionError) as error:
                faults.append(f"nimbus at {address} does not list the processes: {error}")
            else:
                self._nimbuses = [address, *self._nimbuses[:at], *self._nimbuses[at + 1 :]]
                return self._targets
        raise UnavailableError("; ".join(faults))

    def read(self) -> list[Reading]:
        """Return what the processes show. A process that does not answer is left out, and reported once."""
        try:
            targets = self.targets()
            self._notices.resolve(NIMBUS, "nimbus lists the processes again")
        except UnavailableError as error:
            targets = self._targets
            self._notices.report(NIMBUS, f"{error}; going on with the {len(targets)} processes that are known")
        self._notices.forget_others([target.address for target in targets])
        if not targets:
            return []
        with ThreadPoolExecutor(max_workers=min(_THREADS, len(targets))) as pool:
            return [reading for reading in pool.map(self._read, targets) if reading is not None]

    def _read(self, target: Target) -> Reading | None:
        called = f"{target.role} at {target.address}"
        try:
            text = self._page(target.address, "/metrics").decode("utf-8", "replace")
            reading = parse_reading(target, text, self._clock())
        except UnavailableError as error:
            self._notices.report(target.address, f"{called} {error}; its metrics are left out")
            return None
        except (ValueError, RecursionError) as error:
            self._notices.report(target.address, f"{called} shows metrics that cannot be read: {error}")
            return None
        self._notices.resolve(target.address, f"{called} answers again")
        return reading

    def _page(self, address: str, path: str) -> bytes:
        """Return a page of a process. Raises UnavailableError with what it does instead of answering."""
        host, port = split_address(address, 80)
        tls, deadline_s = self._security.tls, time.monotonic() + TIMEOUT_S
        connection = (
            http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
            if tls is None
            else http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=tls.client_context())
        )
        try:
            connection.request("GET", path, headers=dict(self._security.metadata()))
            reply = connection.getresponse()
            content = bytearray()
            while chunk := reply.read1(_CHUNK_BYTES):
                content += chunk
                if len(content) > MAX_PAGE_BYTES:
                    raise UnavailableError(f"sends more than {MAX_PAGE_BYTES >> 20} MiB")
                if time.monotonic() > deadline_s:
                    raise UnavailableError(f"takes longer than {TIMEOUT_S:g} s")
        except (OSError, http.client.HTTPException, ssl.SSLError) as error:
            raise UnavailableError(f"does not answer: {_cause(error)}") from error
        finally:
            connection.close()
        if reply.status in _REFUSED:
            raise UnavailableError(
                f"refuses with status {reply.status}: the key security.token needs a token with the role metrics"
            )
        if reply.status != http.client.OK:
            raise UnavailableError(f"answers with status {reply.status}")
        return bytes(content)


def nimbus_addresses(seeds: str | None, conf: Mapping[str, Any]) -> list[str]:
    """Return the HTTP addresses of the nimbuses that a command or its configuration names. Their port is a key."""
    named = seeds.split(",") if seeds is not None else conf["nimbus.seeds"]
    hosts = dict.fromkeys(split_address(one.strip(), 0)[0] for one in named if one.strip())
    return [address_of(host, conf["nimbus.http.port"]) for host in hosts]


def _cause(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing within {TIMEOUT_S:g} s"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
