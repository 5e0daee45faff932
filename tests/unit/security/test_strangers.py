"""What somebody without a token, or with a strange name for a topology, can have a daemon do: nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kazoo.client import KazooClient

from tupletree._coord.owners import find_acl
from tupletree._coord.store import Store
from tupletree._security.current import Security
from tupletree._security.guard import Gatekeeper
from tupletree._security.rights import CALLS, Acl, Principal
from tupletree._security.tokens import Keyring
from tupletree.errors import ForbiddenError, UnauthenticatedError


def test_who_shows_no_token_is_refused_before_anybody_looks_into_zookeeper() -> None:
    looked = []

    async def topologies(by: str, named: Any) -> Acl | None:
        looked.append((by, named))
        return None

    gate = Gatekeeper(Security(keyring=Keyring("tupletree", b"s" * 32)), topologies)
    row = CALLS["/tupletree.v1.Nimbus/Kill"]
    with pytest.raises(UnauthenticatedError, match="requires a token"):
        asyncio.run(gate.judge(None, row, "Kill", "words"))
    assert looked == []
    with pytest.raises(ForbiddenError):
        asyncio.run(gate.judge(Principal("eve", "user"), row, "Kill", "words"))
    assert looked == [("name", "words")]


@pytest.mark.parametrize("id", ["", ".", "..", "../supervisors", "a/b", "a\x00", "a\nb", "\ud800"])
def test_what_is_no_name_of_a_node_is_nobody_s_topology(id: str) -> None:
    assert find_acl(Store(KazooClient(), "/tupletree"), "topology_id", id) is None
