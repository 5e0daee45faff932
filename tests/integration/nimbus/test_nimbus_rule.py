"""A leader at work: operators' requests, workers and ackers that die, statistics, errors."""

from __future__ import annotations

import json
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from nimbus_harness import Bench, Daemon, NimbusProcess, report, send_report, topology

from tupletree._coord import paths
from tupletree._rpc.channels import channel
from tupletree.client import ComponentStats, TopologyStatus
from tupletree.errors import NameInUseError, NotFoundError, UsageError
from tupletree.testing.wait import wait_until
from tupletree.v1 import acker_pb2
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb
from tupletree.v1.acker_pb2_grpc import AckerStub


@pytest.fixture
def name(leader: NimbusProcess) -> str:
    """A topology name of the test's own."""
    return f"wc-{uuid.uuid4().hex[:8]}"


def slots_of(assignment: pb.Assignment) -> list[tuple[str, int, int]]:
    return [(one.supervisor_id, one.port, len(one.executors)) for one in assignment.workers]


def test_activate_deactivate_and_unknown_names(shared: Bench, leader: NimbusProcess, name: str) -> None:
    client = shared.client(leader)
    client.submit(name, topology())
    assert client.deactivate(name).status == TopologyStatus.INACTIVE
    assert client.deactivate(name).status == TopologyStatus.INACTIVE
    assert client.activate(name).status == TopologyStatus.ACTIVE
    for call in (client.kill, client.activate, client.deactivate, client.rebalance, client.describe):
        with pytest.raises(NotFoundError, match="no topology named 'nobody'"):
            call("nobody")
    with pytest.raises(UsageError, match="has no component 'nope'"):
        client.rebalance(name, executors={"nope": 1})
    client.kill(name, wait_secs=0)


def test_a_kill_waits_is_rearmed_and_removes_everything(shared: Bench, leader: NimbusProcess, name: str) -> None:
    client = shared.client(leader)
    registration = shared.register_supervisor("silent", 1)  # nothing starts there, so nothing says that it is done
    topology_id = client.submit(name, topology(), {"topology.message.timeout.secs": 40})
    shared.await_assignment(topology_id, lambda one: bool(slots_of(one)))
    store = shared.store
    store.put_worker_presence(topology_id, pb.WorkerPresence(supervisor_id="s", port=1, worker_id="w"))
    store.report_error(topology_id, pb.ComponentError(component_id="split", message="no"))
    killed = client.kill(name)
    assert killed.status == TopologyStatus.KILLED and killed.pending is not None
    assert 35 < killed.pending.due_unix_s - time.time() <= 40
    with pytest.raises(UsageError, match="is being killed"):
        client.activate(name)
    with pytest.raises(NameInUseError, match=f"topology '{name}' was killed and is still ending: it is gone when"):
        client.submit(name, topology())
    client.kill(name, wait_secs=0.3)
    wait_until(lambda: store.topology(topology_id) is None, what="the topology is removed")
    for folder in (paths.workers_of, paths.errors_of, paths.assignment):
        assert not shared.session.exists(folder(shared.root, topology_id))
    assert client.submit(name, topology()) != topology_id
    client.kill(name, wait_secs=0)
    registration.stop()


def test_a_kill_of_a_topology_without_workers_waits_for_nothing(
    shared: Bench, leader: NimbusProcess, name: str
) -> None:
    client = shared.client(leader)
    topology_id = client.submit(name, topology())
    client.kill(name, wait_secs=600)
    wait_until(lambda: shared.store.topology(topology_id) is None, what="the topology is removed")


def test_a_rebalance_changes_workers_and_executors_but_not_tasks(
    shared: Bench, leader: NimbusProcess, name: str
) -> None:
    client = shared.client(leader)
    registrations = [shared.register_supervisor("a", 1, 2), shared.register_supervisor("b", 1, 2)]
    topology_id = client.submit(name, topology(2, 4), {"topology.workers": 1})
    shared.await_assignment(topology_id, lambda one: slots_of(one) == [("a", 1, 6)])
    record = client.rebalance(name, wait_secs=0.2, workers=3, executors={"split": 1})
    assert record.status == TopologyStatus.REBALANCING and record.pending is not None
    assert record.pending.resume == TopologyStatus.ACTIVE
    shared.await_assignment(topology_id, lambda one: slots_of(one) == [("a", 1, 1), ("a", 2, 1), ("b", 1, 1)])
    summary = client.describe(name).summary
    assert (summary.record.status, summary.tasks_total, summary.executors_total) == (TopologyStatus.ACTIVE, 6, 3)
    client.kill(name, wait_secs=0)
    for one in registrations:
        one.stop()


def test_a_topology_waits_for_slots_and_says_why(shared: Bench, leader: NimbusProcess, name: str) -> None:
    client = shared.client(leader)
    topology_id = client.submit(name, topology())
    shared.await_assignment(topology_id, lambda one: one.version)
    assert client.describe(name).unscheduled == "None of its 4 executors has a slot: no slot is free."
    registration = shared.register_supervisor("late", 1)
    shared.await_assignment(topology_id, lambda one: slots_of(one) == [("late", 1, 4)])
    assert "No acker is available" in client.describe(name).unscheduled
    client.kill(name, wait_secs=0)
    registration.stop()


@pytest.mark.nightly
def test_an_ackers_death_moves_its_shards_well_before_its_session_ends(bench: Bench) -> None:
    nimbus = bench.leader()
    first, second = bench.acker("k1"), bench.acker("k2")
    client = bench.client(nimbus)
    wait_until(lambda: len(client.cluster().ackers) == 2)
    topology_id = client.submit("wc", topology(), {"topology.acker.executors": 4})
    bench.await_assignment(topology_id, lambda one: {s.acker_id for s in one.shards} == {first.id, second.id})
    client.submit("untracked", topology(), {"topology.acker.executors": 0})
    first.kill()
    began = time.monotonic()
    moved = bench.await_assignment(topology_id, lambda one: {s.acker_id for s in one.shards} == {second.id})
    assert time.monotonic() - began < 2
    assert moved.shard_version == moved.version
    assert not any(shard.draining_acker_id for shard in moved.shards)
    assert first.id in bench.store.ackers(), "its node outlives it"
    states = {one.presence.id: one.reachable for one in client.cluster().ackers}
    assert states == {first.id: False, second.id: True}

    # A new process on the same port is another acker.
    again = bench.acker("k1", f"acker.port={first.grpc_port}")
    wait_until(lambda: any(one.presence.id == again.id and one.reachable for one in client.cluster().ackers))
    second.kill()
    bench.await_assignment(topology_id, lambda one: {s.acker_id for s in one.shards} == {again.id})
    again.kill()
    bench.await_assignment(topology_id, lambda one: {s.acker_id for s in one.shards} == {""})
    assert client.describe("wc").unscheduled.startswith("None of its 4 executors")
    assert client.describe("untracked").assignment.shards == ()


def test_an_acker_whose_node_is_gone_keeps_its_shards_while_it_answers(bench: Bench) -> None:
    nimbus = bench.leader()
    acker = bench.acker("k1")
    client = bench.client(nimbus)
    wait_until(lambda: client.cluster().ackers)
    topology_id = client.submit("wc", topology(), {"topology.acker.executors": 1})
    before = bench.await_assignment(topology_id, lambda one: [s.acker_id for s in one.shards] == [acker.id])
    for _ in range(3):
        looked = cycles(nimbus)
        bench.session.delete(paths.presence(bench.root, "acker", acker.id))
        wait_until(lambda seen=looked: cycles(nimbus) > seen)  # type: ignore[misc]
        wait_until(lambda: acker.id in bench.store.ackers())
    assert bench.assignment(topology_id) == before
    acker.kill()
    bench.await_assignment(topology_id, lambda one: [s.acker_id for s in one.shards] == [""])


def test_a_draining_acker_keeps_its_old_trees(bench: Bench) -> None:
    nimbus = bench.leader()
    acker = bench.acker("k1")
    client = bench.client(nimbus)
    wait_until(lambda: client.cluster().ackers)
    topology_id = client.submit("wc", topology(), {"topology.acker.executors": 1})
    bench.await_assignment(topology_id, lambda one: [s.acker_id for s in one.shards] == [acker.id])
    other = bench.acker("k2")
    with pending_tree(acker.address, topology_id):
        acker.signal(signal.SIGTERM)
        drains(bench, topology_id, acker, other)
    acker.kill()
    bench.await_assignment(topology_id, lambda one: not one.shards[0].draining_acker_id)


@contextmanager
def pending_tree(address: str, topology_id: str) -> Iterator[None]:
    """Inside, the acker holds a tree that nobody finishes."""
    over = threading.Event()

    def requests() -> Iterator[acker_pb2.TrackRequest]:
        hello = acker_pb2.TrackHello(topology_id=topology_id, worker_id="w1", tasks=[1], message_timeout_s=60, shards=1)
        yield acker_pb2.TrackRequest(hello=hello)
        one = (7).to_bytes(8, "little")
        update = acker_pb2.ShardUpdate(init_roots=one, init_values=one, init_tasks=(1).to_bytes(4, "little"))
        yield acker_pb2.TrackRequest(updates=acker_pb2.LedgerUpdates(sequence=1, shard_version=1, shards=[update]))
        over.wait(30)

    with channel(address) as opened:
        stub = AckerStub(opened)
        replies = stub.Track(requests())
        assert any(reply.confirmed == 1 for reply in replies)
        yield
        replies.cancel()
    over.set()


def drains(bench: Bench, topology_id: str, old: Daemon, new: Daemon) -> None:
    """The shard goes to the new acker, the old one finishes."""
    shard = bench.await_assignment(topology_id, lambda one: one.shards[0].draining_acker_id).shards[0]
    assert (shard.acker_id, shard.address) == (new.id, new.address)
    assert (shard.draining_acker_id, shard.draining_address) == (old.id, old.address)


@pytest.mark.nightly
def test_a_silent_worker_moves_and_a_reporting_one_stays(bench: Bench) -> None:
    settings = ("nimbus.task.timeout.secs=1", "nimbus.task.launch.secs=2")
    nimbus = bench.leader("n1", *settings)
    bench.register_supervisor("a", 1, 2)
    client = bench.client(nimbus)
    topology_id = client.submit("wc", topology(), {"topology.workers": 1})
    bench.await_assignment(topology_id, lambda one: slots_of(one) == [("a", 1, 4)])
    end = time.monotonic() + 3.5

    def reports_for_a_while() -> bool:
        assert send_report(nimbus, report(topology_id, "a", 1, "w1")).epoch == 1
        assert slots_of(bench.assignment(topology_id)) == [("a", 1, 4)]
        return time.monotonic() > end

    wait_until(reports_for_a_while)
    bench.await_assignment(topology_id, lambda one: slots_of(one) == [("a", 2, 4)])


def test_a_lost_machines_workers_are_forgotten_and_replaced(bench: Bench) -> None:
    nimbus = bench.leader("n1", "nimbus.task.timeout.secs=1", "nimbus.task.launch.secs=1")
    lost = bench.register_supervisor("a", 1)
    client = bench.client(nimbus)
    topology_id = client.submit("wc", topology(), {"topology.workers": 1})
    bench.await_assignment(topology_id, lambda one: slots_of(one) == [("a", 1, 4)])
    bench.store.put_worker_presence(topology_id, pb.WorkerPresence(supervisor_id="a", port=1, worker_id="w1"))
    lost.stop()
    bench.register_supervisor("b", 7)
    bench.await_assignment(topology_id, lambda one: slots_of(one) == [("b", 7, 4)])
    wait_until(lambda: bench.store.worker_presences(topology_id) == {})


def test_reports_add_up_over_incarnations_and_make_a_topology_ready(
    shared: Bench, leader: NimbusProcess, name: str
) -> None:
    client = shared.client(leader)
    registration = shared.register_supervisor("r", 1)
    topology_id = client.submit(name, topology())
    shared.await_assignment(topology_id, lambda one: slots_of(one) == [("r", 1, 4)])

    def stats(executed: int) -> rpc.TaskStats:
        streams = [rpc.StreamStats(stream="default", emitted=executed, transferred=2 * executed)]
        return rpc.TaskStats(task_id=3, component_id="split", executed=executed, execute_s=1, queued=5, streams=streams)

    def split() -> ComponentStats:
        return client.describe(name).components[1]

    wait_until(lambda: send_report(leader, report(topology_id, "r", 1, "w1", stats(100))) and split().total.executed)
    send_report(leader, report(topology_id, "r", 1, "w2", stats(10)))
    send_report(leader, report(topology_id, "r", 1, "w1", stats(101)))
    assert (split().total.executed, split().total.queued, split().total.streams[0].transferred) == (110, 5, 220)
    changed = report(topology_id, "r", 1, "w2", stats(11))
    changed.only_changes = True
    assert send_report(leader, changed).wants_all  # the complete report before was of another worker
    send_report(leader, report(topology_id, "r", 1, "w2", stats(11)))
    answer = send_report(leader, changed)
    assert (answer.takes_changes, answer.wants_all, split().total.executed) == (True, False, 111)
    found = client.describe(name)
    assert (found.summary.workers_ready, found.summary.workers_used) == (1, 1)
    assert found.workers[0].worker_id == "w2"
    assert found.workers[0].tasks == (1, 2, 3, 4)
    assert 0 < split().capacity < 1
    shared.store.report_error(topology_id, pb.ComponentError(component_id="split", message="bad", at_unix_s=1))
    assert [one.message for one in client.describe(name).errors] == ["bad"]
    client.kill(name, wait_secs=0)
    registration.stop()


@pytest.mark.nightly
def test_statuses_are_shown_while_they_are_news_and_not_written_down(bench: Bench) -> None:
    nimbus = bench.leader("n1", "nimbus.monitor.freq.secs=1")
    client = bench.client(nimbus)
    bench.register_supervisor("a", 1)
    topology_id = client.submit("wc", topology())
    bench.await_assignment(topology_id, lambda one: slots_of(one) == [("a", 1, 4)])

    def send(worker_id: str, executed: int, statuses: dict[int, str]) -> None:
        stats = [rpc.TaskStats(task_id=one, component_id="split", executed=executed) for one in (3, 4)]
        told = report(topology_id, "a", 1, worker_id, *stats)
        told.statuses.extend(rpc.TaskStatus(task_id=one, status_json=text) for one, text in statuses.items())
        send_report(nimbus, told)

    def shown() -> dict[int, str]:
        return {one.task_id: one.status_json for part in client.describe("wc").components for one in part.statuses}

    def said() -> bool:
        send("w1", 100, {3: '{"doing": "well"}', 77: "{}"})
        return shown() == {3: '{"doing": "well"}'}

    wait_until(said, what="nimbus listens to the worker, and shows what its own tasks say")
    for hostile in ("{", "[" * 8000, '{"a": 1e999}', json.dumps({"a": "x" * 5_000_000})):
        send("w1", 100, {3: hostile, 4: "{}"})
        assert shown() == {4: "{}"}
    wait_until(lambda: b"w1" in bench.store.statistics([topology_id]).get(topology_id, b""))
    assert b"tatus" not in bench.store.statistics([topology_id])[topology_id]
    send("w2", 1, {})
    assert shown() == {}
    send("w2", 2, {3: '{"doing": "better"}'})
    assert client.describe("wc").components[1].total.executed == 204
    wait_until(lambda: shown() == {}, 15, what="the status goes out of date")


def test_the_cluster_is_described_and_counted(shared: Bench, leader: NimbusProcess, name: str) -> None:
    client = shared.client(leader)
    registration = shared.register_supervisor("c", 1, 2, 3)
    client.submit(name, topology(), {"topology.workers": 2})
    wait_until(lambda: client.cluster().slots_used == 2)
    found = client.cluster()
    assert (found.slots_total, found.epoch, found.topologies) == (3, 1, 1)
    assert [(one.presence.id, one.leader) for one in found.nimbuses] == [(leader.id, True)]
    assert 'tupletree_nimbus_slots{use="used"} 2.0' in leader.metrics()
    assert "tupletree_nimbus_leading 1.0" in leader.metrics()
    client.kill(name, wait_secs=0)
    wait_until(lambda: client.cluster().topologies == 0)
    registration.stop()


@pytest.mark.nightly
def test_nothing_is_written_when_nothing_changes(bench: Bench) -> None:
    nimbus = bench.leader("n1", "nimbus.monitor.freq.secs=1")
    bench.register_supervisor("a", 1)
    topology_id = bench.client(nimbus).submit("wc", topology())
    bench.await_assignment(topology_id, lambda one: one.workers)
    version = bench.store.assignments()[topology_id].version
    counted = cycles(nimbus)
    wait_until(lambda: cycles(nimbus) >= counted + 3)
    assert bench.store.assignments()[topology_id].version == version


def cycles(nimbus: NimbusProcess) -> float:
    lines = nimbus.metrics().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("tupletree_nimbus_cycle_seconds_count"))


def test_a_port_in_use_and_an_absent_zookeeper_are_one_sentence_each(bench: Bench) -> None:
    nimbus = bench.leader()
    with pytest.raises(AssertionError, match=f"port {nimbus.grpc_port} on 127.0.0.1 is in use\n$"):
        bench.nimbus("n2", f"nimbus.port={nimbus.grpc_port}")
    settings = ("zookeeper.servers=[127.0.0.1:1]", "zookeeper.connection.timeout=300")
    with pytest.raises(
        AssertionError, match=r"ZooKeeper at 127\.0\.0\.1:1 did not answer within 0\.3 s: connections are refused.*\n$"
    ):
        bench.nimbus("n3", *settings)
    with pytest.raises(AssertionError, match="did you mean 'nimbus"):
        bench.nimbus("n4", "nimbus.prot=1")
