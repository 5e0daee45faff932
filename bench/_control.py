"""The parts of the control plane that ``bench.cluster_size`` measures in its own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tupletree._coord.forms import encode
from tupletree._coord.store import Store
from tupletree.nimbus.leader import cluster_state
from tupletree.nimbus.leader.planner import decide
from tupletree.nimbus.leader.settled import Settled
from tupletree.nimbus.leader.shard_placement import Acker
from tupletree.supervisor.local_assignment import plan_work
from tupletree.v1 import topology_pb2 as pb
from tupletree.worker.assignment_view import view

Cost = Callable[[Callable[[], object]], float]


def costs(store: Store, cost: Cost) -> dict[str, Any]:
    """Return the costs of a decision, of a cycle's reads and of a supervisor's snapshot, when nothing changes."""
    state = cluster_state.load(store)
    ackers = {one.id: Acker(f"{one.host}:{one.grpc_port}") for one in state.ackers.values()}
    nothing: frozenset[Any] = frozenset()

    def decision(settled: Settled) -> list[Any]:
        return decide(cluster_state.snapshot(state, 1, ackers, nothing, nothing, nothing), settled)

    settled = Settled()
    decision(settled)
    return {
        "decide_ms": cost(lambda: decision(settled)),
        "decide_all_ms": cost(lambda: decision(Settled())),
        "load_ms": cost(lambda: cluster_state.load(store)),
        "supervisor_ms": cost(lambda: _supervisor(store)),
    }


def _supervisor(store: Store) -> Mapping[int, Any]:
    """Take the snapshot of a supervisor."""
    machine = "machine-0000"
    with store.snapshot():
        assignments = [one.value for one in store.assignments().values()]
        mine = {one.topology_id for one in assignments if any(w.supervisor_id == machine for w in one.workers)}
        records = {key: one.value for key, one in store.topologies_of(mine).items()}
    return plan_work(assignments, records, machine, range(20_000, 20_010), 30.0)


def view_cost(store: Store, name: str, cost: Cost) -> dict[str, Any]:
    """Return the cost of the snapshot of a worker of the topology."""
    record = next(one.value for one in store.topologies().values() if one.value.name == name)

    def look() -> object:
        with store.snapshot():
            stored, assignment = store.topology(record.id), store.assignment(record.id)
            presences = store.worker_presences(record.id)
        assert stored is not None and assignment is not None
        first = assignment.value.workers[0]
        return view(f"{first.supervisor_id}:{first.port}", stored.value, assignment.value, presences)

    return {"view_ms": cost(look)}


def assignment_bytes() -> dict[str, Any]:
    """Return the stored size of the largest assignment that a topology can have, while an acker drains."""
    one = pb.Assignment(topology_id="large-1-1767225600", epoch=12, version=34, shard_version=34)
    for number in range(2000):
        machine = f"{number * 2654435761 % 2**32:08x}-worker-{number // 4}.datacenter.example.org"
        worker = one.workers.add(supervisor_id=f"supervisor-{machine}", host=machine, port=6700 + number % 4)
        for index in range(5):
            task = number + 2000 * index + 1
            worker.executors.add(first_task=task, last_task=task)
    for shard in range(1000):
        acker = f"acker-{shard * 2654435761 % 2**40:010x}"
        address = f"{acker}.datacenter.example.org:6688"
        one.shards.add(
            shard=shard, acker_id=acker, address=address, draining_acker_id=f"{acker}-old", draining_address=address
        )
    return {"assignment_bytes": len(encode(one))}
