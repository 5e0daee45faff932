"""Decisions under the resource scheduler: capacities, importance, eviction, quotas, rebalances and updates."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planner_snapshots import NOW, applied, cluster, record, settled, supervisor

from tupletree._coord.versioned import Versioned
from tupletree.errors import ConfigError
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.lack_of_room import lack_of
from tupletree.nimbus.leader.planner import Snapshot, Update, decide, placement_of
from tupletree.nimbus.leader.resources import axes_of, capacities, plus, usage
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.leader.scheduling import Scheduling
from tupletree.nimbus.leader.settled import Settled
from tupletree.nimbus.leader.shard_placement import Acker
from tupletree.nimbus.leader.unscheduled import unscheduled
from tupletree.nimbus.updates import version_of
from tupletree.v1 import topology_pb2 as pb

RESOURCE = Scheduling(by_resources=True)


def machine(name: str, cpu: float = 400, memory: float = 4000, slots: int = 4, **named: float) -> pb.Presence:
    found = supervisor(name, *range(1, slots + 1))
    found.MergeFrom(pb.Presence(cpu_percent=cpu, memory_mb=memory, resources=named))
    return found


def topology(
    name: str,
    tasks: int = 4,
    memory: float = 500,
    workers: int = 1,
    priority: int = 29,
    owner: str = "",
    **named: float,
) -> pb.TopologyRecord:
    needs = {"split": pb.ComponentNeeds(cpu_percent=10, memory_mb=memory, resources=named)}
    conf = json.dumps({"topology.priority": priority, "topology.worker.max.heap.size.mb": 2000})
    return record(name, workers, tasks, needs=needs, conf_json=conf, owner=owner, submitted_unix_s=float(len(name)))


def scene(*records: pb.TopologyRecord, machines: list[pb.Presence], scheduling: Scheduling = RESOURCE) -> Snapshot:
    return cluster(*records, supervisors={one.id: one for one in machines}, scheduling=scheduling)


def placed(snapshot: Snapshot, name: str) -> set[str]:
    """The supervisors of a topology's workers."""
    found = snapshot.assignments.get(f"{name}-1-1")
    return {slot.supervisor_id for slot in placement_of(found.value)} if found is not None else set()


def reason(snapshot: Snapshot, name: str) -> str:
    shortages: dict[str, str] = {}
    decide(snapshot, Settled(), shortages)
    stored = snapshot.assignments.get(f"{name}-1-1")
    assignment = stored.value if stored is not None else None
    return unscheduled(snapshot.records[f"{name}-1-1"].value, assignment, 9, shortages.get(f"{name}-1-1", ""))


def with_record(snapshot: Snapshot, changed: pb.TopologyRecord) -> Snapshot:
    return replace(snapshot, records={**snapshot.records, changed.id: Versioned(changed, 9)})


def check_capacities(snapshot: Snapshot) -> None:
    axes = axes_of((one.value for one in snapshot.records.values()), snapshot.supervisors.values())
    used: defaultdict[str, tuple[float, ...]] = defaultdict(lambda: axes.zero)
    for topology_id, stored in snapshot.assignments.items():
        for name, vector in usage(snapshot.records[topology_id].value, placement_of(stored.value), axes).items():
            used[name] = plus(used[name], vector)
    limits = capacities(snapshot.supervisors, axes)
    assert all(a <= b + 1e-5 for name in used for a, b in zip(used[name], limits[name], strict=True))


def test_workers_are_given_the_memory_of_their_executors() -> None:
    done = settled(scene(topology("a"), machines=[machine("x")]))
    assert [one.memory_mb for one in done.assignments["a-1-1"].value.workers] == [2000]
    even = settled(replace(scene(topology("a"), machines=[machine("x")]), scheduling=Scheduling()))
    assert [one.memory_mb for one in even.assignments["a-1-1"].value.workers] == [0]


def test_another_scheduler_moves_nothing_that_fits() -> None:
    even = settled(scene(topology("a", workers=2), machines=[machine("x"), machine("y")], scheduling=Scheduling()))
    assert placed(even, "a") == {"x", "y"}
    (change,) = decide(replace(even, scheduling=RESOURCE))
    assert isinstance(change, Update) and change.assignment is not None
    before = even.assignments["a-1-1"].value
    assert placement_of(change.assignment.value) == placement_of(before)
    assert [one.memory_mb for one in change.assignment.value.workers] == [1000, 1000]


def test_another_scheduler_or_acker_moves_nobody_on_a_full_machine() -> None:
    full = [machine("x", memory=4000)]
    even = settled(scene(topology("a"), topology("bb"), machines=full, scheduling=Scheduling()))
    changes = decide(replace(even, scheduling=RESOURCE))
    assert [change.topology_id for change in changes] == ["a-1-1", "bb-1-1"]
    done = settled(replace(even, scheduling=RESOURCE))
    for changed in (done, settled(replace(done, ackers={"k3": Acker("k3:1")}))):
        for topology_id, stored in even.assignments.items():
            assert placement_of(changed.assignments[topology_id].value) == placement_of(stored.value)


def test_a_rebalance_on_a_full_machine_leaves_the_neighbours_alone() -> None:
    done = settled(scene(topology("a"), topology("bb"), machines=[machine("x", memory=4000)]))
    after = settled(with_record(done, rebalancing(done.records["a-1-1"].value, workers=2)))
    assert len(after.assignments["a-1-1"].value.workers) == 2
    assert after.assignments["bb-1-1"] == done.assignments["bb-1-1"]


def test_what_does_not_fit_waits_as_a_whole_and_says_why() -> None:
    done = settled(scene(topology("a"), topology("bb", gpu=1), machines=[machine("x", gpu=3)]))
    assert (placed(done, "a"), placed(done, "bb")) == ({"x"}, set())
    assert reason(done, "bb") == (
        "None of its 4 executors has a place: they need 40% of a processor, 2,000 MB of memory and 4 gpu, of which the "
        "supervisors lack 1 gpu."
    )
    more = replace(done, supervisors={**done.supervisors, "y": machine("y", gpu=1)})
    assert placed(settled(more), "bb") == {"x", "y"}


def test_a_topology_with_fewer_workers_than_wanted_is_complete() -> None:
    done = settled(scene(topology("a", workers=3), machines=[machine("x", slots=1)]))
    assert len(done.assignments["a-1-1"].value.workers) == 1
    assert unscheduled(done.records["a-1-1"].value, done.assignments["a-1-1"].value, 0) == ""


def test_the_least_important_move_when_a_machine_shrinks() -> None:
    both = settled(scene(topology("a"), topology("bb"), machines=[machine("x")]))
    assert (placed(both, "a"), placed(both, "bb")) == ({"x"}, {"x"})
    less = replace(both, supervisors={"x": machine("x", memory=2500), "y": machine("y")})
    done = settled(less)
    assert (placed(done, "a"), placed(done, "bb")) == ({"x"}, {"y"})


def test_workers_stay_where_a_supervisor_is_gone_or_announces_nothing() -> None:
    done = settled(scene(topology("a"), machines=[machine("x")]))
    for supervisors in ({"y": machine("y")}, {"x": supervisor("x", 1, 2, 3, 4), "y": machine("y")}):
        assert decide(replace(done, supervisors=supervisors)) == []


def test_a_less_important_topology_gives_up_its_place() -> None:
    busy = settled(
        scene(topology("a"), topology("bb"), topology("ccc", tasks=1), machines=[machine("x"), machine("y", 400, 500)])
    )
    assert placed(busy, "ccc") == {"y"}
    full = replace(busy, records={**busy.records, "urgent-1-1": Versioned(topology("urgent", priority=3), 0)})
    assert reason(full, "urgent") == "It waits until less important topologies have given up their places: 'bb'."
    done = settled(full)
    assert (placed(done, "urgent"), placed(done, "a"), placed(done, "bb")) == ({"x"}, {"x"}, set())
    assert placed(done, "ccc") == {"y"}, "nobody ends who makes no room"
    assert reason(done, "bb") == (
        "None of its 4 executors has a place: an executor of 'split' needs 500 MB of memory, and no supervisor has "
        "any of that free."
    )


def test_places_that_wait_for_an_eviction_are_reserved() -> None:
    """Nobody less important takes the other half of what the topology waits for, to give it up again."""
    machines = [machine("x", memory=500), machine("y", memory=500)]
    busy = settled(scene(topology("a", tasks=1), machines=machines))
    waiting = (topology("bb", tasks=2, memory=100), topology("ccc", tasks=2, priority=1))
    more = {one.id: Versioned(one, 0) for one in waiting}
    done = settled(replace(busy, records={**busy.records, **more}))
    assert (placed(done, "ccc"), placed(done, "a"), placed(done, "bb")) == ({"x", "y"}, set(), set())


@pytest.mark.parametrize(("priority", "tasks"), [(29, 4), (3, 40)])
def test_nobody_ends_for_an_equal_or_where_that_makes_too_little_room(priority: int, tasks: int) -> None:
    busy = settled(scene(topology("a"), topology("bb"), machines=[machine("x")]))
    more = replace(busy, records={**busy.records, "z-1-1": Versioned(topology("z", tasks, priority=priority), 0)})
    assert [change for change in decide(more) if change.topology_id != "z-1-1"] == []


def test_an_owner_has_a_quota() -> None:
    quotas = Scheduling(True, {"ann": {"memory_mb": 3000.0, "cpu": 1000.0}})
    first, second, other = topology("a", owner="ann"), topology("bb", owner="ann"), topology("ccc", owner="bob")
    done = settled(scene(first, second, other, machines=[machine("x", memory=9000)], scheduling=quotas))
    assert (placed(done, "a"), placed(done, "bb"), placed(done, "ccc")) == ({"x"}, set(), {"x"})
    assert reason(done, "bb") == (
        "It needs 2,000 MB of memory, and the quota of its owner 'ann' is 3,000 MB of memory, of which other "
        "topologies use 2,000 MB of memory (nimbus.resource.quotas)."
    )
    assert decide(replace(done, scheduling=Scheduling(True, {"bob": {"cpu": 0.0}}))) != []
    less = replace(done, scheduling=Scheduling(True, {"ann": {"cpu": 1.0}, "bob": {"cpu": 1.0}}))
    assert decide(less)[1:] == [], "what runs stays; the other topology is recorded as waiting"


@pytest.mark.parametrize(
    ("quotas", "takes_a_place"),
    [
        ({}, True),
        ({"bob": {"topology.priority": 28}, "*": {"topology.priority": 29}}, True),
        ({"bob": {"topology.priority": 29}}, False),
        ({"ann": {"topology.priority": 0}, "*": {"topology.priority": 29}}, False),
    ],
)
def test_a_quota_bounds_how_important_a_topology_is(quotas: dict[str, dict[str, float]], takes_a_place: bool) -> None:
    both = topology("a", owner="ann"), topology("bb", owner="ann")
    busy = settled(scene(*both, machines=[machine("x")], scheduling=Scheduling(True, quotas)))
    urgent = topology("urgent", priority=0, owner="bob")
    done = settled(replace(busy, records={**busy.records, "urgent-1-1": Versioned(urgent, 0)}))
    assert (placed(done, "urgent"), placed(done, "bb")) == (({"x"}, set()) if takes_a_place else (set(), {"x"}))


def test_each_owner_who_is_not_named_has_the_quota_of_all_others() -> None:
    quotas = Scheduling(True, {"ann": {}, "*": {"memory_mb": 3000.0}})
    owners = {"a": "ann", "bb": "bob", "ccc": "eve", "dddd": "bob"}
    records = [topology(name, owner=owner) for name, owner in owners.items()]
    done = settled(scene(*records, machines=[machine("x", memory=9000)], scheduling=quotas))
    assert [placed(done, one) for one in owners] == [{"x"}, {"x"}, {"x"}, set()]
    assert "the quota of its owner 'bob' is 3,000 MB" in reason(done, "dddd")


def test_beyond_a_lowered_quota_what_runs_may_shrink_and_is_started_again() -> None:
    one = topology("a", owner="ann")
    done = settled(scene(one, machines=[machine("x")]))
    low = replace(done, scheduling=Scheduling(True, {"ann": {"memory_mb": 500.0}}))
    fewer = settled(with_record(low, rebalancing(done.records["a-1-1"].value, executors={"split": 2})))
    after = fewer.records["a-1-1"].value
    assert (after.status, after.executors["split"]) == (lifecycle.ACTIVE, 2), "its spouts do not wait for ever"
    (lost,) = placement_of(done.assignments["a-1-1"].value)
    dead = replace(low, dead=frozenset({("a-1-1", lost)}))
    (change,) = decide(dead)
    assert isinstance(change, Update) and change.assignment is not None
    assert sum(len(run) for run in placement_of(change.assignment.value).values()) == 4
    more = rebalancing(fewer.records["a-1-1"].value, executors={"split": 3})
    assert decide(with_record(replace(fewer, dead=frozenset()), more)) == [], "nothing more than what runs"


@pytest.mark.parametrize("quota", [5, {"cpu": -1}, {"cpu": "x"}, {"cpu": True}, None])
def test_a_quota_that_is_none_is_refused(quota: object) -> None:
    conf = {"nimbus.scheduler": "resource", "nimbus.resource.quotas": {"ann": quota}}
    with pytest.raises(ConfigError, match=r"key 'nimbus.resource.quotas', owner 'ann': write amounts .*\"cpu\": 800"):
        Scheduling.from_conf(conf)


def rebalancing(one: pb.TopologyRecord, **pending: object) -> pb.TopologyRecord:
    after = pb.TopologyRecord()
    after.CopyFrom(one)
    after.status = lifecycle.REBALANCING
    after.pending.CopyFrom(pb.PendingAction(due_unix_s=NOW - 1, resume=lifecycle.ACTIVE, **pending))  # type: ignore[arg-type]
    return after


def test_a_rebalance_places_a_topology_anew_where_it_fits() -> None:
    done = settled(scene(topology("a", memory=900), machines=[machine("x"), machine("y")]))
    assert len(done.assignments["a-1-1"].value.workers) == 2
    after = settled(with_record(done, rebalancing(done.records["a-1-1"].value, workers=4)))
    assert len(after.assignments["a-1-1"].value.workers) == 4
    assert after.records["a-1-1"].value.status == lifecycle.ACTIVE


def test_an_update_that_does_not_fit_waits_and_what_runs_stays() -> None:
    done = settled(scene(topology("a"), machines=[machine("x")]))
    version = version_of(topology("a", memory=1500))
    version.number = 1
    waiting = with_record(done, rebalancing(done.records["a-1-1"].value, update=version))
    assert decide(waiting) == []
    assert reason(waiting, "a") == (
        "Its rebalance or update waits. None of its 4 executors has a place: they need 40% of a processor and 6,000 "
        "MB of memory, of which the supervisors lack 2,000 MB of memory."
    )
    room = settled(replace(waiting, supervisors={**waiting.supervisors, "y": machine("y")}))
    assert room.records["a-1-1"].value.needs["split"].memory_mb == 1500
    assert placed(room, "a") == {"x", "y"}


def test_a_rebalance_by_the_load_that_does_not_fit_is_given_up() -> None:
    """Its spouts do not wait for room, no less important topology ends for it, and a key that joined it counts."""
    low = topology("low", tasks=1, priority=30)
    high = topology("a", tasks=3)
    high.tasks["split"] = 6
    done = settled(scene(high, low, machines=[machine("x", memory=2000)]))
    numbers = {"workers": 3, "executors": {"split": 6}}
    scaled = rebalancing(done.records["a-1-1"].value, autoscaled=pb.AutoscaleChange(executors=6), **numbers)
    scaled.pending.conf["topology.max.spout.pending"] = "7"
    waiting = with_record(done, scaled)
    assert "has a place" in lack_of(waiting, scaled)
    after = settled(waiting)
    record_after = after.records["a-1-1"].value
    assert (record_after.status, record_after.workers) == (lifecycle.ACTIVE, done.records["a-1-1"].value.workers)
    assert json.loads(record_after.conf_json)["topology.max.spout.pending"] == 7
    assert not record_after.HasField("autoscaled") and not record_after.HasField("pending")
    assert after.assignments == done.assignments
    roomy = replace(waiting, supervisors={**waiting.supervisors, "y": machine("y")})
    assert lack_of(roomy, scaled) == ""
    assert settled(roomy).records["a-1-1"].value.executors["split"] == 6


def test_a_dead_worker_comes_back_into_its_own_slot_if_nothing_else_is_free() -> None:
    done = settled(scene(topology("a", tasks=8), machines=[machine("x")]))
    before = placement_of(done.assignments["a-1-1"].value)
    lost = min(before)
    dead = replace(done, dead=frozenset({("a-1-1", lost)}))
    shortages: dict[str, str] = {}
    (change,) = decide(dead, None, shortages) or (None,)
    after = before if change is None else placement_of(change.assignment.value)  # type: ignore[union-attr]
    assert len([executor for run in after.values() for executor in run]) == 8
    assert {slot.supervisor_id for slot in after} == {"x"} and not shortages


def test_a_record_of_an_older_version_needs_the_defaults() -> None:
    done = settled(scene(record(), machines=[machine("x")]))
    assert [one.memory_mb for one in done.assignments["wc-1-1"].value.workers] == [256, 256]


names = st.sampled_from(["a", "bb", "ccc", "dddd", "eeeee"])


@given(
    st.dictionaries(
        names,
        st.tuples(st.integers(1, 6), st.sampled_from([100, 500, 900]), st.integers(1, 3), st.sampled_from([1, 29])),
        min_size=1,
    ),
    st.lists(
        st.tuples(st.sampled_from([50, 400]), st.sampled_from([500, 1500, 5000]), st.integers(1, 3)),
        min_size=1,
        max_size=4,
    ),
    st.data(),
)
def test_a_cluster_settles_below_its_capacities_whatever_comes_and_goes(
    topologies: dict[str, tuple[int, int, int, int]], machines: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    found = [machine(f"s{number}", *sizes) for number, sizes in enumerate(machines)]
    records = [topology(name, *sizes) for name, sizes in topologies.items()]
    done = settled_late(scene(*records, machines=found))
    check_capacities(done)
    sizes = data.draw(st.sampled_from(machines))
    changed = {
        **done.supervisors,
        "s0": machine("s0", *sizes),
        "new": machine("new", *data.draw(st.sampled_from(machines))),
    }
    after = settled_late(replace(done, supervisors=changed))
    check_capacities(after)
    slots = [slot for one in after.assignments.values() for slot in placement_of(one.value)]
    assert len(slots) == len(set(slots))


def settled_late(snapshot: Snapshot) -> Snapshot:
    """The cluster when nothing is left to decide. Topologies of several priorities take their turns."""
    for _ in range(20):
        if not decide(snapshot):
            return snapshot
        snapshot = applied(snapshot)
    raise AssertionError(f"still undecided: {decide(snapshot)}")


def test_a_slot_is_not_promised_to_two() -> None:
    both = scene(topology("a", tasks=1), topology("bb", tasks=1), machines=[machine("x", slots=1)])
    done = settled(both)
    assert (placed(done, "a"), placed(done, "bb")) == ({"x"}, set())
    assert reason(done, "bb").endswith("they need 1 free slots or more, and there are 0.")
    assert placement_of(done.assignments["a-1-1"].value).keys() == {Slot("x", 1)}
