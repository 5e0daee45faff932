"""A secured cluster with two topologies, its callers, and how one of them calls."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import message_factory
from security_harness import Secured

from tupletree._rpc.channels import channel
from tupletree._security.rights import CALLS, Acl, Principal, Row
from tupletree.client import NimbusClient, SupervisorSlots, TopologyStatus
from tupletree.testing import DevCluster, wait_until
from tupletree.v1 import (
    acker_pb2,
    nimbus_pb2,
    supervisor_pb2,
    worker_pb2,
)

ADMINS = ["root"]

REFUSED = {grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED}

ACL = Acl("'numbers'", "alice", frozenset({"bob"}), frozenset({"carol"}))

SERVICES = {
    service.full_name: service
    for module in (nimbus_pb2, supervisor_pb2, acker_pb2, worker_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
}

METHODS = sorted(f"/{name}/{method.name}" for name, service in SERVICES.items() for method in service.methods)
# What is left of the topology after it, if anything, comes last.
METHODS.sort(key=lambda name: (name.endswith(("/Kill", "/RestartWorker")), name.endswith("/Kill")))

CALLERS: dict[str, Principal | None] = {
    "nobody": None,
    "owner": Principal("alice", "user", frozenset({"submit"})),
    "owner's read-only token": Principal("alice", "user", frozenset({"read"})),
    "topology.users": Principal("bob", "user", frozenset({"submit"})),
    "topology.readonly.users": Principal("carol", "user"),
    "another user": Principal("dave", "user", frozenset({"submit"})),
    "reads everything": Principal("erin", "user", frozenset({"read"})),
    "administrator": Principal("frank", "user", frozenset({"admin"})),
    "nimbus.admins": Principal("root", "user", frozenset({"submit"})),
    "metrics": Principal("prometheus", "user", frozenset({"metrics"})),
    "daemon": Principal("supervisor", "daemon"),
    "worker": Principal("w", "worker", frozenset(), "THIS"),
    "worker of another topology": Principal("w", "worker", frozenset(), "OTHER"),
}


@dataclass(frozen=True)
class Site:
    """A secured cluster with two topologies, and where its daemons listen."""

    cluster: DevCluster
    secured: Secured
    ids: Mapping[str, str]
    grpc_ports: Mapping[str, int]
    http_ports: Mapping[str, int]
    channels: dict[tuple[str, str], grpc.Channel] = field(default_factory=dict)

    @cached_property
    def context(self) -> ssl.SSLContext:
        """What a client of the pages trusts."""
        return self.secured.tls(None).client_context()

    def channel(self, role: str, caller: str) -> grpc.Channel:
        """The channel of a caller to a daemon, which is closed with the site: opening one takes longer than a call."""
        if (role, caller) not in self.channels:
            security = self.secured.client(self.token(self.principal(caller)))
            self.channels[role, caller] = channel(f"127.0.0.1:{self.grpc_ports[role]}", security)
        return self.channels[role, caller]

    def principal(self, name: str) -> Principal | None:
        who = CALLERS[name]
        if who is None or who.kind != "worker":
            return who
        return Principal(who.name, "worker", frozenset(), self.ids[who.topology])

    def token(self, who: Principal | None) -> str | None:
        if who is None:
            return None
        return self.secured.keyring.issue(who.name, who.kind, roles=who.roles, topology=who.topology)

    def client(self, name: str) -> NimbusClient:
        conf = {**self.cluster.conf, "security.token": self.token(self.principal(name))}
        return NimbusClient(conf=conf, leader_timeout_s=5)

    def audit(self) -> list[dict[str, Any]]:
        lines = [
            line
            for path in Path(self.cluster.directory).glob("*/logs/*audit.log*")
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        return [json.loads(line) for line in lines]


def acked(cluster: DevCluster, name: str) -> int:
    return sum(one.total.acked for one in cluster.client.describe(name).components if one.component_id == "numbers")


def wait_until_it_has_much_to_do(site: Site) -> None:
    """The calls before deactivated it and started its worker anew. With nothing in flight it would end at once."""
    client = site.cluster.client
    [record] = [one.record for one in client.list() if one.record.name == "numbers"]
    if record.status == TopologyStatus.KILLED:
        return
    client.activate("numbers")
    supervisor = f"127.0.0.1:{site.grpc_ports['supervisor']}"
    wait_until(lambda: is_running(client.slots(supervisor), record.id), 60, what="its worker runs")
    before = acked(site.cluster, "numbers")
    wait_until(lambda: acked(site.cluster, "numbers") > before, 60, what="numbers acks anew")


def is_running(reply: SupervisorSlots, topology_id: str) -> bool:
    return {slot.state for slot in reply.slots if slot.topology_id == topology_id} == {"running"}


def role_of(method: str) -> str:
    return method.split("/")[1].rpartition(".")[2].lower()


def request_of(site: Site, method: Any, row: Row) -> Any:
    """The smallest request that names the topology as the row says."""
    request = message_factory.GetMessageClass(method.input_type)()
    part = getattr(request, row.part) if row.part else request
    if row.part:
        part.SetInParent()
    named = {"name": "numbers", "key": "numbers", "topology_id": site.ids["THIS"], "port": site.grpc_ports["worker"]}
    if row.by:
        setattr(part, row.by, named[row.by])
    if method.name == "Kill":
        wait_until_it_has_much_to_do(site)
        request.wait_s = 3600
    elif method.name == "Rebalance":
        request.wait_s = 0
    elif method.name == "Track":
        part.worker_id, part.shards = "w", 1
    elif method.name == "DropTopology":
        request.topology_id = "none-0-0"
    return request


def code_of(site: Site, full_name: str, caller: str) -> grpc.StatusCode:
    """How one call ends."""
    service, _, name = full_name[1:].rpartition("/")
    method = SERVICES[service].methods_by_name[name]
    request = request_of(site, method, CALLS[full_name])
    kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    role = role_of(full_name)
    if role == "worker" and (opened := site.channels.pop((role, caller), None)) is not None:
        opened.close()  # a call before may have restarted it
    reply_class = message_factory.GetMessageClass(method.output_type)
    call = getattr(site.channel(role, caller), kind)(
        full_name, request_serializer=type(request).SerializeToString, response_deserializer=reply_class.FromString
    )
    try:
        reply = call(iter([request]) if method.client_streaming else request, timeout=20)
        if method.server_streaming:
            list(reply)
    except grpc.RpcError as error:
        assert isinstance(error, grpc.Call)
        assert "Traceback" not in (error.details() or "")
        return error.code()
    return grpc.StatusCode.OK


@contextmanager
def connected(site: Site, role: str) -> Iterator[http.client.HTTPSConnection]:
    """A connection to a daemon's pages."""
    connection = http.client.HTTPSConnection("127.0.0.1", site.http_ports[role], timeout=20, context=site.context)
    try:
        yield connection
    finally:
        connection.close()


def body(site: Site, path: str, token: str | None, role: str = "nimbus") -> str:
    with connected(site, role) as connection:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().read().decode()


def status_of(connection: http.client.HTTPSConnection, path: str, token: str | None, method: str = "GET") -> int:
    """The status of a page; the connection serves for the next."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connection.request(method, path, headers={**headers, "X-Requested-With": "test"})
    reply = connection.getresponse()
    reply.read()
    return reply.status
