"""The lines of the audit log about requests over HTTP, on connections that carry the requests of several callers."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tupletree._daemon.health import Readiness
from tupletree._net import bind
from tupletree._security.audit import AuditLog
from tupletree._security.current import Security
from tupletree._security.guard import Gatekeeper
from tupletree._security.rights import Acl
from tupletree._security.tokens import Keyring
from tupletree.config import defaults
from tupletree.nimbus.config import NimbusConfig
from tupletree.nimbus.leader.known_leader import KnownLeader
from tupletree.nimbus.metrics import NimbusMetrics
from tupletree.nimbus.savepoints import Savepoints
from tupletree.nimbus.web.app import WebApplication
from tupletree.nimbus.web.server import WebServer

KEYRING = Keyring("tupletree", b"s" * 32)
ALICE = KEYRING.issue("alice", "user", roles=frozenset({"submit"}))
ACTIVATE = "/api/v1/topology/words-1-1700000000/activate"
JSON = {"Content-Type": "application/json"}

Ask = Callable[..., int]


async def words(by: str, named: object) -> Acl | None:
    return Acl("'words'", "alice")


def lines_after(directory: Path, ask_all: Callable[[Ask], None]) -> list[dict[str, Any]]:
    """The lines that are written while a client asks on one connection, of a nimbus without parts behind its pages."""

    async def scenario() -> None:
        config, known = NimbusConfig.from_conf(defaults()), KnownLeader("nimbus-1", 6.0)
        absent: Any = None
        audit = AuditLog(str(directory / "audit.log"), max_bytes=1_000_000, backups=1)
        gate, metrics = Gatekeeper(Security(keyring=KEYRING), words, audit), NimbusMetrics(Readiness(), str(directory))
        application = WebApplication(
            Readiness(),
            metrics,
            absent,
            absent,
            absent,
            known,
            absent,
            config,
            gate,
            "1",
            8080,
            Savepoints(None, config.conf),
        )
        server, listener = WebServer(application.asgi), bind("127.0.0.1", 0)
        await server.start(listener)
        await asyncio.to_thread(_ask, listener.getsockname()[1], ask_all)
        await server.stop()
        audit.close()

    asyncio.run(scenario())
    return [json.loads(line) for line in (directory / "audit.log").read_text().splitlines()]


def _ask(port: int, ask_all: Callable[[Ask], None]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def ask(method: str, path: str, **headers: str) -> int:
        connection.request(method, path, headers={**JSON, **headers})
        reply = connection.getresponse()
        reply.read()
        return reply.status

    try:
        ask_all(ask)
    finally:
        connection.close()


def test_a_refused_request_is_not_that_of_the_caller_before_on_the_connection(tmp_path: Path) -> None:
    def ask_all(ask: Ask) -> None:
        known = {"Authorization": f"Bearer {ALICE}"}
        assert ask("GET", "/api/v1/acker/summary", **known) == 500
        assert ask("POST", ACTIVATE, Authorization="Bearer of.no.token") == 401
        assert ask("GET", "/api/v1/acker/summary", **known) == 500
        assert ask("POST", ACTIVATE, Origin="http://elsewhere.example", **known) == 403

    refused = lines_after(tmp_path, ask_all)
    assert [(one["who"], one["outcome"]) for one in refused] == [(None, "refused"), (None, "refused")]
    assert refused[1]["why"] == "a page of http://elsewhere.example may not change anything here"


def test_a_change_that_fails_within_nimbus_has_a_line(tmp_path: Path) -> None:
    def ask_all(ask: Ask) -> None:
        assert ask("POST", ACTIVATE, Authorization=f"Bearer {ALICE}") == 500

    [line] = lines_after(tmp_path, ask_all)
    assert (line["who"], line["outcome"], line["topology"]) == ("alice", "failed", "words-1-1700000000")
