"""One real DRPC server: its HTTP face, its health and metrics, refusals, its end; TLS and tokens."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from drpc_by_hand import Topology
from drpc_harness import DrpcProcess

from tupletree._rpc.channels import channel
from tupletree._security.authority import Authority
from tupletree._security.current import Security
from tupletree._security.files import write_private
from tupletree._security.tls import Tls
from tupletree._security.tokens import Keyring
from tupletree.cli.main import main
from tupletree.drpc import DRPCClient
from tupletree.errors import DRPCError, DRPCTimeoutError, ForbiddenError, OverloadedError, UnauthenticatedError
from tupletree.testing import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DrpcProcess]:
    with DrpcProcess(tmp_path, drpc_max_pending=10) as process:
        yield process


def ask(server: DrpcProcess, path: str, body: str | None = None, kind: str = "text/plain") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10)
    try:
        headers = {} if body is None else {"Content-Type": kind}
        connection.request("GET" if body is None else "POST", path, body, headers)
        reply = connection.getresponse()
        return reply.status, str(reply.getheader("content-type")), reply.read().decode()
    finally:
        connection.close()


def test_the_http_face(server: DrpcProcess, topology: Topology) -> None:
    assert ask(server, "/drpc/echo/foo.com/blog%2F1") == (200, "text/plain; charset=utf-8", "foo.com/blog/1")
    assert ask(server, "/drpc/echo") == (200, "application/json", "null")
    assert ask(server, "/drpc/echo", "a body") == (200, "text/plain; charset=utf-8", "a body")
    assert ask(server, "/drpc/echo", '{"a": [1]}', "application/json") == (200, "application/json", '{"a":[1]}')
    assert ask(server, "/drpc/echo", "{", "application/json")[0] == 400
    assert ask(server, "/drpc/a%20b")[0] == 400
    assert ask(server, "/drpc/echo/fail") == (500, "text/plain; charset=utf-8", "asked to fail\n")
    assert ask(server, "/elsewhere/echo")[0] == 404
    assert ask(server, "/readyz")[0] == 200
    assert json.loads(ask(server, "/functions")[2]) == {"echo": {"queued": 0, "sent": 0, "serving_tasks": 1}}
    text = ask(server, "/metrics")[2]
    assert 'tupletree_drpc_requests_total{end="answered",function="echo"} 4.0' in text
    assert 'tupletree_drpc_requests_total{end="failed",function="echo"} 1.0' in text
    assert 'tupletree_drpc_request_seconds_count{function="echo"} 5.0' in text


def test_a_request_of_a_client_that_leaves_is_cancelled(server: DrpcProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10)
    connection.request("GET", "/drpc/unserved")
    wait_until(lambda: "unserved" in ask(server, "/functions")[2], what="the request is queued")
    connection.close()
    wait_until(lambda: ask(server, "/functions")[2] == "{}", what="the request is gone")


@pytest.mark.long
def test_lack_of_room_is_told_and_passes(server: DrpcProcess, topology: Topology) -> None:
    waiting = [threading.Thread(target=ask, args=(server, "/drpc/unserved")) for _ in range(5)]
    with DRPCClient(server.address) as client:
        for thread in waiting:
            thread.daemon = True
            thread.start()
        wait_until(lambda: '"queued":5' in ask(server, "/functions")[2], what="five requests are queued")
        with pytest.raises(OverloadedError, match=r"drpc.max.pending is 10\): call again later"):
            client.execute("unserved", timeout_s=1)
        assert ask(server, "/drpc/unserved")[0] == 429
        assert client.execute("echo", 1) == 1  # another function has room


def test_time_outs(server: DrpcProcess, topology: Topology) -> None:
    with DRPCClient(server.address) as client:
        with pytest.raises(DRPCTimeoutError, match=r"no topology has served function 'unserved' in time"):
            client.execute("unserved", timeout_s=0.1)
        with pytest.raises(DRPCTimeoutError, match=r"function 'echo' has not answered in time"):
            client.execute("echo", "keep", timeout_s=0.1)


def test_a_lost_spout_fails_its_requests_at_once(server: DrpcProcess, topology: Topology) -> None:
    with DRPCClient(server.address) as client:
        threading.Timer(0.3, topology.call.cancel).start()
        with pytest.raises(
            DRPCError, match=r"the worker that had taken the request .* was lost; if a component"
        ) as raised:
            client.execute("echo", "keep", timeout_s=60)
        assert raised.value.kind == "lost"


@pytest.mark.long
def test_a_server_that_ends_answers_what_it_can(server: DrpcProcess, topology: Topology) -> None:
    with DRPCClient(server.address) as client:
        threading.Timer(0.3, server.process.terminate).start()
        with pytest.raises(DRPCError, match=r"the DRPC server has ended before the request was answered") as raised:
            client.execute("echo", "keep", timeout_s=60)
        assert raised.value.kind == "shutdown"
    assert server.process.wait(15) == 0


def test_calls_go_to_the_server_that_is_there(server: DrpcProcess, topology: Topology) -> None:
    with DRPCClient(f"127.0.0.1:1,{server.address}") as client:
        assert [client.execute("echo", number) for number in range(4)] == [0, 1, 2, 3]


def test_doctor_says_whether_servers_answer(
    server: DrpcProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    named = f"drpc.servers=['{server.address}', '127.0.0.1:1']"
    assert main(["doctor", "--json", "-c", named, "-c", "nimbus.seeds=['127.0.0.1:1']"]) == 1
    found = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["subject"] == "drpc"]
    assert [(one["level"], one["sentence"]) for one in found] == [
        ("ok", f"the DRPC server at {server.address} serves"),
        ("problem", "the DRPC server at 127.0.0.1:1 cannot be reached: connection refused"),
    ]
    assert found[1]["advice"] == "start it with `tupletree drpc`, or correct the key drpc.servers"


def test_tls_and_tokens(tmp_path: Path) -> None:
    Authority(tmp_path / "tls").prepare([], 90, False)
    secret = b"s" * 64
    write_private(tmp_path / "tls" / "secret", secret)
    keyring = Keyring("tupletree", secret)
    files = {f"tls.{name}": str(tmp_path / "tls" / file) for name, file in FILES.items()}
    conf = {**files, "security.tokens": True, "security.secret.file": str(tmp_path / "tls" / "secret")}
    with DrpcProcess(tmp_path / "server", **conf) as server:
        issue = {name: keyring.issue("ada", "user", roles=frozenset({name})) for name in ("call", "read", "submit")}

        def client(token: str | None) -> DRPCClient:
            return DRPCClient(server.address, {**files, "drpc.servers": None, "security.token": token})

        worker = keyring.issue("w", "worker", topology="t-1")
        tls = Tls(files["tls.ca"], files["tls.cert"], files["tls.key"])
        with channel(server.address, Security(tls, token=lambda: worker)) as opened:
            topology = Topology(opened)
            for role in ("call", "submit"):
                with client(issue[role]) as caller:
                    assert caller.execute("echo", role) == role
            with client(issue["read"]) as caller, pytest.raises(ForbiddenError, match=r"needs the role call or submit"):
                caller.execute("echo", 1)
            with client(None) as caller, pytest.raises(UnauthenticatedError, match=r"requires a token"):
                caller.execute("echo", 1)
            with pytest.raises(grpc.RpcError) as raised:
                Topology(opened, topology_id="t-2")
            assert raised.value.code() is grpc.StatusCode.PERMISSION_DENIED
            with DRPCClient(server.address) as caller, pytest.raises(Exception, match=r"does it expect TLS|lost"):
                caller.execute("echo", 1)
            _check_https(server, files["tls.ca"], issue)
            topology.close()


FILES = {"ca": "ca.crt", "cert": "cluster.crt", "key": "cluster.key"}


def _check_https(server: DrpcProcess, ca: str, issued: dict[str, str]) -> None:
    context = ssl.create_default_context(cafile=ca)
    for token, status in (("call", 200), ("read", 403), ("", 401)):
        connection = http.client.HTTPSConnection("127.0.0.1", server.http_port, timeout=10, context=context)
        headers = {"Authorization": f"Bearer {issued[token]}"} if token else {}
        connection.request("GET", "/drpc/echo/x", headers=headers)
        assert connection.getresponse().status == status
        connection.close()
