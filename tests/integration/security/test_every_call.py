"""Every call and page of a running cluster, by every kind of caller: exactly what the table of rights says."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from secured_site import ACL, ADMINS, CALLERS, METHODS, REFUSED, Site, acked, body, code_of, connected, status_of
from secured_topology import topology
from security_harness import Secured

from tupletree._coord.acls import open_nodes
from tupletree._coord.session import connect, disconnect
from tupletree._rpc.channels import channel
from tupletree._security.rights import CALLS, PAGES, Acl, Right, refusal
from tupletree.client import NimbusClient, StateClient
from tupletree.errors import ForbiddenError, NotFoundError, UnauthenticatedError, UsageError
from tupletree.nimbus.web.endpoint import PREFIX, Endpoint
from tupletree.nimbus.web.routes import ENDPOINTS
from tupletree.testing import DevCluster, wait_until
from tupletree.v1 import (
    nimbus_pb2,
    nimbus_pb2_grpc,
    supervisor_pb2,
    supervisor_pb2_grpc,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    secured = Secured.make(tmp_path_factory.mktemp("secured") / "tls")
    conf = {
        **secured.conf,
        "security.token": secured.user("operator", "admin"),
        "nimbus.admins": ADMINS,
        "zookeeper.auth.user": "tupletree",
        "zookeeper.auth.password": "a password for this test",
        "supervisor.worker.start.timeout.secs": 60,
    }
    with DevCluster(supervisors=1, slots=3, nimbuses=2, conf=conf) as cluster:
        acl = {
            "topology.users": ["bob"],
            "topology.readonly.users": ["carol"],
            "topology.max.spout.pending": 50,
            "topology.message.timeout.secs": 3600,
            "numbers.password": "hunter2",
            "topology.blobstore.map": {"numbers": {}},
        }
        ids = {}
        for key, name, owner in (("THIS", "numbers", "alice"), ("OTHER", "others", "dave")):
            with NimbusClient(conf={**cluster.conf, "security.token": secured.user(owner, "submit")}) as client:
                client.put_blob(name, __file__, users=["bob"], readonly_users=["carol"])
                ids[key] = client.submit(name, topology(), acl if key == "THIS" else {}, [Path(__file__).parent])
        for name in ("numbers", "others"):
            wait_until(lambda name=name: acked(cluster, name) > 0, 60, what=f"{name} acks")  # type: ignore[misc]
        found = {process.role: process for process in cluster.processes if process.topology_id in ("", ids["THIS"])}
        leader = int(cluster.client.leader().rpartition(":")[2])
        nimbuses = [process for process in cluster.processes if process.role == "nimbus"]
        found |= {("nimbus" if one.grpc_port == leader else "standby"): one for one in nimbuses}
        grpc_ports = {role: process.grpc_port for role, process in found.items()}
        made = Site(cluster, secured, ids, grpc_ports, {role: one.http_port for role, one in found.items()})
        yield made
        for one in made.channels.values():
            one.close()


@pytest.mark.long
def test_a_nimbus_that_does_not_lead_asks_the_leader_in_the_user_s_name(site: Site) -> None:
    token = site.token(site.principal("another user"))
    seen = body(site, f"{PREFIX}/topology/summary", token, "standby")
    assert "others" in seen and "numbers" not in seen
    path = f"{PREFIX}/topology/{site.ids['THIS']}"
    with connected(site, "standby") as connection:
        assert status_of(connection, path, token) == 403
        assert status_of(connection, path, None) == 401
        assert status_of(connection, path, site.token(site.principal("owner"))) == 200


@pytest.mark.long
def test_a_blob_is_in_the_list_of_those_alone_who_may_read_it(site: Site) -> None:
    def seen(name: str) -> dict[str, list[str]]:
        found = json.loads(body(site, f"{PREFIX}/blob/summary", site.token(site.principal(name))))["blobs"]
        return {one["key"]: one["topologies"] for one in found}

    assert seen("owner") == {"numbers": ["numbers"]}
    assert seen("topology.readonly.users") == {"numbers": ["numbers"], "others": []}
    assert seen("another user") == {"others": []}


def test_a_blob_is_seen_and_named_by_those_alone_who_may_read_it(site: Site) -> None:
    def seen(name: str) -> dict[str, tuple[str, ...]]:
        with site.client(name) as client:
            return {one.record.key: one.topologies for one in client.blobs()}

    assert seen("owner") == {"numbers": ("numbers",)}
    assert seen("topology.readonly.users") == {"numbers": ("numbers",), "others": ()}
    assert seen("another user") == {"others": ()}
    with site.client("another user") as client:
        unknown = r"^topology 'spy' names blob 'numbers' in .*, which does not exist, or which the caller may not read"
        with pytest.raises(UsageError, match=unknown):
            client.submit("spy", topology(), {"topology.blobstore.map": {"numbers": {}}}, [Path(__file__).parent])
        with pytest.raises(
            ForbiddenError, match=r"may not DescribeBlob blob 'numbers': the caller needs to be allowed to"
        ):
            client.get_blob("numbers", "/dev/null/taken")
        with pytest.raises(ForbiddenError, match=r"needs to be its owner, among its users, or an administrator$"):
            client.update_blob("numbers", __file__)


def test_logging_in_by_browser(site: Site) -> None:
    port = site.http_ports["nimbus"]

    def ask(method: str, path: str, form: str = "", **headers: str) -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=site.context)
        try:
            connection.request(
                method, path, form or None, {name.replace("_", "-"): one for name, one in headers.items()}
            )
            reply = connection.getresponse()
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read().decode()
        finally:
            connection.close()

    own = f"https://127.0.0.1:{port}"
    status, headers, _ = ask("GET", "/")
    assert (status, headers["location"]) == (303, "/login")
    assert '<form method="post" action="/login">' in ask("GET", "/login")[2]
    token = site.token(site.principal("owner"))
    assert ask("POST", "/login", f"token={token}")[0] == 403  # from nowhere in particular
    assert ask("POST", "/login", f"token={token}", Origin="https://evil.example")[0] == 403
    status, headers, text = ask("POST", "/login", "token=%3Cscript%3E", Origin=own)
    assert status == 401 and "set-cookie" not in headers and "is malformed" in text and "<script>" not in text
    status, headers, _ = ask("POST", "/login", f"token={token}", Origin=own)
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" in cookie
    shown = cookie.partition(";")[0]
    assert ask("GET", "/", Cookie=shown)[0] == 200
    assert ask("GET", f"{PREFIX}/topology/{site.ids['THIS']}", Cookie=shown)[0] == 200
    assert ask("GET", f"{PREFIX}/topology/{site.ids['OTHER']}", Cookie=shown)[0] == 403
    script = f"{PREFIX}/topology/{site.ids['THIS']}?callback=take"  # what a page at another port could include
    assert ask("GET", script, Cookie=shown)[0] == 403
    assert ask("GET", script, Cookie=shown, Authorization=f"Bearer {token}")[2].startswith("/**/take(")
    deactivate = f"{PREFIX}/topology/{site.ids['THIS']}/activate"
    assert ask("POST", deactivate, Cookie=shown)[0] == 403  # as a foreign page would have it sent
    assert ask("POST", deactivate, Cookie=shown, Origin=own)[0] == 200
    status, headers, _ = ask("POST", "/logout", Cookie=shown, Origin=own)
    assert status == 303 and "Max-Age=0" in headers["set-cookie"]
    done = [one for one in site.audit() if one["operation"] == f"POST {PREFIX}/topology/{{id}}/activate"]
    assert {one["outcome"] for one in done if one["who"] == "alice"} >= {"done"}


def test_the_verdict_has_reasons_about_the_topologies_only_that_one_may_see(site: Site) -> None:
    def told(name: str) -> tuple[set[str], set[str]]:
        """The topologies that reasons are about: over HTTP and over gRPC."""
        page = json.loads(body(site, f"{PREFIX}/cluster/health", site.token(site.principal(name))))
        with site.client(name) as client:
            reply = client.health()
        return (
            {one["topologyId"] for one in (*page["faults"], *page["notes"])} - {""},
            {one.topology_id for one in (*reply.faults, *reply.notes)} - {""},
        )

    this, other = ({site.ids[name]} for name in ("THIS", "OTHER"))
    with site.client("administrator") as client:  # which is worth a note
        client.deactivate("numbers")
        client.deactivate("others")
    try:
        wait_until(lambda: told("reads everything") == (this | other, this | other), 30)
        assert told("owner") == told("topology.readonly.users") == (this, this)
        assert told("another user") == (other, other)
        text = body(site, f"{PREFIX}/cluster/health", site.token(site.principal("another user")))
        assert "numbers" not in text and "others" in text
    finally:
        with site.client("administrator") as client:
            client.activate("numbers")
            client.activate("others")


@pytest.mark.parametrize("role", ["nimbus", "supervisor", "acker", "worker"])
@pytest.mark.parametrize("path", sorted(PAGES))
def test_a_page_by_every_kind_of_caller(site: Site, role: str, path: str) -> None:
    judged, expected = {}, {}
    with connected(site, role) as connection:
        for name in CALLERS:
            judged[name] = status_of(connection, path, site.token(site.principal(name))) in (401, 403)
    for name in CALLERS:
        who = site.principal(name)
        is_unknown_key = role == "worker" and who is not None and who.kind != "worker" and who.roles != {"metrics"}
        is_open = PAGES[path].right is Right.OPEN
        is_other = role == "worker" and name == "worker of another topology"
        expected[name] = (
            not is_open if is_unknown_key or is_other else refusal(who, PAGES[path], "page", ADMINS) is not None
        )
        if role == "nimbus" and path in ("/ledger", "/functions", "/drpc/"):
            expected[name] = False  # nimbus has none, and says so to everybody
    assert judged == expected


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_a_call_by_every_kind_of_caller(site: Site, method: str) -> None:
    row = CALLS[method]
    named: Acl | str = site.ids["THIS"] if row.right is Right.WORKER else ACL
    judged = {}
    expected = {}
    for name in CALLERS:
        who = site.principal(name)
        code = code_of(site, method, name)
        assert code is not grpc.StatusCode.DEADLINE_EXCEEDED, name
        judged[name] = code in REFUSED
        expected[name] = refusal(who, row, "call", ADMINS, named) is not None
    assert judged == expected


FILLED = {"{wait}": "3600", "{component}": "sink", "{hostPort}": "nowhere:1", "{action}": "disable", "{file}": "x.svg"}


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: one.operation)
def test_a_path_by_every_kind_of_caller(site: Site, endpoint: Endpoint) -> None:
    row, method, path = endpoint.row, endpoint.method, PREFIX + endpoint.path
    place = "wait" if "/kill/" in path or "/rebalance/" in path else ""
    for name, value in {**FILLED, "{samplingPct}": "0", "{timeout}": "1", "{id}": site.ids["THIS"]}.items():
        path = path.replace(name, value)
    if row.by == "file":
        path += f"?file={site.ids['THIS']}/{site.grpc_ports['worker']}/worker.log"
    elif row.by == "topoId":
        path += f"?topoId={site.ids['THIS']}"
    judged, expected = {}, {}
    with connected(site, "nimbus") as connection:
        for name in CALLERS:
            who = site.principal(name)
            judged[name] = status_of(connection, path, site.token(who), method) in (401, 403)
            expected[name] = refusal(who, row, place, ADMINS, ACL if row.by else None) is not None
    assert judged == expected


def test_another_s_topology_is_not_in_any_page_of_the_cluster(site: Site) -> None:
    token = site.token(site.principal("another user"))
    for path in ("topology/summary", "cluster/overview", "owner-resources", "history/summary"):
        text = body(site, f"{PREFIX}/{path}", token)
        assert "others" in text or "dave" in text, path
        assert "numbers" not in text and "alice" not in text, path
    everything = body(site, f"{PREFIX}/topology/summary", site.token(site.principal("reads everything")))
    assert "numbers" in everything and "others" in everything
    readers = body(site, f"{PREFIX}/topology/summary", site.token(site.principal("topology.readonly.users")))
    assert "numbers" in readers and "others" not in readers  # and not out of what was built for somebody else


def test_prometheus_finds_the_workers_of_all_topologies(site: Site) -> None:
    def found() -> set[str]:
        entries = json.loads(body(site, f"{PREFIX}/prometheus/targets", site.token(site.principal("metrics"))))
        return {one["labels"].get("__meta_tupletree_topology", "") for one in entries}

    wait_until(lambda: found() >= {"numbers", "others"}, 30, what="the workers of both topologies are targets")
    assert "others" not in body(site, f"{PREFIX}/topology/summary", site.token(site.principal("owner")))


def test_no_password_of_a_topology_leaves_nimbus(site: Site) -> None:
    with site.client("reads everything") as client:
        seen = client.describe("numbers").summary.record.conf
        listed = [one.raw for one in client.list() if one.record.name == "numbers"]
    assert seen["numbers.password"] == "*****"
    assert "hunter2" not in str(listed)


def test_a_worker_gives_no_life_sign_for_another_topology_s(site: Site) -> None:
    with site.client("administrator") as client:
        worker = client.describe("numbers").workers[0]
    token = site.token(site.principal("worker of another topology"))
    with channel(f"127.0.0.1:{site.grpc_ports['supervisor']}", site.secured.client(token)) as opened:
        request = supervisor_pb2.BeatRequest(worker_id=worker.worker_id, topology_id=site.ids["OTHER"], ready=True)
        with pytest.raises(grpc.RpcError) as refused:
            supervisor_pb2_grpc.SupervisorStub(opened).Beat(request, timeout=20)
    assert isinstance(refused.value, grpc.Call)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_nimbus_asks_the_workers_of_a_state_for_those_who_may_see_the_topology(site: Site) -> None:
    for name, kind in (
        ("owner", NotFoundError),
        ("topology.readonly.users", NotFoundError),
        ("reads everything", NotFoundError),
        ("another user", ForbiddenError),
        ("metrics", ForbiddenError),
    ):
        conf = {**site.cluster.conf, "security.token": site.token(site.principal(name))}
        with StateClient(conf=conf) as states, pytest.raises(kind) as refused:
            states.get("numbers", "sink", "a key")
        if kind is NotFoundError:  # which a worker of the topology says
            assert str(refused.value) == "component 'sink' has no state"


def test_a_request_that_is_too_large_is_refused(site: Site) -> None:
    token = site.token(site.principal("worker"))
    with channel(f"127.0.0.1:{site.grpc_ports['nimbus']}", site.secured.client(token)) as opened:
        report = nimbus_pb2.WorkerReport(topology_id=site.ids["THIS"], host="x" * (17 * 1024 * 1024))
        with pytest.raises(grpc.RpcError) as refused:
            list(nimbus_pb2_grpc.NimbusStub(opened).ReportWorker(iter([report]), timeout=60))
        assert isinstance(refused.value, grpc.Call)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        header = (("x-much", "y" * 40_000),)
        with pytest.raises(grpc.RpcError) as refused:
            nimbus_pb2_grpc.NimbusStub(opened).GetLeader(nimbus_pb2.GetLeaderRequest(), timeout=60, metadata=header)


def test_a_list_shows_only_what_its_reader_may_see(site: Site) -> None:
    seen = {}
    for name in ("owner", "topology.readonly.users", "another user", "reads everything", "nimbus.admins"):
        with site.client(name) as client:
            seen[name] = {one.record.name for one in client.list()}
    assert seen == {
        "owner": {"numbers"},
        "topology.readonly.users": {"numbers"},
        "another user": {"others"},
        "reads everything": {"numbers", "others"},
        "nimbus.admins": {"numbers", "others"},
    }


def test_the_owner_is_whoever_submits_whatever_they_claim(site: Site) -> None:
    with site.client("reads everything") as client:
        owners = {one.record.name: one.record.owner for one in client.list()}
    assert owners == {"numbers": "alice", "others": "dave"}


def test_a_client_is_told_in_one_sentence(site: Site) -> None:
    with site.client("another user") as client, pytest.raises(ForbiddenError) as refused:
        client.kill("numbers")
    assert str(refused.value) == (
        "user 'dave' may not Kill topology 'numbers': "
        "the caller needs to be its owner, in its topology.users, or an administrator"
    )
    nameless = NimbusClient(conf={**site.cluster.conf, "security.token": None})
    with nameless as client, pytest.raises(UnauthenticatedError, match="requires a token, and none was sent"):
        client.list()


def test_what_changes_something_and_what_is_refused_is_in_the_audit_log(site: Site) -> None:
    with site.client("another user") as client, pytest.raises(ForbiddenError):
        client.deactivate("numbers")
    with site.client("owner") as client:
        client.list()
    found = site.audit()
    submitted = [one for one in found if one["operation"] == "Submit" and one["outcome"] == "done"]
    assert {(one["who"], one["topology"]) for one in submitted} == {("alice", "numbers"), ("dave", "others")}
    refused = [one for one in found if one["operation"] == "Deactivate" and one["who"] == "dave"][-1]
    assert refused["outcome"] == "refused" and "may not Deactivate" in refused["why"]
    assert refused["from"].startswith("ipv4:127.0.0.1:") and refused["topology"] == "numbers"
    assert not [one for one in found if one["operation"] == "ListTopologies" and one["outcome"] == "done"]
    for path in Path(site.cluster.directory).glob("*/logs/*audit.log"):
        assert path.stat().st_mode & 0o077 == 0


def test_nothing_of_the_cluster_in_zookeeper_is_open(site: Site) -> None:
    conf = site.cluster.conf
    client = connect(conf)
    try:
        assert open_nodes(client, str(conf["zookeeper.root"])) == []
    finally:
        disconnect(client)


def test_the_secret_is_in_nothing_that_a_worker_gets(site: Site) -> None:
    secret = (site.secured.directory / "secret").read_text().strip()
    launches = list(Path(site.cluster.directory).glob("supervisor-0/data/workers/*/launch.json"))
    assert launches
    for path in launches:
        text = path.read_text(encoding="utf-8")
        assert secret not in text and str(site.secured.directory / "secret") not in text
        assert path.stat().st_mode & 0o077 == 0
