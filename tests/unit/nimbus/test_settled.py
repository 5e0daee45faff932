"""A decision that leaves settled topologies out is the decision that looks at all of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from planner_snapshots import applied, cluster, record, supervisor
from test_planner_properties import ackers, populations, records, slots, snapshots

from tupletree._coord.versioned import Versioned
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.planner import Snapshot, decide, placement_of
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.leader.settled import Settled
from tupletree.nimbus.leader.shard_placement import Acker


def happens(draw: st.DataObject, snapshot: Snapshot) -> Snapshot:
    """Return the cluster after something has happened to it."""
    kind = draw.draw(st.sampled_from(["machines", "ackers", "death", "request", "presence", "drained", "time", "lost"]))
    names = sorted(snapshot.records)
    if kind == "machines":
        return replace(snapshot, supervisors=draw.draw(populations()))
    if kind == "ackers":
        return replace(snapshot, ackers=draw.draw(ackers()))
    if kind == "time":
        return replace(snapshot, now_unix_s=snapshot.now_unix_s + 1)
    if not names:
        return snapshot
    topology_id = draw.draw(st.sampled_from(names))
    if kind == "request":
        one = draw.draw(records(topology_id.partition("-")[0]))
        return replace(snapshot, records={**snapshot.records, topology_id: Versioned(one, 0)})
    if kind == "presence":
        present = draw.draw(st.sets(slots, max_size=3))
        return replace(snapshot, worker_presences={**snapshot.worker_presences, topology_id: present})
    if kind == "drained":
        return replace(snapshot, drained=frozenset({topology_id}))
    if kind == "lost":
        kept = {one: stored for one, stored in snapshot.assignments.items() if one != topology_id}
        dead = frozenset(worker for worker in snapshot.dead if worker[0] != topology_id)  # only assigned workers die
        return replace(snapshot, assignments=kept, dead=dead)
    stored = snapshot.assignments.get(topology_id)
    placed = sorted(placement_of(stored.value)) if stored is not None else []
    return replace(snapshot, dead=frozenset((topology_id, slot) for slot in placed[:1]))


@given(snapshots(), st.data())
def test_settled_topologies_need_not_be_looked_at(snapshot: Snapshot, data: st.DataObject) -> None:
    memory = Settled()
    for _ in range(data.draw(st.integers(1, 6))):
        for _ in range(6):
            changes = decide(snapshot)
            assert decide(snapshot, memory) == changes
            if not changes:
                break
            snapshot = applied(snapshot)
        snapshot = happens(data, snapshot)
    assert decide(snapshot, memory) == decide(snapshot)


def is_looked_at(snapshot: Snapshot, memory: Settled, topology_id: str) -> bool:
    memory.observe(snapshot)
    return not memory.has(snapshot, topology_id)


def test_a_topology_is_settled_once_it_runs_until_something_of_its_own_changes() -> None:
    memory = Settled()
    snapshot = applied(cluster(record("wc", 2), record("other", 1)))
    assert decide(snapshot, memory) == []
    for one in ("wc-1-1", "other-1-1"):
        assert not is_looked_at(snapshot, memory, one)
    after = replace(snapshot, records={**snapshot.records, "wc-1-1": Versioned(record("wc", 1), 1)})
    assert is_looked_at(after, memory, "wc-1-1") and not is_looked_at(after, memory, "other-1-1")
    more = {**snapshot.supervisors, "c": supervisor("c", 1)}
    assert is_looked_at(replace(snapshot, supervisors=more), memory, "other-1-1")
    decide(snapshot, memory)
    fewer = {"k1": Acker("k1:1", draining=True)}
    assert is_looked_at(replace(snapshot, ackers=fewer), memory, "other-1-1")
    decide(snapshot, memory)
    assert is_looked_at(replace(snapshot, worker_presences={"wc-1-1": {Slot("z", 1)}}), memory, "wc-1-1")


def test_topologies_that_wait_or_lack_workers_are_looked_at_each_time() -> None:
    memory = Settled()
    killed = record("killed", 1, status=lifecycle.KILLED)
    killed.pending.due_unix_s = 10**9
    snapshot = applied(cluster(record("wide", 9, 9), killed))
    assert decide(snapshot, memory) == []
    assert is_looked_at(snapshot, memory, "wide-1-1")
    assert is_looked_at(snapshot, memory, "killed-1-1")
