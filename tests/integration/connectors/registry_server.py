"""A schema registry: the calls of Confluent's REST interface that formats make, over HTTP, with its codes of errors."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar, Self
from urllib.parse import unquote, urlsplit

from scripted_server import LoopbackServer


class Refused(Exception):
    """An answer with an error. The arguments are the HTTP status, the registry's code and the message."""


class RegistryServer:
    """A registry on a port of the loopback interface. ``stop`` and ``start`` keep schemas and port.

    ``calls``: the number of requests by method and path. ``refuses``: subjects whose schemas are found incompatible.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.calls: Counter[str] = Counter()
        self.refuses: set[str] = set()
        self._schemas: list[dict[str, Any]] = []  # by id, from 1
        self._subjects: dict[str, list[int]] = {}
        self._server: LoopbackServer | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        handler = type("Handler", (Handler,), {"registry": self})
        self._server = LoopbackServer(("127.0.0.1", self.port), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request, or raise Refused."""
        if method == "GET" and (found := re.fullmatch(r"/schemas/ids/(\d+)", path)):
            return self._with_id(int(found[1]))
        if not (found := re.fullmatch(r"/subjects/([^/]+)(/versions(?:/(\w+))?)?", path)):
            raise Refused(404, 404, "HTTP 404 Not Found")
        subject, versions, version = unquote(found[1]), found[2], found[3]
        if method == "POST" and versions and not version:
            return {"id": self._register(subject, body)}
        ids = self._subjects.get(subject)
        if ids is None:
            raise Refused(404, 40401, f"Subject '{subject}' not found.")
        if method == "GET" and version:
            number = len(ids) if version == "latest" else int(version)
            return self._version(subject, number)
        if method == "POST" and not versions:
            for number, id in enumerate(ids, 1):
                if self._schemas[id - 1] == kept(body):
                    return self._version(subject, number)
            raise Refused(404, 40403, "Schema not found")
        raise Refused(405, 405, "HTTP 405 Method Not Allowed")

    def _with_id(self, id: int) -> dict[str, Any]:
        if not 1 <= id <= len(self._schemas):
            raise Refused(404, 40403, f"Schema {id} not found")
        return self._schemas[id - 1]

    def _version(self, subject: str, number: int) -> dict[str, Any]:
        id = self._subjects[subject][number - 1]
        return {"subject": subject, "version": number, "id": id, **self._schemas[id - 1]}

    def _register(self, subject: str, body: dict[str, Any]) -> int:
        if subject in self.refuses:
            raise Refused(409, 409, "Schema being registered is incompatible with an earlier schema")
        schema = kept(body)
        if schema not in self._schemas:
            self._schemas.append(schema)
        id = self._schemas.index(schema) + 1
        ids = self._subjects.setdefault(subject, [])
        if id not in ids:
            ids.append(id)
        return id


def kept(body: dict[str, Any]) -> dict[str, Any]:
    """Return what the registry keeps of a schema. The type is left out for Avro, as the registry's answers have it."""
    schema = {"schema": body["schema"]}
    if body.get("schemaType", "AVRO") != "AVRO":
        schema["schemaType"] = body["schemaType"]
    if body.get("references"):
        schema["references"] = body["references"]
    return schema


class Handler(BaseHTTPRequestHandler):
    registry: ClassVar[RegistryServer]
    protocol_version = "HTTP/1.0"  # a connection each, so that none outlives stop
    timeout = 5

    def do_GET(self) -> None:
        self._respond({})

    def do_POST(self) -> None:
        self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _respond(self, body: dict[str, Any]) -> None:
        path = urlsplit(self.path).path
        self.registry.calls[f"{self.command} {path}"] += 1
        try:
            status, answer = 200, self.registry.answer(self.command, path, body)
        except Refused as refusal:
            status, code, message = refusal.args
            answer = {"error_code": code, "message": message}
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
