"""Placement by traffic: what comes together, and what holds for every topology."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from planner_snapshots import applied, cluster, record, settled

from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.planner import decide, placement_of, to_be_placed
from tupletree.nimbus.leader.scheduler import Placement, Slot, place_from_scratch
from tupletree.nimbus.leader.traffic import MAX_BUSIER, Traffic, bring_together, busiest, measured, within_workers
from tupletree.nimbus.statistics.topology_statistics import TopologyStatistics
from tupletree.parallelism import executors_of, task_ranges
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

SLOTS = [Slot(name, port) for name in "abcd" for port in (1, 2)]
CHAIN = {("a", "b"): 100.0, ("b", "c"): 1.0, ("c", "d"): 100.0}


def placed(tasks: dict[str, int], workers: int) -> Placement:
    return place_from_scratch(executors_of(task_ranges(tasks), {}), workers, SLOTS)


def components(placement: Placement, tasks: dict[str, int]) -> list[str]:
    """The components of each worker, as a word."""
    ranges = task_ranges(tasks)
    return sorted(
        "".join(next(name for name, ids in ranges.items() if first in ids) for first, _ in run)
        for run in placement.values()
    )


def together(tasks: dict[str, int], workers: int, tuples: dict[tuple[str, str], float], **busy_s: float) -> list[str]:
    even = placed(tasks, workers)
    return components(bring_together(even, even.keys(), tasks, Traffic(tuples, busy_s)), tasks)


def test_the_components_of_a_chain_that_talk_most_share_a_worker() -> None:
    tasks = dict.fromkeys("abcd", 1)
    assert components(placed(tasks, 2), tasks) == ["ac", "bd"]
    assert together(tasks, 2, CHAIN) == ["ab", "cd"]
    assert together(tasks, 2, {("a", "d"): 5.0, ("b", "c"): 4.0}) == ["ad", "bc"]


def test_a_chain_of_many_tasks_in_as_many_workers_is_cut_into_pairs() -> None:
    tasks = dict.fromkeys("abcd", 4)
    assert components(placed(tasks, 8), tasks) == ["ac"] * 4 + ["bd"] * 4
    assert together(tasks, 8, CHAIN) == ["ab"] * 4 + ["cd"] * 4


def test_what_reaches_its_receiver_in_every_worker_is_left_so() -> None:
    tasks = dict.fromkeys("abcd", 2)
    assert together(tasks, 2, {("a", "b"): 9.0, ("b", "c"): 8.0, ("c", "d"): 9.0}) == ["abcd", "abcd"]


def test_without_traffic_nothing_moves() -> None:
    tasks = dict.fromkeys("abcd", 1)
    assert together(tasks, 2, {}) == ["ac", "bd"]
    assert together(tasks, 2, {("__system", "a"): 7.0, ("x", "y"): 3.0}) == ["ac", "bd"]


def test_two_busy_components_do_not_come_into_one_worker() -> None:
    tasks = dict.fromkeys("abcd", 1)
    assert together(tasks, 2, {("a", "b"): 100.0}, a=50, b=50) == ["ac", "bd"]
    assert together(tasks, 2, {("a", "b"): 100.0}, a=50, b=1, c=1, d=1) == ["ab", "cd"]


def test_a_slot_that_may_not_change_does_not() -> None:
    tasks = dict.fromkeys("abcd", 1)
    even = placed(tasks, 2)
    assert bring_together(even, list(even)[:1], tasks, Traffic(CHAIN)) == even


def test_executors_belong_to_the_same_components_whatever_the_first_task_is() -> None:
    tasks = dict.fromkeys("abcd", 1)
    even = placed(tasks, 2)
    moved = {slot: tuple((first + 40, last + 40) for first, last in run) for slot, run in even.items()}
    found = bring_together(moved, list(moved), tasks, Traffic(CHAIN), 41)
    assert found != moved
    assert {slot: tuple((first - 40, last - 40) for first, last in run) for slot, run in found.items()} == (
        bring_together(even, list(even), tasks, Traffic(CHAIN))
    )


counts = st.integers(1, 4)
names = st.sampled_from("abcde")


@st.composite
def topologies(draw: st.DrawFn) -> tuple[dict[str, int], Placement, list[Slot], Traffic]:
    tasks = {name: draw(counts) for name in "abcde"[: draw(st.integers(2, 5))]}
    executors = executors_of(task_ranges(tasks), {name: draw(counts) for name in tasks})
    placement = place_from_scratch(executors, draw(st.integers(1, 8)), SLOTS)
    tuples = draw(st.dictionaries(st.tuples(names, names), st.floats(0, 1000), max_size=8))
    busy_s = draw(st.dictionaries(names, st.floats(0, 100), max_size=5))
    changing = draw(st.lists(st.sampled_from(sorted(placement)), unique=True))
    return tasks, placement, changing, Traffic(tuples, busy_s)


@given(topologies())
def test_counts_stay_and_neither_traffic_nor_the_busiest_worker_gets_worse(
    topology: tuple[dict[str, int], Placement, list[Slot], Traffic],
) -> None:
    tasks, even, changing, traffic = topology
    found = bring_together(even, changing, tasks, traffic)
    assert {slot: len(run) for slot, run in found.items()} == {slot: len(run) for slot, run in even.items()}
    assert sorted(one for run in found.values() for one in run) == sorted(one for run in even.values() for one in run)
    assert {slot: found[slot] for slot in even if slot not in changing} == {
        slot: even[slot] for slot in even if slot not in changing
    }
    before, after = within_workers(even, tasks, traffic), within_workers(found, tasks, traffic)
    slack = 1e-4 * (1 + sum(traffic.tuples.values()))
    assert after.shuffled >= before.shuffled - slack
    assert after.local >= before.local - slack
    if found != even:
        assert busiest(found, tasks, traffic) <= MAX_BUSIER * busiest(even, tasks, traffic) + 1e-9
    assert bring_together(even, list(reversed(changing)), tasks, traffic) == found


CHAINED = record(workers=2, tasks=1)
CHAINED.tasks.clear()
CHAINED.executors.clear()
for name in "abcd":
    CHAINED.tasks[name] = CHAINED.executors[name] = 1


def words(snapshot) -> list[str]:  # type: ignore[no-untyped-def]
    placement = placement_of(snapshot.assignments[CHAINED.id].value)
    return components(placement, dict.fromkeys("abcd", 1))


def test_a_rebalance_brings_together_and_a_first_placement_is_even() -> None:
    even = settled(cluster(CHAINED))
    assert words(even) == ["ac", "bd"]
    assert not list(to_be_placed(even))
    pending = pb.PendingAction(due_unix_s=1.0, resume=lifecycle.ACTIVE)
    stored = even.records[CHAINED.id]
    moving = pb.TopologyRecord()
    moving.CopyFrom(stored.value)
    moving.status = lifecycle.REBALANCING
    moving.pending.CopyFrom(pending)
    rebalancing = replace(even, records={CHAINED.id: replace(stored, value=moving)})
    assert [one.id for one in to_be_placed(rebalancing)] == [CHAINED.id]
    after = applied(replace(rebalancing, traffic={CHAINED.id: Traffic(CHAIN)}))
    assert words(after) == ["ab", "cd"]
    assert decide(replace(after, traffic={CHAINED.id: Traffic({("a", "d"): 9.0})})) == []  # sticky


def test_of_a_topology_that_lost_a_worker_the_others_stay_as_they_are() -> None:
    even = settled(cluster(CHAINED))
    [lost, kept] = sorted(placement_of(even.assignments[CHAINED.id].value))
    dead = replace(even, dead=frozenset({(CHAINED.id, lost)}), traffic={CHAINED.id: Traffic(CHAIN)})
    assert [one.id for one in to_be_placed(dead)] == [CHAINED.id]
    before = placement_of(even.assignments[CHAINED.id].value)
    after = placement_of(applied(dead).assignments[CHAINED.id].value)
    assert after[kept] == before[kept]


def test_traffic_is_what_bolts_have_executed_of_each_source() -> None:
    statistics = TopologyStatistics()
    for at_s, count in ((0.0, 0), (100.0, 70)):
        inputs = [rpc.InputStats(source_component="a", stream=one, executed=count) for one in ("default", "other")]
        inputs.append(rpc.InputStats(source_component="__system", stream="__tick", executed=count))
        stats = [rpc.TaskStats(task_id=1, component_id="a", execute_s=count / 10)]
        stats.append(rpc.TaskStats(task_id=2, component_id="b", executed=2 * count, inputs=inputs))
        statistics.report(rpc.WorkerReport(worker_id="w", tasks=stats, uptime_s=at_s), at_s)
    assert measured(statistics, ["a", "b", "c"], 100.0) == Traffic({("a", "b"): 140.0}, {"a": 7.0, "b": 0.0, "c": 0.0})
