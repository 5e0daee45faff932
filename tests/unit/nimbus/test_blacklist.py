"""The blacklist of machines that keep failing: what counts, how long it holds, and when a machine is released."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.nimbus.planner_snapshots import cluster, record, settled, supervisor, used
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.blacklist import Blacklist, BlacklistRule, Demand, Entry, demand_of, to_release
from tupletree.nimbus.leader.lack_of_room import lacks_resources
from tupletree.nimbus.leader.planner import placement_of
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.leader.scheduling import Scheduling

RULE = BlacklistRule(count=3, within_s=300, resume_s=1800)
BOTH = {"a": 1.0, "b": 2.0}  # when their processes started
ONCE = BlacklistRule(count=1, within_s=300, resume_s=1800)


def lose(blacklist: Blacklist, name: str, *times_s: float) -> None:
    for at_s in times_s:
        blacklist.observe(BOTH, (), at_s)
        blacklist.observe({one: at for one, at in BOTH.items() if one != name}, (), at_s + 1)
        blacklist.observe(BOTH, (), at_s + 2)


def test_a_supervisor_that_is_lost_three_times_gets_no_new_workers_for_its_time() -> None:
    blacklist = Blacklist(RULE)
    lose(blacklist, "a", 0, 10)
    assert not blacklist.listed
    (change,) = blacklist.observe({"b": 2.0}, (), 21)
    assert (change.supervisor_id, change.is_listed) == ("a", True)
    assert change.sentence == (
        "it gets no new workers for 1800 s after 3 failures within 300 s: its supervisor was lost (3 times)"
    )
    assert blacklist.observe(BOTH, (), 1820) == [] and set(blacklist.listed) == {"a"}
    (change,) = blacklist.observe(BOTH, (), 1821)
    assert (change.supervisor_id, change.is_listed, change.sentence) == ("a", False, "its time is over")
    lose(blacklist, "a", 1830, 1840)
    assert not blacklist.listed  # it has begun anew


def test_failures_further_apart_than_the_window_and_losses_of_all_machines_do_not_count() -> None:
    blacklist = Blacklist(RULE)
    lose(blacklist, "a", 0, 200, 400, 600)
    assert not blacklist.listed
    for at_s in (1000, 1010, 1020):
        blacklist.observe(BOTH, (), at_s)
        blacklist.observe({}, (), at_s + 1)
    assert not blacklist.listed


def test_a_supervisor_that_is_back_before_the_leader_looks_was_lost_unless_all_were() -> None:
    blacklist = Blacklist(ONCE)
    blacklist.observe(BOTH, (), 0)
    blacklist.observe({"a": 10.0, "b": 11.0}, (), 20)
    assert not blacklist.listed
    (change,) = blacklist.observe({"a": 10.0, "b": 30.0}, (), 31)
    assert (change.supervisor_id, change.sentence.rpartition(": ")[2]) == ("b", "its supervisor was lost")
    assert blacklist.observe({"a": 10.0, "b": 30.0}, (), 32) == []


def test_nothing_is_counted_without_a_rule() -> None:
    blacklist = Blacklist(BlacklistRule())
    lose(blacklist, "a", 0, 10, 20)
    assert not blacklist.listed


def test_silent_workers_of_two_topologies_are_one_failure_of_their_machine() -> None:
    blacklist = Blacklist(ONCE)
    first, second = ("x", Slot("a", 1)), ("y", Slot("a", 2))
    blacklist.observe(BOTH, {first}, 0)
    assert not blacklist.listed
    (change,) = blacklist.observe(BOTH, {first, second}, 5)
    assert change.sentence == (
        "it gets no new workers for 1800 s after 1 failure within 300 s: workers of several topologies fell silent"
    )


@pytest.mark.parametrize(
    ("registered", "rounds"),
    [
        (BOTH, [{("x", Slot("a", 1))}, {("x", Slot("a", 1)), ("x", Slot("a", 2))}]),  # one topology alone
        (BOTH, [{("x", Slot("a", 1)), ("x", Slot("b", 1)), ("y", Slot("a", 2))}]),  # x is silent everywhere
        ({"b": 2.0}, [{("x", Slot("a", 1)), ("y", Slot("a", 2))}]),  # its loss is counted already
    ],
)
def test_silence_with_another_likely_cause_is_no_failure(
    registered: dict[str, float], rounds: list[set[tuple[str, Slot]]]
) -> None:
    blacklist = Blacklist(ONCE)
    for at_s, silent in enumerate(rounds):
        blacklist.observe(registered, silent, float(at_s))
    assert not blacklist.listed


def test_silences_far_apart_are_no_failure() -> None:
    blacklist = Blacklist(ONCE)
    blacklist.observe(BOTH, {("x", Slot("a", 1))}, 0)
    blacklist.observe(BOTH, {("y", Slot("a", 2))}, 11)
    assert not blacklist.listed


def entry(failures: int, until_s: float = 0.0) -> Entry:
    return Entry(failures, until_s, "")


def test_the_least_bad_machines_are_released_as_far_as_slots_are_missing() -> None:
    listed = {"a": entry(5), "b": entry(3, 9), "c": entry(3, 4), "gone": entry(1)}
    free = {"a": 2, "b": 2, "c": 2, "good": 1}
    assert to_release(listed, Demand(1, free)) == []
    assert to_release(listed, Demand(2, free)) == ["c"]
    assert to_release(listed, Demand(4, free)) == ["c", "b"]
    assert to_release(listed, Demand(99, free)) == ["c", "b", "a"]
    assert to_release(listed, Demand(0, free, is_short=True)) == ["c"]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9)),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 4)),
    st.integers(0, 30),
)
def test_released_machines_make_enough_room_and_none_could_be_spared(
    failures: dict[str, int], free: dict[str, int], missing: int
) -> None:
    listed = {one: entry(count) for one, count in failures.items()}
    released = to_release(listed, Demand(missing, free))

    def room(gone: list[str]) -> int:
        return sum(count for one, count in free.items() if one not in listed or one in gone)

    assert room(released) >= min(missing, sum(free.values()))
    assert not released or room(released[:-1]) < missing
    kept = [listed[one].failures for one in listed if one not in released and free.get(one)]
    assert all(listed[one].failures <= other for one in released for other in kept)


def test_a_blacklisted_machine_keeps_what_runs_and_gets_nothing_new() -> None:
    before = settled(cluster(record(workers=2)))
    assert {one.supervisor_id for one in used(before)} == {"a", "b"}
    more = replace(before, records={**before.records, **cluster(record("new", workers=1)).records})
    after = settled(replace(more, blacklisted=frozenset({"a"})))
    assert after.assignments["wc-1-1"] == before.assignments["wc-1-1"]
    assert {one.supervisor_id for one in placement_of(after.assignments["new-1-1"].value)} == {"b"}


def test_a_dead_worker_of_a_blacklisted_machine_moves() -> None:
    before = settled(cluster(record(workers=2)))
    dead = frozenset(("wc-1-1", slot) for slot in used(before) if slot.supervisor_id == "a")
    after = settled(replace(before, dead=dead, blacklisted=frozenset({"a"})))
    assert {one.supervisor_id for one in used(after)} == {"b"}


def test_the_resource_scheduler_avoids_it_too() -> None:
    machines = {one: supervisor(one, 1, 2) for one in BOTH}
    for one in machines.values():
        one.cpu_percent, one.memory_mb = 400, 4000
    snapshot = cluster(record(workers=1), supervisors=machines, scheduling=Scheduling(by_resources=True))
    for avoided, other in (("a", "b"), ("b", "a")):
        after = settled(replace(snapshot, blacklisted=frozenset({avoided})))
        assert {one.supervisor_id for one in used(after)} == {other}


def test_missing_slots_are_those_of_topologies_without_enough_live_workers() -> None:
    machines = {one: supervisor(one, 1, 2) for one in BOTH}
    executor = ((1, 1),)
    placed = {"wc-1-1": {Slot("a", 1): executor, Slot("b", 1): executor}}
    demand = demand_of([record(workers=2), record("new", workers=1)], placed, (), machines, is_short=False)
    assert demand == Demand(1, {"a": 1, "b": 1})
    silent = {("wc-1-1", Slot("a", 1))}
    assert demand_of([record(workers=2)], placed, silent, machines, is_short=False) == Demand(1, {"a": 2, "b": 1})
    rebalances = record(workers=2, status=lifecycle.REBALANCING)
    assert demand_of([rebalances], placed, (), machines, is_short=False) == Demand(2, {"a": 2, "b": 2})
    killed = record(workers=2, status=lifecycle.KILLED)
    assert demand_of([killed], placed, (), machines, is_short=False) == Demand(0, {"a": 1, "b": 1})


def test_a_quota_is_no_lack_that_a_machine_could_end() -> None:
    quota = "It needs 20% of a processor, and the quota of its owner 'ann' is …, of which … (nimbus.resource.quotas)."
    assert not lacks_resources([quota])
    assert lacks_resources([quota, "None of its 2 executors has a place: …"])
