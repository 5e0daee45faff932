"""The HTTP side of a webhook spout's task: it admits requests, and answers each when the spout says how it ended.

the event loop (_event_loop.py)                        the task's thread
receive: check, decode, admit   --- arrivals --->      next_tuple emits
the caller gets its answer      <--- outcomes ---      ack, or given up
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import queue
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from tupletree._daemon.http_connection import Limits, Receiver, Request, RoutedConnection
from tupletree._daemon.http_listener import HttpListener
from tupletree._event_loop import EventLoop
from tupletree.connectors.formats import Format, FormatError
from tupletree.connectors.http.open_requests import (
    ACCEPTED,
    FULL,
    INACTIVE,
    LATE,
    UNDECODED,
    Answer,
    OpenRequest,
    OpenRequests,
    sentence,
)
from tupletree.errors import ConfigError, UnavailableError, UsageError

MAX_KEY: Final = 255
RETRY_AFTER_S: Final = 1
SPARE_CONNECTIONS: Final = 128
"""Connections beyond those whose requests are in process, so that one that waits for nothing can be ended."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """The settings of a webhook spout; its arguments have the meanings."""

    port: int
    format: Format
    host: str
    path: str
    answer: str
    timeout_s: float
    max_in_flight: int
    max_body_bytes: int
    key_header: str
    max_keys: int
    secret: bytes | None = field(repr=False)
    signature_header: str
    tls: tuple[str, str] | None

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context; None without TLS. Raises ConfigError for files that are no certificate and key."""
        if self.tls is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(*self.tls)
        except (ssl.SSLError, OSError) as error:
            names = " and ".join(self.tls)
            raise ConfigError(f"the files {names} are not a certificate and its key: {error}") from None
        return context


class WebhookReceiver:
    """Receives the requests of one task. The methods below "On the task's thread" are called there alone.

    ``rouse`` is called, on the event loop, for the first request after ``next`` has returned None.
    """

    def __init__(self, webhook: Webhook, rouse: Callable[[], None] = lambda: None) -> None:
        self._webhook = webhook
        self._rouse = rouse
        self._is_awaited = False  # ``next`` has returned None
        self._requests = OpenRequests(webhook.max_in_flight, webhook.max_keys)
        self._arrivals: queue.SimpleQueue[OpenRequest] = queue.SimpleQueue()
        self._outcomes: deque[tuple[OpenRequest, Answer]] = deque()
        self._is_told = False  # ``_deliver`` will be called on the event loop
        self._is_active = True
        self.refused = 0
        """The number of responses with status 503."""
        self.is_connected = False  # listens
        self.lag: int | None = None
        self.error = ""  # why it does not listen
        self.refusal = ""  # it has no parts
        limits = Limits(connections=webhook.max_in_flight + SPARE_CONNECTIONS, retry_after_s=RETRY_AFTER_S)
        routes = {webhook.path: Receiver(self._receive, webhook.max_body_bytes)}
        self._listener = HttpListener(functools.partial(RoutedConnection, routes=routes, limits=limits), limits)
        self._loop = EventLoop.acquire()

    # On the task's thread

    def listen(self, port: int) -> int:
        """Listen, and return the real port. Raises UsageError if the port is in use, ConfigError for unusable files."""
        try:
            bound = self._loop.run(self._listener.start(self._webhook.host, port, self._webhook.context()))
        except UsageError as error:
            self.error = str(error)
            raise
        self.is_connected = True
        return bound

    def close(self) -> None:
        """End all connections."""
        self._loop.run(self._listener.stop())
        self._loop.release()

    def next(self) -> OpenRequest | None:
        """Return a request to emit; None if there is none now."""
        while True:
            try:
                request = self._arrivals.get_nowait()
            except queue.Empty:
                if self._is_awaited:
                    return None
                self._is_awaited = True  # before another look: a request that came just now rouses nobody
                continue
            request.is_emitted = True
            if not request.is_withdrawn:
                return request

    def finish(self, request: OpenRequest, answer: Answer) -> None:
        """Have the callers of an emitted request answered."""
        self._outcomes.append((request, answer))
        if not self._is_told:
            self._is_told = True
            self._loop.call(self._deliver)

    def set_active(self, is_active: bool) -> None:
        """Admit requests, or refuse them with those that are not emitted yet."""
        self._loop.call(self._set_active, is_active)

    @property
    def outstanding(self) -> int:
        """The number of requests that are accepted and not processed. Any thread."""
        return len(self._requests)

    # On the event loop

    async def _receive(self, request: Request) -> Answer:
        answer = self._check(request)
        if answer is None:
            row = await self._decode(request)
            again = self._check(request) if self._webhook.format.blocking else None  # others may have come meanwhile
            answer = row if isinstance(row, tuple) else again or self._admit(request, row)
        if isinstance(answer, OpenRequest):
            answer = ACCEPTED if self._webhook.answer == "accepted" else await self._wait(answer)
        if answer[0] is HTTPStatus.SERVICE_UNAVAILABLE:
            self.refused += 1
        return answer

    def _check(self, request: Request) -> OpenRequest | Answer | None:
        """Return the open request that a request joins, or the answer that it gets at once; None for a new request."""
        webhook, key = self._webhook, request.header(self._webhook.key_header)
        if webhook.secret is not None and not _is_signed(request, webhook.secret, webhook.signature_header):
            return sentence(
                HTTPStatus.FORBIDDEN, f"the header {webhook.signature_header} is not the HMAC-SHA256 of the body"
            )
        if key is not None:
            if not 0 < len(key) <= MAX_KEY or not key.isprintable():
                text = f"the header {webhook.key_header} was expected to have 1 to {MAX_KEY} printable characters"
                return sentence(HTTPStatus.BAD_REQUEST, text)
            if (known := self._requests.find(key, request.body)) is not None:
                return FULL if isinstance(known, OpenRequest) and self._requests.is_full else known
        if not self._is_active:
            return INACTIVE
        # Requests that nobody waits for any longer still wait in the queue, if the spout is not called.
        return FULL if self._requests.is_full or self._arrivals.qsize() >= webhook.max_in_flight else None

    async def _decode(self, request: Request) -> list[Any] | Answer:
        """Return the row of a request, or the answer if there is none."""
        format = self._webhook.format
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        try:
            if format.blocking:
                return list(await asyncio.to_thread(format.decode_delivery, request.body, headers))
            return list(format.decode_delivery(request.body, headers))
        except FormatError as error:
            return sentence(HTTPStatus.BAD_REQUEST, " ".join(str(error).split()))
        except UnavailableError:
            return UNDECODED

    def _admit(self, request: Request, row: list[Any]) -> OpenRequest:
        admitted = OpenRequest(request.header(self._webhook.key_header), request.body, row)
        self._requests.admit(admitted)
        self._arrivals.put(admitted)
        if self._is_awaited:
            self._is_awaited = False
            self._rouse()
        return admitted

    async def _wait(self, request: OpenRequest) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def tell(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        request.callers.append(tell)
        self._requests.callers += 1
        try:
            async with asyncio.timeout(self._webhook.timeout_s):
                return await answered
        except TimeoutError:
            return LATE
        finally:
            self._requests.callers -= 1
            request.callers.remove(tell)
            if not request.callers and not request.is_emitted:  # nobody waits for it any longer
                self._requests.withdraw(request, LATE)

    def _deliver(self) -> None:
        self._is_told = False
        while self._outcomes:
            self._requests.finish(*self._outcomes.popleft())

    def _set_active(self, is_active: bool) -> None:
        self._is_active = is_active
        if self._webhook.answer == "accepted":
            return  # accepted requests wait for the topology
        while not is_active and not self._arrivals.empty():
            self._requests.withdraw(self._arrivals.get_nowait(), INACTIVE)


def _is_signed(request: Request, secret: bytes, header: str) -> bool:
    given = (request.header(header) or "").removeprefix("sha256=").lower()
    expected = hmac.new(secret, request.body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(given.encode(), expected.encode())
