"""Machines that topologies have to themselves: kept free of others, sticky, and what is said where they are missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isolation_scene import machines_of, reason
from planner_snapshots import applied, cluster, record, settled, supervisor

from tupletree import config
from tupletree._coord.versioned import Versioned
from tupletree.errors import ConfigError
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.planner import Snapshot, decide, placement_of
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.leader.scheduling import Scheduling
from tupletree.nimbus.leader.settled import Settled
from tupletree.v1 import topology_pb2 as pb


def scene(*records: pb.TopologyRecord, machines: int, slots: int = 2, **isolated: int) -> Snapshot:
    supervisors = {f"m{number}": supervisor(f"m{number}", *range(1, slots + 1)) for number in range(machines)}
    return cluster(*records, supervisors=supervisors, scheduling=Scheduling(isolated=isolated))


def named(name: str, workers: int = 2, at_s: float = 0.0) -> pb.TopologyRecord:
    return record(name, workers, submitted_unix_s=at_s)


def check(snapshot: Snapshot) -> None:
    """Hold that nobody is on the machines of an isolated topology, and it nowhere else."""
    slots = [slot for one in snapshot.assignments.values() for slot in placement_of(one.value)]
    assert len(slots) == len(set(slots))
    for topology_id, stored in snapshot.assignments.items():
        assert all(snapshot.isolation.may_use(topology_id, slot) for slot in placement_of(stored.value))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Clusters that ran without isolation until now, with machines that are lost since."""
    records = [
        named(name, draw(st.integers(1, 4)), draw(st.sampled_from([0.0, 1.0])))
        for name in draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True))
    ]
    before = settled(scene(*records, machines=draw(st.integers(1, 5)), slots=draw(st.integers(1, 3))))
    isolated = draw(st.dictionaries(st.sampled_from("abx"), st.integers(1, 3)))
    lost = draw(st.sets(st.sampled_from(sorted(before.supervisors)), max_size=1)) if len(before.supervisors) > 1 else ()
    used = [(one, slot) for one, it in before.assignments.items() for slot in placement_of(it.value)]
    return replace(
        before,
        scheduling=Scheduling(isolated=isolated),
        supervisors={one: it for one, it in before.supervisors.items() if one not in lost},
        dead=frozenset(one for one in used if one[1].supervisor_id in lost),
    )


@given(snapshots())
def test_isolated_topologies_are_alone_and_nothing_moves_twice(before: Snapshot) -> None:
    after = settled(before)
    check(after)
    assert decide(after) == []
    assert settled(before) == after, "the same input gives the same output"
    for one, machines in after.isolation.machines.items():
        stored = after.records[one].value
        used = {slot.supervisor_id for slot in placement_of(after.assignments[one].value)}
        assert len(used) == min(len(machines), stored.workers), "all of its machines"


@given(snapshots(), st.integers(1, 3))
def test_no_slot_is_promised_twice_while_topologies_move(before: Snapshot, written: int) -> None:
    for _ in range(12):
        before = applied(before, written)
        slots = [slot for one in before.assignments.values() for slot in placement_of(one.value)]
        assert len(slots) == len(set(slots))
    assert decide(before) == []
    check(before)


def test_an_isolated_topology_is_spread_over_its_machines_and_others_share_the_rest() -> None:
    done = settled(scene(named("a"), named("b", 4), machines=4, a=2))
    assert len(set(machines_of(done, "a"))) == 2
    assert len(machines_of(done, "b")) == 4 and not set(machines_of(done, "a")) & set(machines_of(done, "b"))


def test_others_leave_first_and_the_topology_moves_once() -> None:
    even = settled(scene(named("a", 1), named("b", 3, at_s=1), machines=3, slots=2))
    assert set(machines_of(even, "a")) & set(machines_of(even, "b")), "they share a machine"
    isolating = replace(even, scheduling=Scheduling(isolated={"a": 1}))
    waits = applied(isolating)
    assert machines_of(waits, "a") == machines_of(even, "a"), "it stays while others leave"
    done = settled(waits)
    check(done)
    assert machines_of(done, "a") == machines_of(even, "a") and len(machines_of(done, "b")) == 3


def with_a_lost_machine(**fields: object) -> Snapshot:
    """An isolated topology whose worker on one of its two machines is dead, and another one on the third machine."""
    even = settled(scene(named("a", at_s=0), named("b", 1, at_s=1), machines=3))
    [other] = machines_of(even, "b")
    lost = next(one for one in machines_of(even, "a") if one != other)
    slots = placement_of(even.assignments["a-1-1"].value)
    return replace(
        even,
        supervisors={one: it for one, it in even.supervisors.items() if one != lost},
        dead=frozenset(("a-1-1", slot) for slot in slots if slot.supervisor_id == lost),
        scheduling=Scheduling(isolated={"a": 2}),
        **fields,  # type: ignore[arg-type]
    )


def executors_of(snapshot: Snapshot, name: str) -> int:
    return sum(map(len, placement_of(snapshot.assignments[f"{name}-1-1"].value).values()))


def test_a_machine_that_others_have_not_left_is_waited_for() -> None:
    even = settled(scene(named("b", 4), machines=2))
    waiting = replace(
        even,
        records={**even.records, "a-1-1": Versioned(named("a", at_s=1), 0)},
        scheduling=Scheduling(isolated={"a": 1}),
    )
    assert machines_of(applied(waiting), "a") == []
    assert reason(waiting, "a") == (
        "It waits until other topologies have left its machines 'm0' (isolation.scheduler.machines)."
    )
    assert machines_of(settled(waiting), "a") == ["m0", "m0"]


def test_dead_executors_of_a_topology_that_waits_come_to_its_other_machines() -> None:
    before = with_a_lost_machine()
    assert "It waits until other topologies have left" in reason(before, "a")
    moved = applied(before, 1)
    assert machines_of(moved, "b") == machines_of(before, "b"), "the other has not moved yet"
    assert executors_of(moved, "a") == 4 and set(machines_of(moved, "a")) <= moved.supervisors.keys()
    check(settled(before))


@pytest.mark.parametrize("why", ["killed", "held back", "unread"])
def test_others_that_stay_for_a_time_are_not_waited_for(why: str) -> None:
    before = with_a_lost_machine()
    [other] = machines_of(before, "b")
    if why == "killed":
        killed = named("b", 1, at_s=1)
        killed.status, killed.pending.due_unix_s = lifecycle.KILLED, 1e12
        before = replace(before, records={**before.records, "b-1-1": Versioned(killed, 1)})
    elif why == "held back":
        before = replace(before, held=frozenset({"b-1-1"}))
    else:
        before = replace(before, unread_assignments={"b-1-1": "no assignment"})
    after = settled(before) if why == "killed" else applied(before)
    assert executors_of(after, "a") == 4 and len(set(machines_of(after, "a"))) == 2
    assert machines_of(after, "a").count(other) == 1, "in the slot that is free"


def test_missing_machines_are_told_and_those_that_are_there_are_used() -> None:
    done = settled(scene(named("a"), named("b", at_s=1), machines=1, a=2))
    assert machines_of(done, "a") == ["m0", "m0"] and machines_of(done, "b") == []
    assert reason(done, "a") == (
        "It has 1 of 2 machines of its own (isolation.scheduler.machines): no other registered machine is left."
    )
    assert reason(done, "b") == (
        "None of its 4 executors has a slot: no other slot is free on the machines that isolated topologies leave "
        "(isolation.scheduler.machines)."
    )
    more = settled(replace(done, supervisors={**done.supervisors, "m1": supervisor("m1", 1, 2)}))
    assert machines_of(more, "a") == ["m0", "m1"] and reason(more, "a") == ""


def test_too_few_slots_on_its_machines_are_told() -> None:
    done = settled(scene(named("a", 4), machines=2, a=1))
    assert reason(done, "a") == (
        "It has 2 of 4 workers: no other slot is free on the machines of its own (isolation.scheduler.machines)."
    )


def test_a_settled_topology_leaves_the_machine_of_one_that_is_submitted_later() -> None:
    known = Settled()
    alone = settled(scene(named("b", 2), machines=2, slots=2, a=1))
    assert decide(alone, known) == [] and decide(alone, known) == []
    later = replace(alone, records={**alone.records, "a-1-1": Versioned(named("a", 1, at_s=5), 0)})
    assert "b-1-1" in {one.topology_id for one in decide(later, known)}
    done = settled(later)
    check(done)
    assert len(machines_of(done, "b")) == 2


def test_a_machine_that_is_down_is_kept_while_the_workers_are_alive() -> None:
    done = settled(scene(named("a", 2), machines=3, a=1))
    [own] = set(machines_of(done, "a"))
    gone = replace(done, supervisors={one: it for one, it in done.supervisors.items() if one != own})
    assert decide(gone) == []
    dead = frozenset(("a-1-1", Slot(own, port)) for port in (1, 2))
    assert own not in machines_of(settled(replace(gone, dead=dead)), "a")


def test_isolation_goes_with_the_even_scheduler() -> None:
    conf = config.defaults() | {"isolation.scheduler.machines": {"a": 2}}
    assert Scheduling.from_conf(conf).isolated == {"a": 2}
    sentence = r"^configuration key 'isolation.scheduler.machines' goes with nimbus.scheduler even, not resource: leave"
    with pytest.raises(ConfigError, match=sentence):
        Scheduling.from_conf(conf | {"nimbus.scheduler": "resource"})


@pytest.mark.parametrize("count", [0, 1.5, True, "2", None])
def test_a_number_of_machines_that_is_none_is_refused(count: object) -> None:
    sentence = r"^configuration key 'isolation.scheduler.machines': topology 'a' takes a whole number of machines of at"
    with pytest.raises(ConfigError, match=sentence):
        config.validate({"isolation.scheduler.machines": {"a": count}})
