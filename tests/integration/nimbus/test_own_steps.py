"""What is too large, or cannot be written, for one topology stops no other."""

from __future__ import annotations

import uuid

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl
from nimbus_harness import Bench, Lines, NimbusProcess, Split, topology

from tupletree import TopologyBuilder
from tupletree._coord import paths
from tupletree._coord.versioned import Versioned
from tupletree.errors import NameInUseError, UsageError
from tupletree.testing.wait import wait_until
from tupletree.topology import Topology


@pytest.fixture
def name(leader: NimbusProcess) -> str:
    """A topology name of the test's own."""
    return f"own-{uuid.uuid4().hex[:8]}"


def many_tasks() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines())
    builder.set_bolt("split", Split()).set_num_tasks(30_000).shuffle_grouping("lines")
    return builder.create_topology()


def test_a_rebalance_that_is_too_large_is_refused_and_the_next_topology_runs(
    shared: Bench, leader: NimbusProcess, name: str
) -> None:
    client = shared.client(leader)
    registration = shared.register_supervisor("a", 1, 2)
    first = client.submit(name, many_tasks(), {"topology.workers": 1})
    shared.await_assignment(first, lambda one: one.workers)
    with pytest.raises(UsageError, match="would have 30001 executors; the limit is 10000"):
        client.rebalance(name, wait_secs=0, executors={"split": 30_000})
    client.rebalance(name, wait_secs=0, executors={"split": 9_999})
    found = shared.await_assignment(first, lambda one: one.workers and len(one.workers[0].executors) == 10_000)
    assert found.workers[0].executors[-1].last_task == 30_001
    second = client.submit(f"{name}-2", topology(), {"topology.workers": 1})
    shared.await_assignment(second, lambda one: one.workers)
    for one in (name, f"{name}-2"):
        client.kill(one, wait_secs=0)
    wait_until(lambda: not shared.store.assignments(), what="both are removed")
    registration.stop()


def test_a_topology_that_cannot_be_written_is_held_back_alone_and_health_says_why(
    shared: Bench, leader: NimbusProcess, name: str
) -> None:
    client = shared.client(leader)
    first = client.submit(name, topology(), {"topology.workers": 1})
    shared.await_assignment(first, lambda one: one.version)
    path = paths.assignment(shared.root, first)
    shared.session.set_acls(path, [make_acl("world", "anyone", read=True, admin=True)])  # an operator's mistake
    registration = shared.register_supervisor("a", 1, 2)  # one slot for each
    second = client.submit(f"{name}-2", topology(), {"topology.workers": 1})
    shared.await_assignment(second, lambda one: one.workers)
    assert "could not be written" in client.describe(name).unscheduled
    faults = {one.subject: one.sentence for one in client.health().faults if one.kind == "topology.unscheduled"}
    assert "belongs to other credentials" in faults[name]
    errors = {one.component_id: one.message for one in shared.store.errors(first)}
    assert "could not be written" in errors["__nimbus"]
    assert leader.leads(), "one topology's error is no reason to stand down"

    shared.session.set_acls(path, OPEN_ACL_UNSAFE)
    client.kill(f"{name}-2", wait_secs=0)
    client.deactivate(name)  # whatever an operator changes has it tried at once
    shared.await_assignment(first, lambda one: one.workers)
    wait_until(lambda: "could not be written" not in client.describe(name).unscheduled, what="the trouble is over")
    client.kill(name, wait_secs=0)
    registration.stop()


@pytest.mark.nightly
def test_a_topology_with_more_errors_than_one_message_can_delete_is_removed(
    shared: Bench, leader: NimbusProcess, name: str
) -> None:
    client = shared.client(leader)
    topology_id = client.submit(name, topology())
    shared.await_assignment(topology_id, lambda one: one.version)
    components = [f"{'c' * 200}{number}" for number in range(4500)]
    requests = [
        shared.session.create_async(paths.errors_of_component(shared.root, topology_id, one)) for one in components
    ]
    for request in requests:
        request.get(timeout=60)
    client.kill(name, wait_secs=0)
    wait_until(lambda: shared.store.topology(topology_id) is None, 30, what="the topology is removed")
    for folder in (paths.workers_of, paths.errors_of, paths.assignment):
        assert not shared.session.exists(folder(shared.root, topology_id))


@pytest.mark.nightly
def test_a_damaged_record_or_assignment_stops_no_other_topology_and_health_says_why(
    shared: Bench, leader: NimbusProcess, name: str
) -> None:
    client = shared.client(leader)
    registration = shared.register_supervisor("a", 1, 2, 3)
    found = {}
    for number in (1, 2):
        topology_id = client.submit(f"{name}-{number}", topology(), {"topology.workers": 1})
        found[topology_id] = shared.await_assignment(topology_id, lambda one: one.workers)
    first, second = found
    nodes = [paths.assignment(shared.root, first), paths.topology(shared.root, second)]
    stored = [shared.session.get(node)[0] for node in nodes]
    for node in nodes:
        shared.session.set(node, b"{damaged")

    third = client.submit(f"{name}-3", topology(), {"topology.workers": 1})
    placed = shared.await_assignment(third, lambda one: one.workers)
    taken = {worker.port for one in found.values() for worker in one.workers}
    assert {worker.port for worker in placed.workers} == {1, 2, 3} - taken

    def named() -> list[tuple[str, str]]:
        faults = client.health().faults
        return [(one.subject, one.kind) for node in nodes for one in faults if node in one.sentence]

    expected = [(f"{name}-{number}", "topology.unscheduled") for number in (1, 2)]
    wait_until(lambda: named() == expected, what="health names both nodes")
    assert nodes[1] in client.describe(f"{name}-2").unscheduled
    with pytest.raises(NameInUseError, match="cannot be read"):
        client.submit(f"{name}-2", topology())
    assert shared.store.assignment(second) == Versioned(found[second], 0), "nothing is taken from it"
    assert leader.leads(), "one topology's node is no reason to stand down"

    for node, data in zip(nodes, stored, strict=True):
        shared.session.set(node, data)
    wait_until(lambda: not any("cannot be read" in one.sentence for one in client.health().faults), what="all is read")
    for number in (1, 2, 3):
        client.kill(f"{name}-{number}", wait_secs=0)
    wait_until(lambda: not shared.store.assignments(), what="all are removed")
    registration.stop()
