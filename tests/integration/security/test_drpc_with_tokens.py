"""The rights of single DRPC functions on a cluster with tokens: callers over gRPC and HTTP, and serving topologies."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from security_harness import Secured

from tupletree import Topology, TopologyBuilder
from tupletree._rpc.channels import channel
from tupletree.client import NimbusClient
from tupletree.drpc import DRPCClient, DRPCSpout, ReturnResults
from tupletree.errors import ForbiddenError
from tupletree.testing import DevCluster, wait_until
from tupletree.v1 import drpc_pb2, drpc_pb2_grpc

FUNCTIONS: dict[str, Any] = {
    "score": {"users": ["alice", "web"], "owners": ["alice"]},
    "free": None,
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured.make(tmp_path_factory.mktemp("drpc") / "tls")


@pytest.fixture(scope="module")
def cluster(secured: Secured) -> Iterator[DevCluster]:
    own = {"security.token": secured.user("operator", "admin"), "drpc.functions": FUNCTIONS}
    conf = {**secured.conf, **own, "drpc.functions.strict": True}
    with DevCluster(slots=2, drpc_servers=1, conf=conf) as running:
        submit(running, secured, "alice", echoing("score"))
        submit(running, secured, "bob", echoing("free"))
        wait_until(lambda: served(running, secured, "score", "free"), 60, what="both functions are served")
        yield running


def echoing(function: str) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("requests", DRPCSpout(function))
    builder.set_bolt("answers", ReturnResults()).shuffle_grouping("requests")
    return builder.create_topology()


def submit(cluster: DevCluster, secured: Secured, user: str, topology: Topology) -> str:
    with NimbusClient(conf={**cluster.conf, "security.token": secured.user(user, "submit")}) as client:
        return client.submit(f"of-{user}", topology, {"topology.workers": 1})


def caller(cluster: DevCluster, secured: Secured, user: str, *roles: str) -> DRPCClient:
    return DRPCClient(conf={**cluster.conf, "security.token": secured.user(user, *roles)})


def served(cluster: DevCluster, secured: Secured, *functions: str) -> bool:
    return all(f'"{name}"' in ask(cluster, secured, "root", "/functions", "admin")[1] for name in functions)


def ask(cluster: DevCluster, secured: Secured, user: str, path: str, *roles: str) -> tuple[int, str]:
    (port,) = [one.http_port for one in cluster.processes if one.role == "drpc"]
    context = ssl.create_default_context(cafile=secured.conf["tls.ca"])
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {secured.user(user, *roles)}"})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("user", "role", "function"),
    [("alice", "call", "score"), ("web", "call", "score"), ("bob", "submit", "free"), ("root", "admin", "score")],
)
def test_who_may_call_is_answered(cluster: DevCluster, secured: Secured, user: str, role: str, function: str) -> None:
    with caller(cluster, secured, user, role) as client:
        assert client.execute(function, "x", timeout_s=20) == "x"
    assert ask(cluster, secured, user, f"/drpc/{function}/x", role) == (200, "x")


def test_others_are_refused(cluster: DevCluster, secured: Secured) -> None:
    sentence = "user 'bob' may not call function 'score': they are not among its users in drpc.functions"
    with caller(cluster, secured, "bob", "call") as client, pytest.raises(ForbiddenError) as raised:
        client.execute("score", "x", timeout_s=20)
    assert str(raised.value) == sentence
    assert ask(cluster, secured, "bob", "/drpc/score/x", "call") == (403, f"{sentence}\n")

    async def awaited() -> Any:
        async with caller(cluster, secured, "bob", "call") as client:
            return await client.execute_async("score", "x", timeout_s=20)

    with pytest.raises(ForbiddenError, match=r"not among its users in drpc.functions"):
        asyncio.run(awaited())


def test_an_open_connection_counts_for_the_caller_of_each_request(cluster: DevCluster, secured: Secured) -> None:
    """Who was allowed first does not lend the connection to the next."""
    (port,) = [one.http_port for one in cluster.processes if one.role == "drpc"]
    context = ssl.create_default_context(cafile=secured.conf["tls.ca"])
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    found = []
    for user in ("alice", "bob", "alice"):
        connection.request("GET", "/drpc/score/x", headers={"Authorization": f"Bearer {secured.user(user, 'call')}"})
        reply = connection.getresponse()
        reply.read()
        found.append(reply.status)
    connection.close()
    assert found == [200, 403, 200]


def test_one_call_alone_is_refused_too(cluster: DevCluster, secured: Secured) -> None:
    with channel(cluster.conf["drpc.servers"][0], secured.client(secured.user("bob", "call"))) as opened:
        stub = drpc_pb2_grpc.DrpcStub(opened)
        with pytest.raises(grpc.RpcError) as raised:
            stub.Execute(drpc_pb2.ExecuteRequest(function="score", args=b"1"), timeout=20)
    assert raised.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "not among its users in drpc.functions" in str(raised.value.details())


def test_a_function_without_an_entry_is_for_administrators(cluster: DevCluster, secured: Secured) -> None:
    sentence = r"add 'unknown' to drpc.functions, since drpc.functions.strict is set"
    with caller(cluster, secured, "bob", "call") as client, pytest.raises(ForbiddenError, match=sentence):
        client.execute("unknown", timeout_s=20)


def test_anothers_topology_serves_nothing(cluster: DevCluster, secured: Secured) -> None:
    """A worker of bob's topology asks for requests of alice's function."""
    (bobs,) = [one for one in cluster.client.list() if one.record.name == "of-bob"]
    token = secured.keyring.issue("w", "worker", topology=bobs.record.id)
    hello = drpc_pb2.ServeRequest(
        hello=drpc_pb2.ServeHello(topology_id=bobs.record.id, function="score", max_in_flight=1)
    )
    server = cluster.conf["drpc.servers"][0]
    with channel(server, secured.client(token)) as opened, pytest.raises(grpc.RpcError) as raised:
        next(drpc_pb2_grpc.DrpcStub(opened).Serve(iter([hello])))
    assert raised.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "its owner 'bob' is not among the owners in drpc.functions" in str(raised.value.details())
