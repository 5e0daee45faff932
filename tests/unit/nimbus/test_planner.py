"""The whole decision, from snapshots that may hold anything."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType

from hypothesis import given, settings
from hypothesis import strategies as st

from tupletree._coord.versioned import Versioned
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.planner import (
    Failure,
    Remove,
    Snapshot,
    Update,
    decide,
    placement_of,
    unscheduled,
)
from tupletree.nimbus.leader.scheduler import Request, Slot, place
from tupletree.nimbus.leader.shard_placement import Acker
from tupletree.parallelism import executors_of_record
from tupletree.v1 import topology_pb2 as pb

NOW = 1000.0


def record(name: str = "wc", workers: int = 2, tasks: int = 4, **fields: object) -> pb.TopologyRecord:
    one = pb.TopologyRecord(
        id=f"{name}-1-1",
        name=name,
        status=lifecycle.ACTIVE,
        workers=workers,
        tasks={"split": tasks},
        executors={"split": tasks},
        acker_shards=workers,
    )
    one.MergeFrom(pb.TopologyRecord(**fields))  # type: ignore[arg-type]
    return one


def supervisor(name: str, *ports: int) -> pb.Presence:
    return pb.Presence(id=name, host=f"{name}.host", slots=ports)


def cluster(*records: pb.TopologyRecord, **changes: object) -> Snapshot:
    snapshot = Snapshot(
        epoch=3,
        now_unix_s=NOW,
        records={one.id: Versioned(one, 0) for one in records},
        assignments={},
        supervisors={"a": supervisor("a", 1, 2), "b": supervisor("b", 1, 2)},
        ackers={"k1": Acker("k1:1"), "k2": Acker("k2:1")},
        worker_presences={},
        dead=frozenset(),
    )
    return replace(snapshot, **changes)  # type: ignore[arg-type]


def applied(snapshot: Snapshot, count: int | None = None) -> Snapshot:
    """The snapshot after the first ``count`` of its changes are written."""
    records, assignments = dict(snapshot.records), dict(snapshot.assignments)
    presences = {one: set(slots) for one, slots in snapshot.worker_presences.items()}
    for change in decide(snapshot)[:count]:
        match change:
            case Remove(topology_id):
                records.pop(topology_id, None)
                assignments.pop(topology_id, None)
                presences.pop(topology_id, None)
            case Update():
                if change.record is not None:
                    assert records[change.topology_id].version == change.record.version
                    records[change.topology_id] = Versioned(change.record.value, change.record.version + 1)
                if change.assignment is not None:
                    before = assignments.get(change.topology_id)
                    assert change.assignment.version == (before.version if before else -1)
                    assignments[change.topology_id] = Versioned(change.assignment.value, change.assignment.version + 1)
                presences[change.topology_id] = presences.get(change.topology_id, set()) - set(change.forget)
    dead = frozenset(
        (one, slot)
        for one, slot in snapshot.dead
        if one in assignments
        and placement_of(assignments[one].value).get(slot) == placement_of(snapshot.assignments[one].value).get(slot)
    )
    return replace(snapshot, records=records, assignments=assignments, worker_presences=presences, dead=dead)


def settled(snapshot: Snapshot) -> Snapshot:
    for _ in range(6):
        if not decide(snapshot):
            return snapshot
        snapshot = applied(snapshot)
    raise AssertionError(f"still undecided: {decide(snapshot)}")


def used(snapshot: Snapshot) -> list[Slot]:
    return [slot for one in snapshot.assignments.values() for slot in placement_of(one.value)]


def test_a_new_topology_gets_slots_shards_and_version_one() -> None:
    (change,) = decide(cluster(record()))
    assert isinstance(change, Update)
    assert change.assignment is not None
    assignment = change.assignment.value
    assert (assignment.epoch, assignment.version, assignment.shard_version) == (3, 1, 1)
    assert [(one.host, one.port, len(one.executors)) for one in assignment.workers] == [
        ("a.host", 1, 2),
        ("b.host", 1, 2),
    ]
    assert [one.acker_id for one in assignment.shards] == ["k1", "k2"]
    assert change.touched == {"a", "b"}
    assert "runs 4 of 4 executors in 2 slots" in change.sentence


def test_another_epoch_alone_changes_nothing() -> None:
    assert decide(replace(settled(cluster(record())), epoch=9)) == []


def test_a_dead_worker_moves_and_its_memory_goes_with_its_machine() -> None:
    before = settled(cluster(record()))
    gone = replace(
        before,
        supervisors={"a": before.supervisors["a"]},
        dead=frozenset({("wc-1-1", Slot("b", 1))}),
        worker_presences={"wc-1-1": {Slot("a", 1), Slot("b", 1)}},
    )
    (change,) = decide(gone)
    assert isinstance(change, Update)
    assert change.assignment is not None
    assert set(placement_of(change.assignment.value)) == {Slot("a", 1), Slot("a", 2)}
    assert change.assignment.value.shard_version == 1
    assert change.forget == (Slot("b", 1),)
    assert change.touched == {"a", "b"}


def test_a_supervisor_that_is_away_keeps_its_living_workers() -> None:
    before = settled(cluster(record()))
    assert decide(replace(before, supervisors={})) == []


def test_a_dead_acker_changes_shards_only() -> None:
    before = settled(cluster(record()))
    (change,) = decide(replace(before, ackers={"k2": Acker("k2:1")}))
    assert isinstance(change, Update)
    assert change.assignment is not None
    after = change.assignment.value
    assert list(after.workers) == list(before.assignments["wc-1-1"].value.workers)
    assert (after.version, after.shard_version) == (2, 2)
    assert change.touched == frozenset()


def test_a_killed_topology_is_left_alone_until_it_is_due_and_removed_then() -> None:
    before = settled(cluster(record()))
    killed = lifecycle.ask(record(), lifecycle.Kill(10), NOW)
    waiting = replace(before, records={killed.id: Versioned(killed, 1)}, dead=frozenset({("wc-1-1", Slot("a", 1))}))
    assert decide(waiting) == []
    (change,) = decide(replace(waiting, now_unix_s=NOW + 10))
    assert change == Remove("wc-1-1", 1, "Topology 'wc' is removed after its kill.")
    assert decide(replace(waiting, drained=frozenset({"wc-1-1"}))) == [change]
    assert decide(replace(before, drained=frozenset({"wc-1-1"}))) == []


def test_a_rebalance_goes_on_when_nothing_is_left_to_finish() -> None:
    before = settled(cluster(record()))
    asked = lifecycle.ask(record(), lifecycle.Rebalance(600, 4, {"split": 2}), NOW)
    waiting = replace(before, records={asked.id: Versioned(asked, 1)})
    assert decide(waiting) == []
    (change,) = decide(replace(waiting, drained=frozenset({"wc-1-1"})))
    assert isinstance(change, Update) and change.record is not None
    assert change.record.value.status == lifecycle.ACTIVE


def test_a_rebalance_that_is_due_changes_record_and_assignment_together() -> None:
    before = settled(cluster(record()))
    asked = lifecycle.ask(record(), lifecycle.Rebalance(0, 4, {"split": 2}), NOW)
    (change,) = decide(replace(before, records={asked.id: Versioned(asked, 1)}))
    assert isinstance(change, Update)
    assert change.record is not None
    assert change.assignment is not None
    assert (change.record.value.status, change.record.version) == (lifecycle.ACTIVE, 1)
    assert placement_of(change.assignment.value) == {Slot("a", 1): ((1, 2),), Slot("b", 1): ((3, 4),)}


def test_a_rebalance_waits_while_no_supervisor_is_registered() -> None:
    before = settled(cluster(record()))
    asked = lifecycle.ask(record(), lifecycle.Rebalance(0, 4, {}), NOW)
    assert decide(replace(before, records={asked.id: Versioned(asked, 1)}, supervisors={})) == []


def test_topologies_are_served_in_the_order_they_came() -> None:
    first, second = record("one", 3, submitted_unix_s=1), record("two", 3, submitted_unix_s=2)
    after = settled(cluster(second, first))
    assert len(after.assignments["one-1-1"].value.workers) == 3
    assert len(after.assignments["two-1-1"].value.workers) == 1


def test_an_assignment_without_a_record_is_removed() -> None:
    before = settled(cluster(record()))
    (change,) = decide(replace(before, records={}))
    assert isinstance(change, Remove)
    assert change.record_version == -1


def test_why_a_topology_does_not_run_is_a_sentence() -> None:
    assert unscheduled(record(), None, 0) == "None of its 4 executors has a place: no slot is free."
    ok = settled(cluster(record())).assignments["wc-1-1"].value
    assert unscheduled(record(), ok, 0) == ""
    without = settled(cluster(record(), ackers={})).assignments["wc-1-1"].value
    assert unscheduled(record(), without, 0) == "No acker is available for 2 of 2 shards; spouts wait."


def test_fewer_workers_than_wanted_is_a_reason_where_no_slot_is_free() -> None:
    ok = settled(cluster(record())).assignments["wc-1-1"].value
    assert unscheduled(record(workers=3), ok, 0) == "It has 2 of 3 workers: no slot is free."
    assert unscheduled(record(workers=3), ok, 1) == "", "the next decision takes the slot"
    assert unscheduled(record(workers=9, tasks=4), ok, 0) == "It has 2 of 9 workers: no slot is free."
    few = settled(cluster(record(tasks=2))).assignments["wc-1-1"].value
    assert unscheduled(record(workers=9, tasks=2), few, 0) == "", "there is no executor for a third"


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


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=60, deadline=None)
@given(snapshots(), st.integers(0, 3))
def test_a_leader_that_dies_between_two_writes_leaves_what_the_next_one_can_finish(
    snapshot: Snapshot, written: int
) -> None:
    settled(replace(applied(snapshot, written), epoch=snapshot.epoch + 1))


@settings(max_examples=25, deadline=None)
@given(snapshots())
def test_the_same_snapshot_gives_the_same_decision(snapshot: Snapshot) -> None:
    assert decide(snapshot) == decide(snapshot)


def test_what_cannot_be_decided_for_one_topology_does_not_concern_the_others() -> None:
    broken = record("broken", submitted_unix_s=1)
    broken.status = lifecycle.REBALANCING
    broken.pending.resume = 9  # type: ignore[assignment]  # a status of a version to come
    changes = decide(cluster(broken, record("wc", submitted_unix_s=2)))
    assert [(type(one), one.topology_id) for one in changes] == [(Failure, "broken-1-1"), (Update, "wc-1-1")]
    assert "cannot be decided" in changes[0].reason  # type: ignore[union-attr]


def test_a_topology_that_is_held_back_keeps_what_it_has_and_claims_nothing() -> None:
    before = settled(cluster(record("a", submitted_unix_s=1)))
    full = replace(
        before,
        supervisors={"a": supervisor("a", 1, 2), "b": supervisor("b", 1)},
        records={
            **before.records,
            "b-1-1": Versioned(record("b", submitted_unix_s=2), 0),
            "c-1-1": Versioned(record("c", submitted_unix_s=3), 0),
        },
    )
    held = settled(replace(full, held=frozenset({"b-1-1"})))
    assert held.assignments["a-1-1"] == before.assignments["a-1-1"]
    assert "b-1-1" not in held.assignments
    assert len(held.assignments["c-1-1"].value.workers) == 1
    assert decide(replace(full, held=frozenset({"a-1-1", "b-1-1", "c-1-1"}))) == []


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
@settings(max_examples=150, deadline=None)
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


def test_a_topology_that_cannot_be_read_is_left_as_it_is_and_keeps_its_slots() -> None:
    broken, other = record("broken", workers=2), record("other", workers=4)
    before = applied(cluster(broken))
    known = before.assignments["broken-1-1"]
    slots = set(placement_of(known.value))
    workers = {"broken-1-1": slots}
    after_look = replace(before, records={**before.records, "other-1-1": Versioned(other, 0)})
    unread_assignment = replace(after_look, unread_assignments={"broken-1-1": "it holds junk"})
    unread_record = replace(after_look, unread_records={"broken-1-1": "it holds junk"})
    new_leader = replace(unread_assignment, assignments={}, worker_presences=workers)
    only_assignment = replace(unread_record, records={"other-1-1": Versioned(other, 0)})
    for snapshot in (unread_assignment, unread_record, new_leader, only_assignment):
        changes = {change.topology_id: change for change in decide(snapshot)}
        assert changes["broken-1-1"] == Failure("broken-1-1", "it holds junk")
        update = changes["other-1-1"]
        assert isinstance(update, Update)
        assert update.assignment is not None
        assert not slots & placement_of(update.assignment.value).keys()
        held = replace(snapshot, held=frozenset({"broken-1-1"}))
        assert [change.topology_id for change in decide(held)] == ["other-1-1"]


def test_a_killed_topology_whose_assignment_cannot_be_read_is_removed() -> None:
    killed = lifecycle.ask(record(), lifecycle.Kill(0), NOW)
    (change,) = decide(cluster(killed, unread_assignments={"wc-1-1": "it holds junk"}))
    assert isinstance(change, Remove)


def test_a_worker_of_an_unreadable_assignment_takes_no_slot_that_another_topology_is_assigned() -> None:
    other = record("other", workers=2)
    before = applied(cluster(other))
    slots = set(placement_of(before.assignments["other-1-1"].value))
    broken = {"broken-1-1": Versioned(record("broken"), 0), **before.records}
    unread = replace(
        before, records=broken, unread_assignments={"broken-1-1": "junk"}, worker_presences={"broken-1-1": slots}
    )
    assert [change.topology_id for change in decide(unread)] == ["broken-1-1"], "the other stays where it is"
