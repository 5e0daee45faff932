"""A process that serves S3: moto, which keeps objects in memory, with requests one after the other.

    python serve_s3.py PORT

Requests to /-/ arm faults:

    /-/lose?method=PUT&part=manifest&count=2   the next two requests whose path has this part are carried out, and their
                                               connections are cut before an answer
    /-/drop?...                                they are not carried out
    /-/forget                                  from now on conditions (If-None-Match) are ignored
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple


@dataclass
class Fault:
    """A fault of the next ``count`` requests."""

    kind: str
    method: str
    part: str
    count: int

    def hits(self, environ: dict[str, Any]) -> bool:
        is_hit = self.count > 0 and environ["REQUEST_METHOD"] == self.method and self.part in environ["PATH_INFO"]
        self.count -= is_hit
        return is_hit


class FaultyServer:
    """The application of moto behind the faults."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()  # a real store compares and writes in one step
        self._faults: list[Fault] = []
        self._forgets = False

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/moto-api/"):
            return self._app(environ, start_response)  # a recording is replayed by requests to this server
        with self._lock:
            if environ["PATH_INFO"].startswith("/-/"):
                return self._arm(environ, start_response)
            if self._forgets:
                environ.pop("HTTP_IF_NONE_MATCH", None)
            fault = next((one for one in self._faults if one.hits(environ)), None)
            if fault is None:
                return [*self._app(environ, start_response)]
            if fault.kind == "lose":
                list(self._app(environ, lambda *answer: None))
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionError("a fault")

    def _arm(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        kind = environ["PATH_INFO"][3:]
        chosen = {name: values[0] for name, values in parse_qs(environ["QUERY_STRING"]).items()}
        if kind == "forget":
            self._forgets = True
        else:
            self._faults = [Fault(kind, chosen["method"], chosen["part"], int(chosen["count"]))]
        start_response("200 OK", [("Content-Length", "0")])
        return []


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), FaultyServer(), threaded=True)
