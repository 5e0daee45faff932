"""A removed topology in a secured cluster: who could see it sees its history and reads its logs, and nobody else."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from secured_topology import topology
from security_harness import Secured

from tupletree.cli.main import main
from tupletree.client import NimbusClient
from tupletree.errors import ForbiddenError, NotFoundError, UnavailableError
from tupletree.testing import DevCluster, wait_until

USERS = {
    "alice": ("submit",),  # the owner
    "bob": ("submit",),  # in topology.users
    "carol": (),  # in topology.readonly.users
    "dave": ("submit",),
    "erin": ("read",),
    "frank": ("admin",),
    "prometheus": ("metrics",),
}
READERS = {"alice", "bob", "carol", "erin", "frank"}


@dataclass(frozen=True)
class Past:
    """A secured cluster in which bob has killed alice's topology."""

    cluster: DevCluster
    secured: Secured
    topology_id: str

    def conf(self, user: str) -> dict[str, Any]:
        return {**self.cluster.conf, "security.token": self.secured.user(user, *USERS[user])}

    def client(self, user: str) -> NimbusClient:
        return NimbusClient(conf=self.conf(user))

    def get(self, user: str, path: str) -> Any:
        port = next(one.http_port for one in self.cluster.processes if one.role == "nimbus")
        headers = {"Authorization": f"Bearer {self.secured.user(user, *USERS[user])}", "Accept": "application/json"}
        request = urllib.request.Request(f"https://127.0.0.1:{port}/api/v1/{path}", headers=headers)
        context = self.secured.tls(None).client_context()
        with urllib.request.urlopen(request, timeout=20, context=context) as reply:
            return json.load(reply)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    secured = Secured.make(tmp_path_factory.mktemp("secured") / "tls")
    conf = {**secured.conf, "security.token": secured.user("operator", "admin")}
    with DevCluster(supervisors=1, slots=1, conf=conf) as cluster:
        site = Past(cluster, secured, "")
        acl = {"topology.users": ["bob"], "topology.readonly.users": ["carol"]}
        with site.client("alice") as client:
            topology_id = client.submit("numbers", topology(), acl, [Path(__file__).parent])
            wait_until(lambda: client.describe("numbers").summary.workers_ready == 1, 90)
        with site.client("bob") as client:
            client.kill("numbers", wait_secs=0)
            wait_until(client.history, 30)
        yield Past(cluster, secured, topology_id)


@pytest.mark.parametrize("user", USERS)
def test_the_history_and_the_logs_by_every_kind_of_user(past: Past, user: str) -> None:
    with past.client(user) as client:
        supervisor = past.cluster.client.cluster().supervisors[0].presence.address
        if user in READERS:
            [entry] = client.history("numbers")
            assert (entry.id, entry.owner, entry.killed_by) == (past.topology_id, "alice", "bob")
            assert (entry.users, entry.readers) == (("bob",), ("carol",))
            [file] = [one for one in client.list_logs(supervisor, past.topology_id) if one.name == "worker.log"]
            assert b"".join(one.data for one in client.tail_log(supervisor, past.topology_id, file.port))
            assert [one.id for one in client.history()] == [past.topology_id]
            with pytest.raises((NotFoundError, ForbiddenError, UnavailableError)):  # its process has ended, or is gone
                client.dump_stacks(supervisor, past.topology_id, file.port)
            return
        if user == "prometheus":
            with pytest.raises(ForbiddenError, match=r"may not GetLeader"):
                client.history()
        else:
            assert client.history() == ()
            with pytest.raises(NotFoundError, match=r"no removed topology with the name or id 'numbers'"):
                client.history("numbers")
        with pytest.raises(ForbiddenError, match=r"may not ListLogs topology 'numbers'"):
            client.list_logs(supervisor, past.topology_id)


@pytest.mark.parametrize("user", USERS)
def test_the_pages_by_every_kind_of_user(past: Past, user: str) -> None:
    worker = past.cluster.client.history("numbers")[0].workers[0]
    file = f"{past.topology_id}/{worker.port}/worker.log"
    paths = [f"history/{past.topology_id}", f"log?file={file}", f"listLogs?topoId={past.topology_id}"]
    if user in READERS:
        assert past.get(user, "history/summary")["topo-history"] == [past.topology_id]
        for path in paths:
            assert past.get(user, path)
        return
    for path in paths if user == "dave" else [*paths, "history/summary"]:
        with pytest.raises(urllib.error.HTTPError, match=r"403"):
            past.get(user, path)
    if user == "dave":
        assert past.get(user, "history/summary") == {"topo-history": [], "topologies": []}


def test_the_command_reads_the_logs_for_the_owner_alone(past: Past, tmp_path: Path, capsys: Any) -> None:
    def run(user: str) -> tuple[int, str]:
        conf = tmp_path / f"{user}.yaml"
        conf.write_text(json.dumps(past.conf(user)), encoding="utf-8")  # JSON is YAML
        status = main(["logs", "numbers", "--conf", str(conf)])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    status, out = run("alice")
    assert status == 0 and "worker." in out
    status, out = run("dave")
    assert (
        status == 1 and "may not DescribeTopology a topology that does not exist or that the caller may not see" in out
    )
