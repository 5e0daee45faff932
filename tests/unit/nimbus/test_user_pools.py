"""Machines of the pools of users: kept free of others, sticky, and divided; what is said where they are missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
from tupletree.nimbus.leader.isolation import Owner, isolated_machines
from tupletree.nimbus.leader.planner import Snapshot, decide, placement_of
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.leader.scheduling import Scheduling
from tupletree.v1 import topology_pb2 as pb


def of(owner: str, name: str, workers: int = 2, isolate: int | None = None, at_s: float = 0.0) -> pb.TopologyRecord:
    conf = json.dumps({} if isolate is None else {"topology.isolate.machines": isolate})
    return record(name, workers, owner=owner, conf_json=conf, submitted_unix_s=at_s)


def scene(
    *records: pb.TopologyRecord, machines: int, pools: Mapping[str, int], slots: int = 2, **isolated: int
) -> Snapshot:
    supervisors = {f"m{number}": supervisor(f"m{number}", *range(1, slots + 1)) for number in range(machines)}
    return cluster(*records, supervisors=supervisors, scheduling=Scheduling(pools=pools, isolated=isolated))


def check(snapshot: Snapshot) -> None:
    """Hold that each machine has topologies of its owner only, and nobody more machines than are configured."""
    slots = [slot for one in snapshot.assignments.values() for slot in placement_of(one.value)]
    assert len(slots) == len(set(slots))
    isolation, pools = snapshot.isolation, snapshot.scheduling.pools
    for topology_id, stored in snapshot.assignments.items():
        one = snapshot.records[topology_id].value
        for slot in placement_of(stored.value):
            owner = isolation.owners.get(slot.supervisor_id, Owner())
            is_named = one.name in snapshot.scheduling.isolated
            assert owner.pool == (one.owner if one.owner in pools and not is_named else "")
            assert owner.topology == (one.id if is_named or (owner.pool and isolated_machines(one.conf_json)) else "")
    for pool, size in pools.items():
        assert sum(one.pool == pool for one in isolation.owners.values()) <= size
    for topology_id, machines in isolation.machines.items():
        one = snapshot.records[topology_id].value
        assert len(machines) <= snapshot.scheduling.isolated.get(one.name, isolated_machines(one.conf_json))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Clusters that ran without pools until now, with machines that are lost since."""
    records = [
        of(
            draw(st.sampled_from(["ann", "bob", "cid"])),
            name,
            draw(st.integers(1, 4)),
            draw(st.sampled_from([None, 1, 2])),
            draw(st.sampled_from([0.0, 1.0])),
        )
        for name in draw(st.lists(st.sampled_from("abcde"), min_size=1, unique=True))
    ]
    before = settled(scene(*records, machines=draw(st.integers(1, 6)), slots=draw(st.integers(1, 3)), pools={}))
    pools = draw(st.dictionaries(st.sampled_from(["ann", "bob", "eve"]), st.integers(1, 3)))
    isolated = draw(st.dictionaries(st.sampled_from("ax"), st.integers(1, 2), max_size=1))
    lost = draw(st.sets(st.sampled_from(sorted(before.supervisors)), max_size=1)) if len(before.supervisors) > 1 else ()
    used = [(one, slot) for one, it in before.assignments.items() for slot in placement_of(it.value)]
    return replace(
        before,
        scheduling=Scheduling(pools=pools, isolated=isolated),
        supervisors={one: it for one, it in before.supervisors.items() if one not in lost},
        dead=frozenset(one for one in used if one[1].supervisor_id in lost),
    )


@given(snapshots())
def test_owners_are_alone_on_their_machines_and_nothing_moves_twice(before: Snapshot) -> None:
    after = settled(before)
    check(after)
    assert decide(after) == []
    assert settled(before) == after, "the same input gives the same output"
    for one, machines in after.isolation.machines.items():
        used = {slot.supervisor_id for slot in placement_of(after.assignments[one].value)}
        assert len(used) == min(len(machines), after.records[one].value.workers), "all of its machines"


@given(snapshots(), st.integers(1, 3))
def test_no_slot_is_promised_twice_while_topologies_move(before: Snapshot, written: int) -> None:
    for _ in range(15):
        before = applied(before, written)
        slots = [slot for one in before.assignments.values() for slot in placement_of(one.value)]
        assert len(slots) == len(set(slots))
    assert decide(before) == []
    check(before)


@given(snapshots(), st.data())
def test_machines_that_a_pool_runs_on_stay_its_own_when_a_topology_comes_or_a_machine_is_added(
    before: Snapshot, data: st.DataObject
) -> None:
    done = settled(before)
    new = of(data.draw(st.sampled_from(["ann", "bob", "cid"])), "new", data.draw(st.integers(1, 3)), at_s=5.0)
    more = {**done.supervisors, "m9": supervisor("m9", 1, 2)} if data.draw(st.booleans()) else done.supervisors
    later = replace(done, records={**done.records, new.id: Versioned(new, 0)}, supervisors=more)
    running = {slot.supervisor_id for one in done.assignments.values() for slot in placement_of(one.value)}
    for machine, owner in done.isolation.owners.items():
        if machine in running:
            assert later.isolation.owners.get(machine) == owner
    check(settled(later))


def test_topologies_of_a_pool_share_it_and_others_stay_outside() -> None:
    done = settled(scene(of("ann", "a"), of("ann", "b"), of("bob", "c", 4), machines=3, pools={"ann": 2}))
    assert set(machines_of(done, "a")) == set(machines_of(done, "b")) and len(set(machines_of(done, "a"))) == 2
    assert len(set(machines_of(done, "c"))) == 1 and not set(machines_of(done, "c")) & set(machines_of(done, "a"))
    assert reason(done, "a") == reason(done, "b") == ""
    assert reason(done, "c") == (
        "It has 2 of 4 workers: no other slot is free on the machines that pools leave "
        "(multitenant.scheduler.user.pools)."
    )


def test_a_pool_without_topologies_keeps_no_machines() -> None:
    done = settled(scene(of("bob", "c", 4), machines=2, pools={"ann": 2}))
    assert len(machines_of(done, "c")) == 4 and not done.isolation.owners


def test_an_isolated_topology_has_machines_of_the_pool_and_the_others_share_the_rest() -> None:
    done = settled(scene(of("ann", "a", 2, isolate=2), of("ann", "b", 4), machines=4, pools={"ann": 3}))
    check(done)
    assert len(set(machines_of(done, "a"))) == 2 and len(set(machines_of(done, "b"))) == 1
    assert reason(done, "b") == (
        "It has 2 of 4 workers: no other slot is free on the machines that isolated topologies "
        "(topology.isolate.machines) leave in its owner's pool, which has 3 of 3 (multitenant.scheduler.user.pools)."
    )


def test_missing_machines_are_told() -> None:
    done = settled(scene(of("ann", "a", 2, isolate=3), of("ann", "b", at_s=1), machines=3, pools={"ann": 2}))
    assert len(set(machines_of(done, "a"))) == 2 and machines_of(done, "b") == []
    assert reason(done, "a") == (
        "It has 2 of 3 machines of its own (topology.isolate.machines): no other is left in its owner's pool, "
        "which has 2 of 2 (multitenant.scheduler.user.pools)."
    )
    small = settled(scene(of("ann", "a", 3), of("bob", "c", at_s=1), machines=1, pools={"ann": 2}))
    assert reason(small, "a") == (
        "It has 2 of 3 workers: no other slot is free on the machines of its owner's pool, which has 1 of 2 "
        "(multitenant.scheduler.user.pools)."
    )
    assert reason(small, "c").startswith("None of its 4 executors has a slot: no other slot is free on the machines")
    more = settled(replace(small, supervisors={**small.supervisors, "m1": supervisor("m1", 1, 2)}))
    assert len(machines_of(more, "a")) == 3 and reason(more, "a") == ""


def test_a_named_topology_has_its_machines_beside_the_pool_of_its_owner() -> None:
    done = settled(scene(of("ann", "a", 1), of("ann", "b", 2), of("bob", "c", 4), machines=3, pools={"ann": 1}, a=1))
    check(done)
    assert len(machines_of(done, "a")) == 1 and len(machines_of(done, "b")) == 2
    assert reason(done, "c") == (
        "It has 2 of 4 workers: no other slot is free on the machines that isolated topologies and pools leave "
        "(isolation.scheduler.machines, multitenant.scheduler.user.pools)."
    )


def test_a_pool_waits_for_those_who_leave_and_not_for_those_that_are_killed() -> None:
    even = settled(scene(of("bob", "c", 4), machines=2, pools={}))
    pool = replace(even, scheduling=Scheduling(pools={"ann": 1}))
    pool = replace(pool, records={**even.records, "a-1-1": Versioned(of("ann", "a", at_s=1), 0)})
    assert reason(pool, "a") == (
        "It waits until other topologies have left its machines 'm0' (multitenant.scheduler.user.pools)."
    )
    done = settled(pool)
    assert machines_of(done, "a") == ["m0", "m0"] and machines_of(done, "c") == ["m1", "m1"]

    killed = of("bob", "c", 1)
    killed.status, killed.pending.due_unix_s = lifecycle.KILLED, 1e12
    half = settled(scene(of("bob", "c", 1), machines=1, pools={}))
    waiting = replace(
        half,
        records={"c-1-1": Versioned(killed, 1), "a-1-1": Versioned(of("ann", "a"), 0)},
        scheduling=Scheduling(pools={"ann": 1}),
    )
    assert machines_of(settled(waiting), "a") == ["m0"], "the slot that is free"


def test_a_lost_machine_of_a_pool_is_replaced_when_its_workers_are_dead() -> None:
    done = settled(scene(of("ann", "a", 2), machines=3, pools={"ann": 1}))
    [own] = set(machines_of(done, "a"))
    gone = replace(done, supervisors={one: it for one, it in done.supervisors.items() if one != own})
    assert decide(gone) == []
    dead = frozenset(("a-1-1", Slot(own, port)) for port in (1, 2))
    assert own not in machines_of(settled(replace(gone, dead=dead)), "a")


def test_the_key_of_a_topology_without_a_pool_changes_nothing() -> None:
    done = settled(scene(of("bob", "a", 2, isolate=1), of("bob", "b", 2), machines=2, pools={"ann": 1}))
    assert not done.isolation.homes and len(set(machines_of(done, "a"))) == 2


@pytest.mark.parametrize("conf", ["{", '{"topology.isolate.machines": "x"}', "[]", '{"topology.isolate.machines": -3}'])
def test_an_unreadable_number_of_machines_isolates_nothing(conf: str) -> None:
    assert isolated_machines(conf) == 0


def test_pools_go_with_the_even_scheduler() -> None:
    conf = config.defaults() | {"multitenant.scheduler.user.pools": {"ann": 2}}
    assert Scheduling.from_conf(conf).pools == {"ann": 2}
    sentence = (
        r"^configuration key 'multitenant.scheduler.user.pools' goes with nimbus.scheduler even, not resource: le"
    )
    with pytest.raises(ConfigError, match=sentence):
        Scheduling.from_conf(conf | {"nimbus.scheduler": "resource"})


@pytest.mark.parametrize(
    ("pools", "sentence"),
    [
        ({"ann": 0}, r"user 'ann' takes a whole number of machines of at least 1, not 0"),
        ({"ann": True}, r"user 'ann' takes a whole number of machines of at least 1, not True"),
        ({"": 1}, r"maps users to numbers of machines; '' is no name"),
    ],
)
def test_pools_that_are_none_are_refused(pools: Mapping[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=rf"^configuration key 'multitenant.scheduler.user.pools': {sentence}$"):
        config.validate({"multitenant.scheduler.user.pools": pools})
    with pytest.raises(ConfigError, match=r"^configuration key 'topology.isolate.machines' takes a whole number"):
        config.validate({"topology.isolate.machines": 0})
