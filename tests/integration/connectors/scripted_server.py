"""An HTTP server on the loopback interface whose answers are scripted, with the history of its requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


@dataclass(frozen=True)
class Seen:
    """A request. Names of headers are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Told:
    """An answer; status 0 breaks the connection without one."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


Script = Callable[[Seen, int], Told]
"""Returns the answer to a request, given the number of earlier requests with the same body."""


class LoopbackServer(ThreadingHTTPServer):
    """A server for many connections at once: with the default queue of 5 some are lost, and their clients wait."""

    request_queue_size = 128
    daemon_threads = True


class ScriptedServer:
    """Serves POST on a thread for each connection."""

    def __init__(self, script: Script, port: int = 0) -> None:
        self.seen: list[Seen] = []
        self._script = script
        self._lock = threading.Lock()
        self._server = LoopbackServer(("127.0.0.1", port), self._handler())
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/orders"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                told = outer._answer(Seen(self.path, headers, self.rfile.read(int(headers["content-length"]))))
                if not told.status:
                    self.close_connection = True
                    return
                self.send_response(told.status)
                for name, value in {**told.headers, "Content-Length": str(len(told.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(told.body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        return Handler

    def _answer(self, seen: Seen) -> Told:
        with self._lock:
            before = sum(one.body == seen.body for one in self.seen)
            self.seen.append(seen)
        return self._script(seen, before)

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
