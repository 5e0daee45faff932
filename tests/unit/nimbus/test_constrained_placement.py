"""Placement by resources under constraints: never broken, sticky, deterministic, and what is said of the rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_resource_scheduler import check, request, requests

from tupletree._constraints import Constraints, constraints_of
from tupletree.nimbus.leader.resource_request import ResourceRequest, keeping, ranked
from tupletree.nimbus.leader.resource_scheduler import place
from tupletree.nimbus.leader.resources import Vector
from tupletree.nimbus.leader.scheduler import Executor, Placement, Slot
from tupletree.nimbus.leader.shortage import shortage

SMALL = (10.0, 100.0, 0.0)
LARGE = (400.0, 4000.0, 0.0)


def kept_by(wanted: ResourceRequest, placement: Placement) -> bool:
    """True if a placement keeps the constraints, counted in another way than the scheduler does."""
    constraints = wanted.constraints
    machines: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for slot, run in placement.items():
        names = [wanted.components[executor] for executor in run]
        machines[slot.supervisor_id].update(names)
        if constraints.has_one_executor and len(names) > 1:
            return False
        if constraints.has_one_component and len(set(names)) > 1:
            return False
        if any(other in constraints.apart.get(name, ()) for name in names for other in names):
            return False
    return all(counts[name] <= limit for counts in machines.values() for name, limit in constraints.per_machine.items())


@st.composite
def constrained(draw: st.DrawFn) -> ResourceRequest:
    wanted = draw(requests())
    names = st.sampled_from("abcd")
    limits = draw(st.dictionaries(names, st.integers(1, 3), max_size=2))
    pairs = draw(st.lists(st.tuples(names, names).filter(lambda pair: pair[0] != pair[1]), max_size=3))
    conf: dict[str, Any] = {
        "topology.ras.constraints": {name: {"maxNodeCoLocationCnt": count} for name, count in limits.items()},
        "topology.spread.components": draw(st.none() | st.lists(names, min_size=1, max_size=2)),
        "topology.ras.one.executor.per.worker": draw(st.integers(0, 9)) == 0,
        "topology.ras.one.component.per.worker": draw(st.integers(0, 4)) == 0,
    }
    for one, other in pairs:
        conf["topology.ras.constraints"].setdefault(one, {}).setdefault("incompatibleComponents", []).append(other)
    racks = draw(st.dictionaries(st.sampled_from(sorted(wanted.room) or ["s0"]), st.sampled_from("rq")))
    ranks = ranked({one: one for one in wanted.room}, draw(st.lists(st.sampled_from(["s0", "s2"]))), ["s1"])
    return replace(wanted, constraints=constraints_of(conf), racks=racks, ranks=ranks)


@given(constrained())
def test_no_constraint_is_broken_and_no_capacity_exceeded(wanted: ResourceRequest) -> None:
    found = place(wanted)
    check(wanted, found)
    assert kept_by(wanted, found.placement)
    assert not found.missing or not found.placement, "whole or not at all"
    assert place(wanted) == found, "the same input gives the same output"


@given(constrained(), st.randoms(use_true_random=False))
def test_what_runs_stays_under_constraints_and_the_rest_comes_beside_it(wanted: ResourceRequest, random: Any) -> None:
    found = place(wanted)
    assert place(replace(wanted, alive=found.placement)).placement == found.placement
    assert keeping(found.placement, wanted) == found.placement
    if len(found.placement) > 1:
        lost = random.choice(sorted(found.placement))
        alive = {slot: run for slot, run in found.placement.items() if slot != lost}
        after = place(replace(wanted, alive=alive, suspect=[lost]))
        check(wanted, after)
        assert kept_by(wanted, after.placement)
        assert not after.missing, "its own slot is still there"


@given(constrained())
def test_what_has_no_place_is_explained_in_one_sentence(wanted: ResourceRequest) -> None:
    found = place(wanted)
    if found.missing:
        sentence = shortage(wanted, found)
        assert sentence.endswith(".") and sentence.count(". ") == 0 and " has a place: " in sentence


@given(st.integers(1, 12), st.integers(1, 4), st.lists(st.integers(0, 5), max_size=6), st.integers(1, 9))
def test_a_component_with_a_maximum_is_placed_exactly_when_there_are_enough_machines(
    count: int, limit: int, fitting: list[int], workers: int
) -> None:
    room: dict[str, Vector] = {f"s{number}": (10.0 * one, 100.0 * one, 0.0) for number, one in enumerate(fitting)}
    wanted = request({"a": count}, {"a": SMALL}, room, workers=workers)
    found = place(replace(wanted, constraints=Constraints(per_machine={"a": limit})))
    assert bool(found.missing) == (count > sum(min(limit, one) for one in fitting))


def constrained_request(
    counts: dict[str, int], machines: int, slots: int = 2, workers: int = 1, **conf: Any
) -> ResourceRequest:
    room = {f"m{number}": LARGE for number in range(machines)}
    wanted = request(counts, dict.fromkeys(counts, SMALL), room, slots, workers, worker_max_mb=9000)
    keys = {
        "constraints": "topology.ras.constraints",
        "spread": "topology.spread.components",
        "one_executor": "topology.ras.one.executor.per.worker",
        "one_component": "topology.ras.one.component.per.worker",
    }
    return replace(wanted, constraints=constraints_of({keys[name]: value for name, value in conf.items()}))


def machines_of(wanted: ResourceRequest, component: str) -> Counter[str]:
    return Counter(
        slot.supervisor_id
        for slot, run in place(wanted).placement.items()
        for executor in run
        if wanted.components[executor] == component
    )


def test_a_spread_component_has_one_executor_on_a_machine_and_others_come_with_it() -> None:
    wanted = constrained_request({"a": 3, "b": 3}, 4, spread=["a"])
    assert machines_of(wanted, "a") == {"m0": 1, "m1": 1, "m2": 1}
    assert machines_of(wanted, "b") == {"m0": 1, "m1": 1, "m2": 1}, "each worker has the same share"


def test_components_that_are_kept_apart_have_workers_of_their_own_on_the_same_machine() -> None:
    wanted = constrained_request({"a": 2, "b": 2, "c": 2}, 2, constraints={"a": {"incompatibleComponents": ["b"]}})
    runs = [{wanted.components[executor] for executor in run} for run in place(wanted).placement.values()]
    assert sorted(map(sorted, runs)) == [["a", "c"], ["b"]]
    assert {slot.supervisor_id for slot in place(wanted).placement} == {"m0"}


def test_a_worker_may_be_for_one_component_or_for_one_executor() -> None:
    one_component = constrained_request({"a": 4, "b": 2}, 2, workers=3, one_component=True)
    assert sorted(map(len, place(one_component).placement.values())) == [2, 2, 2]
    one_executor = constrained_request({"a": 2, "b": 1}, 2, one_executor=True)
    assert sorted(map(len, place(one_executor).placement.values())) == [1, 1, 1]


def test_favored_machines_are_used_first_in_their_order_and_unfavored_ones_last() -> None:
    wanted = constrained_request({"a": 6}, 4, slots=1, workers=3)
    hosts = {one: f"{one}.host" for one in wanted.room}
    first = replace(wanted, ranks=ranked(hosts, ["m3.host", "m2"], ["m0.host"]))
    assert {slot.supervisor_id for slot in place(first).placement} == {"m1", "m2", "m3"}
    assert {slot.supervisor_id for slot in place(replace(first, workers=1)).placement} == {"m3"}
    assert set(machines_of(replace(first, workers=4), "a")) == set(wanted.room), "unfavored, not forbidden"


RACKS = {"m0": "r1", "m1": "r2", "m2": "r1", "m3": "r2"}


def test_a_topology_stays_in_one_rack_if_it_fits_there() -> None:
    wanted = replace(constrained_request({"a": 4}, 4, slots=1, workers=2), racks=RACKS)
    assert {RACKS[slot.supervisor_id] for slot in place(wanted).placement} == {"r1"}
    alive: dict[Slot, tuple[Executor, ...]] = {Slot("m3", 0): ((1, 1), (2, 2))}
    assert {slot.supervisor_id for slot in place(replace(wanted, alive=alive)).placement} == {"m1", "m3"}, "where it is"
    larger = replace(wanted, room={**wanted.room, "m1": (900.0, 9000.0, 0.0)})
    assert {RACKS[slot.supervisor_id] for slot in place(larger).placement} == {"r2"}, "where there is most room"


def test_a_spread_component_is_spread_over_racks_first_and_one_with_a_maximum_is_not() -> None:
    spread = replace(constrained_request({"a": 2}, 4, spread=["a"]), racks=RACKS)
    assert set(machines_of(spread, "a")) == {"m0", "m1"}
    limited = constrained_request({"a": 2}, 4, constraints={"a": {"maxNodeCoLocationCnt": 1}})
    assert set(machines_of(replace(limited, racks=RACKS), "a")) == {"m0", "m2"}


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (
            constrained_request({"a": 3, "b": 1}, 2, spread=["a"]),
            "None of its 4 executors has a place: component 'a' may have 1 executor on a machine "
            "(topology.spread.components), so the machines with room and a free slot take 2 of 3.",
        ),
        (
            constrained_request({"a": 5}, 2, constraints={"a": {"maxNodeCoLocationCnt": 2}}),
            "None of its 5 executors has a place: component 'a' may have 2 executors on a machine "
            "(topology.ras.constraints), so the machines with room and a free slot take 4 of 5.",
        ),
        (
            constrained_request({"a": 1, "b": 1}, 1, slots=1, constraints={"a": {"incompatibleComponents": "b"}}),
            "None of its 2 executors has a place: they need 2 free slots or more, and there are 1 ('a' and 'b' may not "
            "share a worker: topology.ras.constraints).",
        ),
        (
            constrained_request({"a": 2, "b": 1}, 1, one_executor=True),
            "None of its 3 executors has a place: they need 3 free slots or more, and there are 2 (each worker has one "
            "executor: topology.ras.one.executor.per.worker).",
        ),
        (
            constrained_request({"a": 2, "b": 1, "c": 1}, 1, one_component=True),
            "None of its 4 executors has a place: they need 3 free slots or more, and there are 2 (a worker has "
            "executors of one component: topology.ras.one.component.per.worker).",
        ),
        (
            constrained_request(
                {"a": 2, "b": 1}, 2, slots=1, spread=["a"], constraints={"a": {"incompatibleComponents": "b"}}
            ),
            "None of its 3 executors has a place: they need 30% of a processor and 300 MB of memory, and the 800% of a "
            "processor and 8,000 MB of memory that supervisors have free are in pieces that are too small, without a "
            "free slot, or where 'a' and 'b' may not be (topology.spread.components and topology.ras.constraints).",
        ),
    ],
)
def test_a_shortage_names_the_component_and_the_constraint(wanted: ResourceRequest, sentence: str) -> None:
    assert shortage(wanted, place(wanted)) == sentence


def test_workers_that_break_a_constraint_are_not_kept_by_a_change_that_fits_nowhere() -> None:
    wanted = constrained_request({"a": 2, "b": 1}, 2, constraints={"a": {"incompatibleComponents": ["b"]}})
    mixed: Mapping[Slot, tuple[Executor, ...]] = {Slot("m0", 0): ((1, 1), (3, 3)), Slot("m0", 1): ((2, 2),)}
    assert keeping(mixed, wanted) == {Slot("m0", 1): ((2, 2),)}
