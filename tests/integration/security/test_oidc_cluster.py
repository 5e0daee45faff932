"""A cluster that takes tokens of an issuer, at every daemon: gRPC, pages, the UI's login and the command line."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import secured_topology
from oidc_issuer import Issuer, issuing
from security_harness import Secured

from tupletree.cli.main import main
from tupletree.client import NimbusClient
from tupletree.errors import ForbiddenError, UnauthenticatedError
from tupletree.testing import DevCluster, wait_until


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


@pytest.fixture(scope="module")
def cluster(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    secured = Secured.make(tmp_path_factory.mktemp("oidc"))
    own = {"security.tokens": True, "security.secret.file": str(secured.directory / "secret")}
    operator = secured.user("operator", "admin")
    with DevCluster(conf={**own, **issuer.conf, "security.token": operator}, drpc_servers=1) as running:
        yield running


def client(cluster: DevCluster, token: str) -> NimbusClient:
    return NimbusClient(conf={**cluster.conf, "security.token": token}, leader_timeout_s=10)


def get(port: int, path: str, token: str, method: str = "GET", body: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body or None, {"Authorization": f"Bearer {token}", "X-Requested-With": "test"})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def test_a_user_of_the_issuer_submits_owns_and_kills(cluster: DevCluster, issuer: Issuer) -> None:
    with client(cluster, issuer.token()) as alice:
        alice.submit("numbers", secured_topology.topology())
        assert [one.record.owner for one in alice.list()] == ["alice"]
        supervisor = next(one for one in cluster.processes if one.role == "supervisor")
        wait_until(
            lambda: "running" in {slot.state for slot in alice.slots(f"127.0.0.1:{supervisor.grpc_port}").slots},
            60,
            what="its worker runs",
        )
    with client(cluster, issuer.token(preferred_username="bob")) as bob:
        assert bob.list() == ()
        with pytest.raises(ForbiddenError, match="user 'bob' may not Kill"):
            bob.kill("numbers")
    with client(cluster, issuer.token(preferred_username="ann", realm_access={"roles": ["ops"]})) as ann:
        ann.kill("numbers", wait_secs=0)


def test_a_foreign_token_is_refused_with_its_reason(cluster: DevCluster, issuer: Issuer) -> None:
    with client(cluster, issuer.token(aud="account")) as alice, pytest.raises(UnauthenticatedError) as refused:
        alice.list()
    assert "the token is for another service (security.oidc.audience)" in str(refused.value)


@pytest.mark.parametrize(
    ("role", "path"),
    [
        ("nimbus", "/api/v1/cluster/summary"),
        ("supervisor", "/metrics"),
        ("acker", "/ledger"),
        ("drpc", "/functions"),
    ],
)
def test_pages_of_every_daemon_take_it(cluster: DevCluster, issuer: Issuer, role: str, path: str) -> None:
    port = next(one.http_port for one in cluster.processes if one.role == role)
    token = issuer.token(realm_access={"roles": ["all"]})
    assert get(port, path, token)[0] == 200
    status, text = get(port, path, issuer.token(exp=1_000_000_000))
    assert status == 401
    assert "the token has expired" in text


def test_the_login_page_takes_it_unless_it_is_too_long_for_a_cookie(cluster: DevCluster, issuer: Issuer) -> None:
    port = next(one.http_port for one in cluster.processes if one.role == "nimbus")
    assert get(port, "/login", "", "POST", urlencode({"token": issuer.token()}))[0] == 303
    status, text = get(port, "/login", "", "POST", urlencode({"token": issuer.token(padding="x" * 4000)}))
    assert status == 413
    assert "and browsers keep 3,800" in text


def test_the_command_line_shows_who_its_bearer_is(
    issuer: Issuer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tupletree.yaml"
    path.write_text(json.dumps({"security.tokens": True, **issuer.conf}))
    assert main(["token", "show", issuer.token(), "--conf", str(path)]) == 0
    assert capsys.readouterr().out.startswith("user alice, roles: submit\n")
    assert main(["token", "show", issuer.token(aud="other"), "--conf", str(path), "--json"]) == 1
    assert "for another service" in json.loads(capsys.readouterr().out)["verdict"]
