"""What is too large, or cannot be written, for one topology stops no other."""

from __future__ import annotations

import uuid

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl
from nimbus_harness import Bench, Lines, NimbusProcess, Split, topology

from tupletree import TopologyBuilder
from tupletree._coord import paths
from tupletree._wait import wait_until
from tupletree.errors import UsageError
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
    assert "belongs to somebody with other credentials" in faults[name]
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
