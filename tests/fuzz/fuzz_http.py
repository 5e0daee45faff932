"""Sends odd requests to an HTTP port, several connections at a time, and says what was wrong with the answers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from urllib.parse import quote

import h11
from fuzz_calls import Outcome
from fuzz_messages import TEXTS, make_body, mutated

AT_ONCE = 16
DEADLINE_S = 20.0
METHODS = ("GET", "GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW", "get")
HEADERS = (
    ("content-type", "application/json"),
    ("content-type", "text/plain"),
    ("accept", "*/*"),
    ("x-requested-with", "XMLHttpRequest"),
    ("origin", "http://evil.example"),
    ("authorization", "Bearer x.y.z"),
    ("cookie", "a=" + "b" * 2000),
    ("range", "bytes=-1"),
    ("if-none-match", '"x"'),
    ("expect", "100-continue"),
    ("upgrade", "websocket"),
)
REFUSED = frozenset({500, 501, 502, 505})
"""No answer to anything: an error of the server's own. 503 (nobody leads) is one that it may give."""


class HttpFuzzer:
    """Inputs for one port. ``paths``: what it serves, ``{name}`` standing for a value out of ``values``.

    ``spared``: values that only requests to read have in their paths, as what they name has to go on.
    """

    def __init__(
        self, port: int, paths: Sequence[str], values: Sequence[str], rng: random.Random, spared: Sequence[str] = ()
    ) -> None:
        self._port = port
        self._paths = paths
        self._values = values
        self._read_values = [*values, *spared]
        self._rng = rng

    async def run(self, inputs: int, outcome: Outcome) -> None:
        """Send so many requests."""
        share = inputs // AT_ONCE
        counts = [share] * (AT_ONCE - 1) + [inputs - share * (AT_ONCE - 1)]
        await asyncio.gather(*(self._client(count, outcome) for count in counts))

    async def _client(self, inputs: int, outcome: Outcome) -> None:
        for _ in range(inputs):
            request = self._request()
            if self._rng.random() < 0.2:
                request = mutated(request, self._rng)
            try:
                async with asyncio.timeout(DEADLINE_S):
                    status, body = await exchange(self._port, request)
            except TimeoutError:
                outcome.fault(f"no answer within {DEADLINE_S} s to {request[:200]!r}")
                status, body = 0, b""
            outcome.inputs += 1
            outcome.codes[str(status)] += 1
            if status in REFUSED:
                outcome.fault(f"{status} to {request[:200]!r}: {body[:200]!r}")
            if b"Traceback" in body and b'File "' in body and status >= 400:
                outcome.fault(f"a traceback in answer to {request[:200]!r}")

    def _request(self) -> bytes:
        rng = self._rng
        method = rng.choice(METHODS)
        target = self._target(self._read_values if method in ("GET", "HEAD") else self._values)
        headers = [("host", "127.0.0.1"), ("connection", "close"), *rng.sample(HEADERS, rng.randrange(4))]
        body = b"" if method in ("GET", "HEAD") and rng.random() < 0.9 else make_body(rng, self._values)
        if body or method not in ("GET", "HEAD"):
            length = len(body) if rng.random() < 0.95 else rng.choice((0, 1, 1 << 40, -1))
            headers.append(("content-length", str(length)))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
        return "\r\n".join(lines).encode("utf-8", "surrogatepass") + body

    def _target(self, values: Sequence[str]) -> str:
        rng = self._rng
        parts = [
            self._text(values) if part.startswith("{") or rng.random() < 0.03 else part
            for part in rng.choice(self._paths).split("/")
        ]
        query = "&".join(f"{rng.choice(QUERIES)}={self._text(values)}" for _ in range(rng.choice((0, 0, 1, 2, 3))))
        return "/".join(parts) + (f"?{query}" if query else "")

    def _text(self, values: Sequence[str]) -> str:
        rng = self._rng
        text = rng.choice(values) if rng.random() < 0.7 else rng.choice(TEXTS)[:3000]
        return quote(text, safe="" if rng.random() < 0.8 else "/:?&=") if rng.random() < 0.95 else "%zz%00%ff"


QUERIES = ("window", "sys", "id", "host", "callback", "file", "start", "length", "grep", "search-string", "num-matches",
           "start-byte-offset", "topoId", "port", "topology", "offset", "x")  # fmt: skip


async def exchange(port: int, request: bytes) -> tuple[int, bytes]:
    """Send bytes and read what comes until the end: the status (0: the peer hung up) and the first of the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    client.send(h11.Request(method="GET", target="/", headers=[("host", "x"), ("connection", "close")]))
    client.send(h11.EndOfMessage())  # h11 reads answers only to requests of its own
    try:
        writer.write(request)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
        return await _answer(reader, client)
    except (ConnectionError, h11.RemoteProtocolError):
        return 0, b""
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader, client: h11.Connection) -> tuple[int, bytes]:
    status, body = 0, b""
    while True:
        event = client.next_event()
        if event is h11.NEED_DATA:
            client.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body = (body + bytes(event.data))[:100_000]
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed) or event is h11.PAUSED:
            return status, body
