"""Connections to NATS: opened once, never mended, with an inbox for the answers of the server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from tupletree.connectors.extras import imported
from tupletree.errors import UsageError

ANSWER_S: Final = 5.0
"""How long an answer of the server may take: then the connection is lost."""

Servers = str | Sequence[str]
Request = tuple[bytes, dict[str, str] | None]
"""Data and headers."""


class Link:
    """A connection. ``drive`` runs a coroutine on the connection's event loop, and waits for its result."""

    def __init__(self, drive: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.nats = imported("nats", "nats")
        self.client: Any = self.nats.NATS()
        self._drive = drive
        self._cause = ""
        self._answers: list[Any] = []
        self._awaited = 0
        self._is_whole = False
        self._changed = asyncio.Event()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine. Raises ConnectionError for errors of NATS, and for an answer that does not come."""
        try:
            return self._drive(coroutine)
        except (self.nats.errors.Error, TimeoutError) as error:
            raise ConnectionError(f"{str(error) or 'nats: timeout'}{self._cause}") from error

    async def connect(self, servers: Sequence[str]) -> None:
        """Connect to one of the servers."""
        once = {"allow_reconnect": False, "max_reconnect_attempts": 1, "reconnect_time_wait": 0.05}
        await self.client.connect(list(servers), **once, error_cb=self._note, closed_cb=self._end)
        self._cause = ""
        self._inbox = self.client.new_inbox()
        await self.client.subscribe(self._inbox + ".*", cb=self._arrive, pending_bytes_limit=0)  # requests bound it

    async def ask(self, subject: str, requests: Mapping[int, Request], count: int, wait_s: float = 0) -> list[Any]:
        """Publish numbered requests, and return ``count`` answers, or those up to the first status of the server.

        The subject of an answer ends in the number of its request.
        """
        self._answers, self._awaited, self._is_whole = [], count, False
        self._changed.clear()
        for number, (data, headers) in requests.items():
            await self.client.publish(subject, data, f"{self._inbox}.{number}", headers)
        await asyncio.wait_for(self._changed.wait(), wait_s + ANSWER_S)
        if not self._is_whole:
            raise self.nats.errors.ConnectionClosedError
        return self._answers

    async def send(self, subjects: Sequence[str], data: bytes) -> None:
        """Publish the same to each subject, and return when the server has taken all."""
        for subject in subjects:
            await self.client.publish(subject, data)
        await self.client.flush(ANSWER_S)

    async def rest(self, wait_s: float) -> None:
        """Wait, while the connection's heartbeats are answered. Raises ConnectionClosedError of NATS."""
        await asyncio.sleep(wait_s)
        if self.client.is_closed:
            raise self.nats.errors.ConnectionClosedError

    def end(self) -> None:
        """Disconnect. Never raises."""
        with contextlib.suppress(Exception):
            self._drive(self.client.close())

    async def _arrive(self, answer: Any) -> None:
        self._answers.append(answer)
        if len(self._answers) >= self._awaited or status_of(answer):
            self._is_whole = True
            self._changed.set()

    async def _end(self) -> None:
        self._changed.set()

    async def _note(self, error: Exception) -> None:
        self._cause = f": {error}"


def status_of(answer: Any) -> str:
    """Return the status that the server answers with in place of a message, or ""."""
    return "" if answer.reply else str((answer.headers or {}).get("Status", ""))


def checked_servers(servers: Servers) -> list[str]:
    """Return the URLs of servers. Raises UsageError, whose text has no URL: it could contain a password."""
    urls = [servers] if isinstance(servers, str) else servers
    if not isinstance(urls, list | tuple) or not urls or not all(isinstance(url, str) for url in urls):
        raise UsageError("servers is no list of texts, and at least one nats://HOST:PORT was expected")
    urls = [url if "://" in url else f"nats://{url}" for url in urls]
    for number, url in enumerate(urls, 1):
        try:
            parts = urlsplit(url)
            is_known = parts.scheme in ("nats", "tls") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_known = False
        if not is_known or parts.path.strip("/") or parts.query or parts.fragment:
            raise UsageError(f"URL {number} of servers is not nats://HOST:PORT or tls://HOST:PORT")
    return urls


def checked_name(what: str, name: str, forbidden: str = ".*>/\\") -> str:
    """Return a name, or with fewer forbidden characters, a subject. Raises UsageError."""
    if not isinstance(name, str) or not name.isprintable() or set(name) & set(forbidden + " ") or "" in name.split("."):
        without = ", ".join(["spaces", "empty parts", *forbidden])
        raise UsageError(f"{what} is {name!r}, and printable text without {without} was expected")
    return name
