"""A portal that submits, sees and kills in the names of its users, over gRPC and REST, and what the audit log says."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import secured_topology
from security_harness import Secured

from tupletree._security.impersonation import HEADER
from tupletree.client import NimbusClient
from tupletree.errors import ForbiddenError
from tupletree.testing import DevCluster

ACL = {
    "portal": {"users": ["alice", "bob"], "hosts": ["127.0.0.1"]},
    "elsewhere": {"users": ["*"], "hosts": ["10.0.0.7"]},
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured.make(tmp_path_factory.mktemp("portal"))


@pytest.fixture(scope="module")
def cluster(secured: Secured) -> Iterator[DevCluster]:
    own = {"security.tokens": True, "security.secret.file": str(secured.directory / "secret")}
    operator = secured.user("operator", "admin")
    with DevCluster(nimbuses=2, conf={**own, "nimbus.impersonation.acl": ACL, "security.token": operator}) as running:
        yield running


def client(cluster: DevCluster, token: str, as_user: str | None = None) -> NimbusClient:
    conf = {**cluster.conf, "security.token": token, "security.as.user": as_user}
    return NimbusClient(conf=conf, leader_timeout_s=10)


def audit(cluster: DevCluster, operation: str) -> list[dict[str, Any]]:
    texts = [path.read_text() for path in Path(cluster.directory).glob("nimbus-*/logs/audit.log")]
    entries = [json.loads(line) for text in texts for line in text.splitlines()]
    return [entry for entry in entries if entry["operation"] == operation]


def get(port: int, path: str, headers: dict[str, str]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


@pytest.mark.nightly
def test_a_user_owns_what_the_portal_submits_in_their_name(cluster: DevCluster, secured: Secured) -> None:
    portal = secured.user("portal", "submit")
    with client(cluster, portal, "alice") as alice:
        alice.submit("numbers", secured_topology.topology())
        assert [one.record.owner for one in alice.list()] == ["alice"]
    with client(cluster, portal, "bob") as bob:
        assert bob.list() == ()
        with pytest.raises(ForbiddenError, match="user 'bob' through 'portal' may not Kill"):
            bob.kill("numbers")
    with client(cluster, portal) as itself:
        assert itself.list() == ()
    rest_shows_the_same(cluster, portal)
    with client(cluster, secured.user("alice", "submit")) as alice:
        alice.kill("numbers", wait_secs=0)
    [submitted] = audit(cluster, "Submit")
    assert (submitted["who"], submitted["through"], submitted["outcome"]) == ("alice", "portal", "done")
    refused, killed = audit(cluster, "Kill")
    assert (refused["who"], refused["through"], refused["outcome"]) == ("bob", "portal", "refused")
    assert (killed["who"], killed.get("through"), killed["outcome"]) == ("alice", None, "done")


def rest_shows_the_same(cluster: DevCluster, portal: str) -> None:
    """At the leader, and at the standby, which passes the name on."""
    ports = [one.http_port for one in cluster.processes if one.role == "nimbus"]
    assert len(ports) == 2
    for port in ports:
        for name, sees in (("alice", True), ("bob", False)):
            headers = {"Authorization": f"Bearer {portal}", HEADER: name}
            status, text = get(port, "/api/v1/topology/summary", headers)
            assert (status, "numbers" in text) == (200, sees)
        status, text = get(port, "/api/v1/topology/summary", {"Authorization": f"Bearer {portal}", HEADER: "carol"})
        assert status == 403
        assert "may not call in the name of 'carol'" in text


def test_others_may_not(cluster: DevCluster, secured: Secured) -> None:
    sentences = {
        "elsewhere": "may not call in the names of others from this address",
        "mallory": "user 'mallory' may not call in the name of 'alice'",
    }
    for name, sentence in sentences.items():
        token = secured.user(name, "submit")
        with client(cluster, token, "alice") as caller, pytest.raises(ForbiddenError, match=sentence):
            caller.submit("other", secured_topology.topology())
    assert ("mallory", "refused") in {(entry["who"], entry["outcome"]) for entry in audit(cluster, "GetLeader")}


def test_the_pages_of_other_daemons_refuse_it(cluster: DevCluster, secured: Secured) -> None:
    port = next(one.http_port for one in cluster.processes if one.role == "acker")
    headers = {"Authorization": f"Bearer {secured.user('portal', 'submit')}"}
    assert get(port, "/ledger", headers)[0] == 200
    status, text = get(port, "/ledger", {**headers, HEADER: "alice"})
    assert status == 403
    assert f"/ledger takes no {HEADER}" in text
