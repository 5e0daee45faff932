"""What is said about the REST interface is what its table of endpoints enforces."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from tupletree._security.current import Security
from tupletree._security.guard import Gatekeeper
from tupletree._security.rights import Acl, Right
from tupletree._security.tokens import Keyring
from tupletree.errors import ForbiddenError
from tupletree.nimbus.web import openapi
from tupletree.nimbus.web.auth import Authorizer
from tupletree.nimbus.web.endpoint import PREFIX, Endpoint
from tupletree.nimbus.web.routes import ENDPOINTS

KEYRING = Keyring("tupletree", b"s" * 32)
PATHS: dict[str, Any] = openapi.description(ENDPOINTS, "1")["paths"]


async def nobody_s(by: str, named: Any) -> Acl:
    return Acl("'words'", owner="somebody", users=frozenset({"friend"}))


def is_allowed(endpoint: Endpoint, name: str, role: str) -> bool:
    token = KEYRING.issue(name, "user", roles=frozenset({role}))
    headers = [(b"authorization", f"Bearer {token}".encode())]
    path = {"id": "words-1-5"}
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers, "path_params": path}
    authorizer = Authorizer(Gatekeeper(Security(keyring=KEYRING), nobody_s))
    try:
        asyncio.run(authorizer.allow(Request(scope), endpoint.operation, endpoint.row))
    except ForbiddenError:
        return False
    return True


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: one.operation)
def test_the_right_that_openapi_names_is_the_right_that_is_enforced(endpoint: Endpoint) -> None:
    said = PATHS[PREFIX + endpoint.path][endpoint.method.lower()]["description"]
    right = said.partition("`")[2].partition("`")[0]
    assert said.endswith(f": {Right[right.upper()].value}.")
    assert is_allowed(endpoint, "stranger", "metrics") == (right == "metrics")
    assert is_allowed(endpoint, "stranger", "submit") == (right == "known")
    assert is_allowed(endpoint, "stranger", "read") == (right not in {"change", "write_state", "admin"})
    assert is_allowed(endpoint, "friend", "submit") == (right == "known" or " on the topology" in said)


def test_every_method_and_path_is_once_in_the_table() -> None:
    operations = [one.operation for one in ENDPOINTS]
    assert len(set(operations)) == len(operations) == sum(map(len, PATHS.values()))
