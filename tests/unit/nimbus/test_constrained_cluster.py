"""Decisions about topologies with constraints: kept whatever comes and goes, also by updates and measured traffic."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planner_snapshots import NOW, applied, record, settled
from test_component_needs import header
from test_resource_placing import check_capacities, machine, reason, scene, settled_late

from tupletree import config
from tupletree._constraints import PLACEMENT_KEYS
from tupletree._coord.versioned import Versioned
from tupletree.errors import UsageError
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.planner import Snapshot, decide, placement_of
from tupletree.nimbus.leader.resource_placing import settings
from tupletree.nimbus.leader.resources import Components
from tupletree.nimbus.leader.traffic import Traffic
from tupletree.nimbus.submission.validation import new_record
from tupletree.nimbus.updates import version_of
from tupletree.v1 import topology_pb2 as pb

SPREAD = {"topology.spread.components": ["b"]}
APART = {"topology.ras.constraints": {"a": {"incompatibleComponents": ["b"]}}}


def topology(name: str, conf: dict[str, Any], tasks: int = 2, workers: int = 2, **fields: object) -> pb.TopologyRecord:
    found = record(name, workers, 0, conf_json=json.dumps(conf), **fields)
    del found.tasks["split"], found.executors["split"]
    for component in "ab":
        found.tasks[component] = found.executors[component] = tasks
    return found


def runs(snapshot: Snapshot, name: str) -> list[tuple[str, str]]:
    """The machine and the components of each worker, such as ``("x", "aab")``."""
    of = Components(snapshot.records[f"{name}-1-1"].value).of
    placement = placement_of(snapshot.assignments[f"{name}-1-1"].value)
    return [(slot.supervisor_id, "".join(sorted(of(one) or "?" for one in run))) for slot, run in placement.items()]


def check_constraints(snapshot: Snapshot) -> None:
    for topology_id, stored in snapshot.assignments.items():
        asked = settings(snapshot.records[topology_id].value.conf_json).constraints
        on_machine: Counter[tuple[str, str]] = Counter()
        for machine_id, names in runs(snapshot, stored.value.topology_id.removesuffix("-1-1")):
            assert asked.permit(Counter(names))
            on_machine.update((machine_id, name) for name in names)
        assert all(count <= asked.per_machine.get(name, 99) for (_, name), count in on_machine.items())


confs = st.sampled_from([{}, SPREAD, APART, {**SPREAD, **APART}, {"topology.ras.one.component.per.worker": True}])


@given(
    st.dictionaries(
        st.sampled_from(["s", "tt", "uuu"]), st.tuples(confs, st.integers(1, 3), st.integers(1, 3)), min_size=1
    ),
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["", "r1", "r2"])), min_size=1, max_size=4),
    st.data(),
)
def test_constraints_hold_whatever_comes_and_goes(
    topologies: dict[str, tuple[dict[str, Any], int, int]], machines: list[tuple[int, str]], data: st.DataObject
) -> None:
    found = [machine(f"m{number}", 90, 800, slots) for number, (slots, _) in enumerate(machines)]
    for one, (_, rack) in zip(found, machines, strict=True):
        one.rack = rack
    done = settled_late(scene(*(topology(name, *it) for name, it in topologies.items()), machines=found))
    check_constraints(done)
    check_capacities(done)
    used = [(one, slot) for one, it in done.assignments.items() for slot in placement_of(it.value)]
    dead = frozenset(data.draw(st.sets(st.sampled_from(used)))) if used else frozenset()
    more = {**done.supervisors, "new": machine("new", 90, 800, 2)}
    after = settled_late(replace(done, supervisors=more, dead=dead))
    check_constraints(after)
    check_capacities(after)
    assert decide(after) == []


def test_measured_traffic_exchanges_no_executors_with_constraints() -> None:
    traffic = {"t-1-1": Traffic({("a", "b"): 1000.0}, {"a": 1.0, "b": 1.0})}
    machines = [machine("x"), machine("y")]
    done = settled(replace(scene(topology("t", {**SPREAD, **APART}, 2, 4), machines=machines), traffic=traffic))
    check_constraints(done)
    assert sorted(names for _, names in runs(done, "t")) == ["a", "a", "b", "b"]


def updating(done: Snapshot, conf: dict[str, Any]) -> Snapshot:
    """The snapshot in which topology t waits for an update to this configuration."""
    after = pb.TopologyRecord()
    after.CopyFrom(done.records["t-1-1"].value)
    after.status = lifecycle.REBALANCING
    after.pending.due_unix_s, after.pending.resume = NOW - 1, lifecycle.ACTIVE
    after.pending.update.CopyFrom(version_of(done.records["t-1-1"].value))
    after.pending.update.number, after.pending.update.conf_json = 1, json.dumps(conf)
    return replace(done, records={"t-1-1": Versioned(after, 1)})


def test_an_update_to_constraints_is_placed_anew_or_waits_and_what_runs_stays() -> None:
    done = settled(scene(topology("t", {}, 2, 1), machines=[machine("x", slots=4), machine("y", slots=4)]))
    assert runs(done, "t") == [("x", "aabb")]
    apart = settled(updating(done, {**SPREAD, **APART}))
    check_constraints(apart)
    assert sorted(names for _, names in runs(apart, "t")) == ["aa", "b", "b"]

    one = settled(scene(topology("t", {}, 2, 1), machines=[machine("x")]))
    waits = updating(one, SPREAD)
    assert decide(waits) == [], "what runs stays as it is"
    assert reason(waits, "t") == (
        "Its rebalance or update waits. None of its 4 executors has a place: component 'b' may have 1 executor on a "
        "machine (topology.spread.components), so the machines with room and a free slot take 1 of 2."
    )
    assert runs(applied(replace(waits, supervisors={"x": machine("x"), "y": machine("y")})), "t") != runs(one, "t")


def test_racks_and_named_machines_reach_the_placement() -> None:
    machines = [machine(name, slots=1) for name in "wxyz"]
    for one, rack in zip(machines, ["r1", "r2", "r1", "r2"], strict=True):
        one.rack = rack
    packed = settled(scene(topology("t", {}), machines=machines))
    assert {name for name, _ in runs(packed, "t")} == {"w", "y"}
    spread = settled(scene(topology("t", SPREAD), machines=machines))
    assert {name for name, _ in runs(spread, "t")} == {"w", "x"}
    favored = settled(scene(topology("t", {"topology.scheduler.favored.nodes": ["z.host", "y"]}), machines=machines))
    assert {name for name, _ in runs(favored, "t")} == {"y", "z"}
    unfavored = {"topology.scheduler.unfavored.nodes": ["w.host", "z"]}
    assert {name for name, _ in runs(settled(scene(topology("t", unfavored), machines=machines)), "t")} == {"x", "y"}


def test_constraints_on_components_that_are_not_there_are_refused_by_nimbus() -> None:
    with pytest.raises(UsageError, match=r"names component 'trian', which it does not have; did you mean 'train'\?$"):
        new_record(header(**{"topology.spread.components": ["trian"]}), config.defaults(), "t-1-1", 0.0)
    record_ = new_record(header(**{"topology.spread.components": ["train"]}), config.defaults(), "t-1-1", 0.0)
    assert settings(record_.conf_json).constraints.per_machine == {"train": 1}
    assert all(key in config.defaults() for key in PLACEMENT_KEYS)
