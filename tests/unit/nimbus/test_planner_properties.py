"""Properties of the decision on any snapshot."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType

from hypothesis import given, settings
from hypothesis import strategies as st
from planner_snapshots import NOW, applied, cluster, record, settled, supervisor, used

from tupletree._coord.versioned import Versioned
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.planner import (
    Snapshot,
    Update,
    decide,
    placement_of,
)
from tupletree.nimbus.leader.scheduler import Request, Slot, place
from tupletree.nimbus.leader.shard_placement import Acker
from tupletree.parallelism import executors_of_record
from tupletree.v1 import topology_pb2 as pb

names = st.sampled_from(["one", "two", "three"])

statuses = st.sampled_from([lifecycle.ACTIVE, lifecycle.INACTIVE, lifecycle.REBALANCING, lifecycle.KILLED])

slots = st.builds(Slot, st.sampled_from("abc"), st.integers(1, 3))


@st.composite
def records(draw: st.DrawFn, name: str) -> pb.TopologyRecord:
    one = record(name, draw(st.integers(1, 5)), draw(st.integers(1, 7)), submitted_unix_s=draw(st.integers(0, 9)))
    one.executors["split"] = draw(st.integers(1, one.tasks["split"]))
    one.status = draw(statuses)
    if one.status in {lifecycle.REBALANCING, lifecycle.KILLED}:
        one.pending.due_unix_s = NOW + draw(st.sampled_from([-1, 1]))
        one.pending.resume = lifecycle.INACTIVE
        one.pending.workers = draw(st.integers(0, 4))
        if draw(st.booleans()):
            one.pending.executors["split"] = draw(st.integers(1, one.tasks["split"]))
    return one


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Any cluster whose assignments a leader wrote at some time, whatever has happened to it since."""
    chosen = [draw(records(name)) for name in sorted(draw(st.sets(names)))]
    earlier = settled(cluster(*chosen, supervisors=draw(populations()), ackers=draw(ackers())))
    kept = {one: assignment for one, assignment in earlier.assignments.items() if draw(st.booleans())}
    assigned = [(one, slot) for one in sorted(kept) for slot in placement_of(kept[one].value)]
    return cluster(
        *chosen,
        assignments=kept,
        supervisors=draw(populations()),
        ackers=draw(ackers()),
        dead=frozenset(draw(st.sets(st.sampled_from(assigned)))) if assigned else frozenset(),
        worker_presences={one: draw(st.sets(slots, max_size=3)) for one in earlier.records},
    )


def populations() -> st.SearchStrategy[dict[str, pb.Presence]]:
    ports = st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(1, 3), max_size=3))
    return ports.map(lambda found: {name: supervisor(name, *sorted(one)) for name, one in found.items()})


def ackers() -> st.SearchStrategy[dict[str, Acker]]:
    draining = st.dictionaries(st.sampled_from(["k1", "k2", "k3"]), st.booleans())
    return draining.map(lambda found: {name: Acker(f"{name}:1", one) for name, one in found.items()})


@given(snapshots())
def test_a_settled_cluster_keeps_its_promises(snapshot: Snapshot) -> None:
    after = settled(snapshot)
    offered = {Slot(name, port) for name, one in after.supervisors.items() for port in one.slots}
    assert len(used(after)) == len(set(used(after))), "a slot is used twice"
    for topology_id, stored in after.records.items():
        one = stored.value
        if one.status == lifecycle.KILLED:
            continue
        placement = placement_of(after.assignments[topology_id].value)
        placed = [executor for run in placement.values() for executor in run]
        assert len(placed) == len(set(placed)), "an executor runs twice"
        assert set(placed) <= set(executors_of_record(one))
        assert len(placement) <= one.workers
        before = placement_of(snapshot.assignments[topology_id].value) if topology_id in snapshot.assignments else {}
        for slot, run in placement.items():
            assert slot in offered or run == before.get(slot), "work was given to a dead supervisor"
        if offered - set(used(after)):
            assert set(placed) == set(executors_of_record(one)), "a slot is free and an executor waits"


@given(snapshots(), st.integers(0, 3))
def test_a_leader_that_dies_between_two_writes_leaves_what_the_next_one_can_finish(
    snapshot: Snapshot, written: int
) -> None:
    settled(replace(applied(snapshot, written), epoch=snapshot.epoch + 1))


@settings(max_examples=25, deadline=None)
@given(snapshots())
def test_the_same_snapshot_gives_the_same_decision(snapshot: Snapshot) -> None:
    assert decide(snapshot) == decide(snapshot)


def steps_of_deciding(size: int) -> int:
    """How many bytecodes it takes to find that nothing is to be changed."""
    snapshot = replace(
        cluster(*(record(f"t{one}", submitted_unix_s=one) for one in range(size))),
        supervisors={f"s{one}": supervisor(f"s{one}", 1, 2, 3, 4) for one in range(size)},
    )
    snapshot = settled(snapshot)
    count = 0

    def trace(frame: FrameType, kind: str, _: object) -> object:
        nonlocal count
        frame.f_trace_opcodes = True
        count += kind == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        changes = decide(snapshot)
    finally:
        sys.settrace(before)
    assert changes == []
    return count


def test_deciding_that_nothing_changes_grows_with_topologies_and_supervisors_not_with_their_product() -> None:
    assert steps_of_deciding(80) < 4.4 * steps_of_deciding(20)


@given(
    supervisors=st.dictionaries(st.sampled_from("abcd"), st.sets(st.integers(1, 3), min_size=1), max_size=4),
    wanted=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=4),
    later=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=4, max_size=4),
    gone=st.sets(st.sampled_from("abcd"), max_size=2),
    silent=st.integers(0, 7),
)
def test_a_topology_is_placed_as_if_every_slot_had_been_looked_at(
    supervisors: dict[str, set[int]],
    wanted: list[tuple[int, int]],
    later: list[tuple[int, int]],
    gone: set[str],
    silent: int,
) -> None:
    records = [record(f"t{n}", workers, tasks, submitted_unix_s=n) for n, (workers, tasks) in enumerate(wanted)]
    snapshot = cluster(*records, supervisors={one: supervisor(one, *ports) for one, ports in supervisors.items()})
    snapshot = settled(snapshot)
    used = {slot: one for one, stored in snapshot.assignments.items() for slot in placement_of(stored.value)}
    for (workers, executors_), before in zip(later, records, strict=False):
        after = pb.TopologyRecord()
        after.CopyFrom(before)
        after.workers = workers
        after.executors["split"] = min(executors_, after.tasks["split"])
        current = placement_of(snapshot.assignments[after.id].value)
        dead = {slot for n, slot in enumerate(sorted(current)) if silent >> n & 1}
        present = {one: presence for one, presence in snapshot.supervisors.items() if one not in gone}
        slots = {Slot(one, port) for one, presence in present.items() for port in presence.slots}
        offered = {slot for slot in slots if used.get(slot, after.id) == after.id}
        alive = {slot: run for slot, run in current.items() if slot not in dead}
        expected = place(Request(executors_of_record(after), workers, alive, offered, dead & offered))
        found = decide(
            replace(
                snapshot,
                records={after.id: Versioned(after, 1)},
                supervisors=present,
                dead=frozenset((after.id, slot) for slot in dead),
                held=frozenset(snapshot.assignments.keys() - {after.id}),
            )
        )
        written = [one.assignment.value for one in found if isinstance(one, Update) and one.assignment is not None]
        assert placement_of(written[0] if written else snapshot.assignments[after.id].value) == expected
