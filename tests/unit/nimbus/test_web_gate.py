"""Whom the gate of the web application lets in, and with what."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from tupletree._security.current import Security
from tupletree._security.guard import Gatekeeper
from tupletree._security.tokens import Keyring
from tupletree.errors import ForbiddenError
from tupletree.nimbus.web.auth import COOKIE, Authorizer
from tupletree.nimbus.web.endpoint import SEE

KEYRING = Keyring("tupletree", b"s" * 32)
TOKEN = KEYRING.issue("alice", "user", roles=frozenset({"read"}))
OPERATION = "GET /api/v1/cluster/summary"


def allowed(query: bytes, keyring: Keyring | None = KEYRING, **headers: str) -> str:
    """Who is let in."""
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": query, "headers": given, "path_params": {}}
    return asyncio.run(Authorizer(Gatekeeper(Security(keyring=keyring))).allow(Request(scope), OPERATION, SEE))


def test_a_token_in_a_header_or_in_the_cookie_says_who_asks() -> None:
    assert allowed(b"", authorization=f"Bearer {TOKEN}") == "alice"
    assert allowed(b"", cookie=f"{COOKIE}={TOKEN}") == "alice"


def test_a_script_on_another_page_cannot_use_the_cookie() -> None:
    for query in (b"callback=take", b"window=600&callback=take", b"c%61llback=take", b"callback="):
        with pytest.raises(ForbiddenError, match="not in a cookie"):
            allowed(query, cookie=f"{COOKIE}={TOKEN}")
    assert allowed(b"callback=take", authorization=f"Bearer {TOKEN}") == "alice"
    assert allowed(b"callback=take", keyring=None, cookie=f"{COOKIE}={TOKEN}") == ""
