"""States in a secured cluster: who sees sizes, writes and asks workers, and savepoints that nimbus takes for others."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from security_harness import Secured

from tupletree import BasicStatefulBolt, Spout, TopologyBuilder
from tupletree._security.tickets import issue_ticket
from tupletree.client import NimbusClient, StateAnswer, StateClient
from tupletree.client.worker_connections import Connection, UnreachableError
from tupletree.errors import ForbiddenError, TupletreeError
from tupletree.testing import DevCluster, wait_until
from tupletree.v1 import nimbus_pb2

pytestmark = pytest.mark.nightly

NAME = "of-alice"


class Words(Spout):
    outputs = ["word"]

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.left = collector, ["apple", "pear"]

    def next_tuple(self) -> None:
        if self.left:
            self.collector.emit([self.left.pop()])


class Count(BasicStatefulBolt):
    default_factory = int

    def execute(self, tup: Any) -> None:
        self.state[tup["word"]] += 1


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured.make(tmp_path_factory.mktemp("states") / "tls")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("savepoints")


@pytest.fixture(scope="module")
def cluster(secured: Secured, folder: Path) -> Iterator[DevCluster]:
    own = {"security.token": secured.user("operator", "admin"), "nimbus.savepoints.address": str(folder)}
    with DevCluster(slots=1, conf={**secured.conf, **own}) as running:
        builder = TopologyBuilder()
        builder.set_spout("words", Words())
        builder.set_bolt("count", Count()).fields_grouping("words", ["word"])
        conf = {**running.conf, "security.token": secured.user("alice", "submit")}
        with NimbusClient(conf=conf) as client:
            client.submit(NAME, builder.create_topology(), {"topology.state.checkpoint.interval.ms": 300})
        with StateClient(conf=conf) as states:
            wait_until(lambda: entries(states) == 2, 60, what="the words are committed")
        yield running


def entries(states: StateClient) -> int:
    try:
        return len(states.scan(NAME, "count").entries)
    except TupletreeError:  # no worker runs yet
        return 0


def ask(cluster: DevCluster, secured: Secured, who: tuple[str, ...], path: str, body: Any = None) -> tuple[int, Any]:
    port = next(one.http_port for one in cluster.processes if one.role == "nimbus")
    topology = cluster.client.describe(NAME).summary.record.id
    headers = {"Authorization": f"Bearer {secured.user(*who)}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"https://127.0.0.1:{port}/api/v1/topology/{topology}/{path}", data, headers)
    context = secured.tls("client").client_context()
    assert isinstance(context, ssl.SSLContext)
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["errorMessage"]


ALICE, BOB, READER = ("alice", "submit"), ("bob", "submit"), ("carol", "read")
PUT = {"entries": [{"key": "apple", "value": 5}]}


def test_who_may_see_the_topology_sees_sizes_and_who_may_change_it_writes(
    cluster: DevCluster, secured: Secured
) -> None:
    assert [ask(cluster, secured, who, "states")[0] for who in (ALICE, READER, BOB)] == [200, 200, 403]
    path = "component/count/state/put"
    assert [ask(cluster, secured, who, path, PUT)[0] for who in (BOB, READER)] == [403, 403]
    assert ask(cluster, secured, ALICE, path, PUT)[0] == 200
    found = ask(cluster, secured, READER, "component/count/state?key=apple")[1]["entries"]
    assert [one["value"] for one in found] == [5]


class Counting(StateClient):
    """Counts the questions that go through nimbus."""

    through_nimbus = 0

    def _ask(self, *arguments: Any, **fields: Any) -> StateAnswer:
        self.through_nimbus += 1
        return super()._ask(*arguments, **fields)


def client_of(cluster: DevCluster, secured: Secured, who: tuple[str, ...], **conf: Any) -> Counting:
    return Counting(conf={**cluster.conf, "security.token": secured.user(*who), **conf})


def is_direct(states: Counting) -> bool:
    before = states.through_nimbus
    assert [one.key for one in states.get(NAME, "count", "pear").entries] == ["pear"]
    return states.through_nimbus == before


def test_who_may_see_the_topology_asks_its_workers(cluster: DevCluster, secured: Secured) -> None:
    for who in (ALICE, READER):
        with client_of(cluster, secured, who) as states:
            wait_until(lambda states=states: is_direct(states), 30, what="a worker is asked")  # type: ignore[misc]
    with client_of(cluster, secured, BOB) as states:
        for _ in range(3):
            with pytest.raises(ForbiddenError, match=r"^user 'bob' may not ReadState topology 'of-alice'"):
                states.get(NAME, "count", "pear")
        with pytest.raises(ForbiddenError, match=r"^user 'bob' may not LocateState topology 'of-alice'"):
            states._locate(NAME, "count")


def test_a_worker_takes_the_tickets_of_nimbus_alone(cluster: DevCluster, secured: Secured) -> None:
    with client_of(cluster, secured, ALICE) as states:
        given = states._locate(NAME, "count")
        [place], tls = given.places, states._tls()
        Connection(place, given, "count", tls).close()
        topology = given.topology_id
        other = Secured.make(Path(cluster.directory) / "other").keyring
        with pytest.raises(ForbiddenError):  # a ticket is no token
            client_of(cluster, secured, ALICE, **{"security.token": given.ticket}).get(NAME, "count", "pear")
        for ticket in (
            "",
            secured.user(*ALICE),
            secured.user("operator", "admin"),
            secured.keyring.issue("w", "worker", topology=topology),
            issue_ticket(other, "alice", topology, "count", time.time()),
            issue_ticket(secured.keyring, "alice", topology, "count", time.time() - 3600),
            issue_ticket(secured.keyring, "alice", topology, "words", time.time()),
            issue_ticket(secured.keyring, "alice", "other-1-1", "count", time.time()),
        ):
            shown = nimbus_pb2.LocateStateReply(topology_id=topology, ticket=ticket)
            with pytest.raises(ConnectionRefusedError, match=r"^worker at .* refuses the connection$"):
                Connection(place, shown, "count", tls)


def test_a_worker_that_cannot_be_trusted_or_reached_is_asked_through_nimbus(
    cluster: DevCluster, secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client_of(cluster, secured, ALICE) as states:
        foreign = Secured.make(Path(cluster.directory) / "foreign").tls(None).client_context()
        monkeypatch.setattr(states._direct, "_tls", lambda: foreign)
        assert not any(is_direct(states) for _ in range(3))
        assert states.through_nimbus == 3
        given = states._locate(NAME, "count")
    with pytest.raises(UnreachableError, match="certificate verify failed"):
        Connection(given.places[0], given, "count", foreign)
    with pytest.raises(UnreachableError, match=r"^worker at .* cannot be reached: "):
        Connection(nimbus_pb2.StatePlace(host="nowhere.invalid", http_port=1), given, "count", None)


def test_nimbus_takes_a_savepoint_with_a_token_of_its_own(cluster: DevCluster, secured: Secured, folder: Path) -> None:
    assert [ask(cluster, secured, who, "savepoint", {"to": "a"})[0] for who in (BOB, READER)] == [403, 403]
    status, begun = ask(cluster, secured, ALICE, "savepoint", {"to": "a"})
    assert (status, begun["state"]) == (200, "running")

    def state() -> str:
        found: str = ask(cluster, secured, READER, "savepoint")[1]["state"]
        return found

    wait_until(lambda: state() != "running", 60, what="the savepoint has ended")
    done = ask(cluster, secured, READER, "savepoint")[1]
    assert (done["state"], done["failure"], done["entries"]) == ("done", "", {"count": 2})
    assert (folder / NAME / "a" / "savepoint.json").exists()
    assert list(folder.rglob("token")) == []
