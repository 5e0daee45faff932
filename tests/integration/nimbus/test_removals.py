"""Removed topologies are remembered: once each, whoever leads, however a removal is interrupted, and only so many."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from nimbus_harness import Bench, NimbusProcess, report, send_report, topology

from tupletree._coord import paths
from tupletree._coord.leader import Create, LeaderElection, Write
from tupletree._coord.store import encode
from tupletree.errors import NotFoundError, UnavailableError
from tupletree.nimbus.leader import cluster_state, lifecycle
from tupletree.nimbus.leader.history import past_topology
from tupletree.nimbus.leader.planner import Remove
from tupletree.testing.wait import wait_until
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

pytestmark = pytest.mark.nightly


def error(component: str, message: str, at_unix_s: float = 1.0) -> pb.ComponentError:
    return pb.ComponentError(component_id=component, host="127.0.0.1", port=6700, message=message, at_unix_s=at_unix_s)


def get(nimbus: NimbusProcess, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{nimbus.http_port}/api/v1/{path}", timeout=10) as reply:
        return json.load(reply)


def test_a_topology_that_is_killed_is_remembered_by_the_next_leader_once(bench: Bench) -> None:
    leader = bench.leader("n1")
    standby = bench.nimbus("n2")
    registration = bench.register_supervisor("s1", 6700)
    client = bench.client(leader, standby)
    topology_id = client.submit("wc", topology(), {"topology.workers": 1})
    bench.await_assignment(topology_id, lambda one: one.workers)
    bench.store.report_error(topology_id, error("split", "ValueError: boom"))
    client.kill("wc", wait_secs=600)
    assert client.history() == ()
    with pytest.raises(NotFoundError, match=r"^no removed topology with the name or id 'wc' is remembered; "):
        client.history("wc")
    leader.kill()
    wait_until(standby.leads, 20)
    stats = rpc.TaskStats(task_id=3, component_id="split", executed=100, acked=100)
    told = report(topology_id, "s1", 6700, "w1", stats)
    wait_until(lambda: not send_report(standby, told).wants_all, 20, what="the next leader knows the worker")
    client.kill("wc", wait_secs=0)
    [short] = wait_until(client.history, 30, what="it is removed")
    assert client.list() == ()
    assert (short.id, short.name, short.errors, short.workers) == (topology_id, "wc", (), ())
    assert short.removed_unix_s > short.submitted_unix_s > 0
    for name in ("wc", topology_id):
        [found] = client.history(name)
        assert [(one.component_id, one.message) for one in found.errors] == [("split", "ValueError: boom")]
        assert [(one.host, one.port, one.supervisor_id) for one in found.workers] == [("127.0.0.1", 6700, "s1")]
        assert {one.component_id: one.executed for one in found.components} == {"lines": 0, "split": 100}
    assert bench.store.errors(topology_id) == [] and bench.store.topology(topology_id) is None
    registration.stop()


def test_only_so_many_are_remembered_and_pages_show_them(bench: Bench) -> None:
    leader = bench.leader("n1", "nimbus.topology.history.max=2")
    client = bench.client(leader)
    ids = []
    for _ in range(3):
        ids.append(client.submit("wc", topology()))
        client.kill("wc", wait_secs=0)
        wait_until(lambda: client.list() == ())
    running = client.submit("wc", topology())
    assert [one.id for one in client.history("wc")] == [ids[2], ids[1]]
    assert bench.store.past_topologies().keys() == set(ids[1:])
    page = get(leader, "history/summary")
    assert page["topo-history"] == [running, ids[2], ids[1]]
    assert [one["id"] for one in page["topologies"]] == [ids[2], ids[1]]
    assert get(leader, f"history/{ids[2]}")["components"][0]["component"] == "lines"
    for path in (f"history/{ids[0]}", f"history/{running}"):
        with pytest.raises(urllib.error.HTTPError, match=r"404") as refused:
            get(leader, path)
        assert "and none in the history" in json.load(refused.value)["errorMessage"]


def test_a_history_of_none_remembers_nothing_and_forgets_what_was_remembered(bench: Bench) -> None:
    old = pb.PastTopology(id="old-1-1700000000", name="old")
    leader = bench.leader("n1", "nimbus.topology.history.max=0")
    bench.session.create(paths.past_topology(bench.root, old.id), encode(old))
    client = bench.client(leader)
    client.submit("wc", topology())
    client.kill("wc", wait_secs=0)
    wait_until(lambda: client.list() == ())
    assert bench.store.past_topologies() == {}


class Interrupted:
    """An election whose leader loses ZooKeeper after some transactions."""

    def __init__(self, election: LeaderElection, transactions: int) -> None:
        self._election = election
        self._left = transactions

    def write(self, epoch: int, writes: Sequence[Write]) -> None:
        if not self._left:
            raise UnavailableError("interrupted")
        self._left -= 1
        self._election.write(epoch, writes)


@pytest.fixture
def election(bench: Bench) -> Iterator[LeaderElection]:
    one = LeaderElection(
        bench.session, bench.root, "n1", "127.0.0.1:1", on_elected=lambda _: None, on_deposed=lambda _: None
    )
    one.start()
    one.stand()
    wait_until(lambda: one.epoch is not None)
    yield one
    one.stop()


def test_a_removal_that_is_interrupted_leaves_one_entry_with_the_errors(bench: Bench, election: LeaderElection) -> None:
    components = [f"{number:03}-{'long' * 40}" for number in range(250)]  # too many nodes for one transaction
    record = pb.TopologyRecord(
        id="wc-1-1700000000", name="wc", status=lifecycle.KILLED, tasks=dict.fromkeys(components, 1)
    )
    epoch = election.epoch
    assert epoch is not None
    root = bench.root
    election.write(
        epoch,
        [
            Create(paths.topology(root, record.id), encode(record)),
            Create(paths.workers_of(root, record.id)),
            Create(paths.errors_of(root, record.id)),
            Create(paths.statistics_of(root, record.id)),
        ],
    )
    for one in components:
        folder = paths.errors_of_component(root, record.id, one)
        nodes = [Create(f"{folder}/e{n:010}", encode(error("split", f"{one} {n}", n))) for n in range(10)]
        election.write(epoch, [Create(folder), *nodes])

    def removal(removed_unix_s: float) -> Remove:
        return Remove(record.id, 0, "It is removed.", past_topology(record, None, removed_unix_s))

    with pytest.raises(UnavailableError, match=r"interrupted"):
        cluster_state.apply(bench.store, Interrupted(election, 1), epoch, removal(100.0), 10)  # type: ignore[arg-type]
    assert bench.store.topology(record.id) is not None
    assert len(bench.store.errors(record.id)) < 2500
    before = bench.store.past_topologies()[record.id].value
    cluster_state.apply(bench.store, election, epoch, removal(200.0), 10)
    assert bench.store.topology(record.id) is None and bench.store.errors(record.id) == []
    [(topology_id, after)] = bench.store.past_topologies().items()
    assert (topology_id, after.value) == (record.id, before)
    assert [one.at_unix_s for one in after.value.errors] == [9.0] * 10 and after.value.removed_unix_s == 100.0
