"""A client of webhooks on the loopback interface: Python's own, one connection for each request."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Reply:
    status: int
    text: str
    headers: Mapping[str, str]


def post(port: int, body: Any, path: str = "/", method: str = "POST", **headers: str) -> Reply:
    """Send a request; a body that is not bytes is sent as JSON. An underscore in a header's name is a hyphen."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, {name.replace("_", "-"): value for name, value in headers.items()})
        with connection.getresponse() as reply:
            return Reply(
                reply.status, reply.read().decode().rstrip("\n"), {k.lower(): v for k, v in reply.getheaders()}
            )
    finally:
        connection.close()


class Callers:
    """Callers that wait for their answers, each on a thread of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._threads = ThreadPoolExecutor(64)

    def post(self, body: Any, **headers: str) -> Future[Reply]:
        return self._threads.submit(post, self._port, body, **headers)

    def __enter__(self) -> Callers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown()
