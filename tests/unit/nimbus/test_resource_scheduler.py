"""Placement by resources: never over capacity, sticky, deterministic, all that fits, and what is said of the rest."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.nimbus.leader.resource_request import Placed, ResourceRequest
from tupletree.nimbus.leader.resource_scheduler import place
from tupletree.nimbus.leader.resources import MEMORY, Axes, Vector, plus
from tupletree.nimbus.leader.scheduler import Executor, Placement, Slot
from tupletree.nimbus.leader.shortage import shortage

GPU = Axes(("gpu",))


def request(
    counts: dict[str, int],
    needs: dict[str, Vector],
    room: dict[str, Vector],
    slots: int = 4,
    workers: int = 1,
    worker_max_mb: float = 768.0,
) -> ResourceRequest:
    names = [name for name, count in sorted(counts.items()) for _ in range(count)]
    return ResourceRequest(
        components={(task, task): name for task, name in enumerate(names, 1)},
        needs=needs,
        workers=workers,
        worker_max_mb=worker_max_mb,
        axes=GPU,
        alive={},
        offered=frozenset(Slot(name, port) for name in room for port in range(slots)),
        room=room,
    )


def by_supervisor(wanted: ResourceRequest, placement: Placement) -> dict[str, Vector]:
    found: defaultdict[str, Vector] = defaultdict(lambda: GPU.zero)
    for slot, run in placement.items():
        found[slot.supervisor_id] = plus(found[slot.supervisor_id], wanted.sum(run))
    return dict(found)


def check(wanted: ResourceRequest, found: Placed) -> None:
    """Hold that a placement is complete or says what is missing, and exceeds no capacity."""
    placed = [executor for run in found.placement.values() for executor in run]
    assert len(placed) == len(set(placed))
    assert sorted([*placed, *found.missing]) == sorted(wanted.components)
    assert found.placement.keys() <= set(wanted.offered) | wanted.alive.keys()
    for supervisor, used in by_supervisor(wanted, found.placement).items():
        assert all(a <= b + 1e-5 for a, b in zip(used, wanted.room[supervisor], strict=True))
    for slot, run in found.placement.items():
        assert wanted.sum(run)[MEMORY] <= wanted.worker_max_mb + 1e-5 or slot in wanted.alive


amounts = st.sampled_from([0.0, 10.0, 33.3, 100.0])
memories = st.sampled_from([1.0, 64.0, 128.0, 300.5, 700.0])
vectors = st.tuples(amounts, memories, st.sampled_from([0.0, 0.0, 1.0, 0.5]))
rooms = st.tuples(
    st.sampled_from([0.0, 50.0, 400.0]), st.sampled_from([100.0, 1000.0, 4000.0]), st.sampled_from([0.0, 1.0, 2.0])
)


@st.composite
def requests(draw: st.DrawFn) -> ResourceRequest:
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True))
    counts = {name: draw(st.integers(1, 6)) for name in names}
    needs = {name: draw(vectors) for name in names}
    room = {f"s{number}": draw(rooms) for number in range(draw(st.integers(0, 5)))}
    return request(counts, needs, room, draw(st.integers(1, 4)), draw(st.integers(1, 6)))


@given(requests())
def test_no_capacity_is_exceeded_and_a_topology_is_placed_whole_or_not_at_all(wanted: ResourceRequest) -> None:
    found = place(wanted)
    check(wanted, found)
    assert not found.missing or not found.placement
    assert place(wanted) == found, "the same input gives the same output"


@given(requests(), st.randoms(use_true_random=False))
def test_what_runs_stays_and_the_rest_comes_beside_it(wanted: ResourceRequest, random: object) -> None:
    found = place(wanted)
    again = replace(wanted, alive=found.placement)
    assert place(again).placement == found.placement, "feeding the output back moves nothing"
    if len(found.placement) > 1:
        lost = random.choice(sorted(found.placement))  # type: ignore[attr-defined]
        alive = {slot: run for slot, run in found.placement.items() if slot != lost}
        after = place(replace(wanted, alive=alive, suspect=[lost]))
        check(wanted, after)
        assert not after.missing, "its own slot is still there"
        if lost in after.placement and len(after.placement) == len(found.placement):  # or what is missing is divided
            assert after.placement == found.placement


@given(
    st.integers(1, 40),
    vectors,
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=6),
    st.integers(1, 9),
)
def test_executors_with_equal_needs_are_placed_exactly_when_there_is_room(
    count: int, needs: Vector, machines: list[tuple[int, int]], workers: int
) -> None:
    """Each machine has slots, and room for a number of executors: nothing else counts, and more never harms."""
    per_worker = int((768.0 + 1e-6) // needs[MEMORY])
    room = {f"s{number}": plus(GPU.zero, needs, fitting) for number, (_, fitting) in enumerate(machines)}
    wanted = request({"a": count}, {"a": needs}, room, workers=workers)
    offered = [Slot(f"s{number}", port) for number, (slots, _) in enumerate(machines) for port in range(slots)]
    found = place(replace(wanted, offered=offered))
    places = sum(min(fitting, slots * per_worker) for slots, fitting in machines)
    assert bool(found.missing) == (count > places)
    check(replace(wanted, offered=offered), found)
    if not found.missing:
        larger = {name: plus(one, needs) for name, one in room.items()}
        assert not place(replace(wanted, offered=offered, room=larger)).missing


def test_a_topology_is_spread_evenly_over_its_workers_on_few_machines() -> None:
    wanted = request(
        {"a": 4, "b": 2}, {"a": (10, 50, 0), "b": (10, 50, 0)}, dict.fromkeys("xy", (400, 2000, 0)), workers=2
    )
    assert place(wanted).placement == {
        Slot("x", 0): ((1, 1), (3, 3), (5, 5)),
        Slot("x", 1): ((2, 2), (4, 4), (6, 6)),
    }


def test_named_resources_are_left_to_those_that_need_them() -> None:
    room = {"a": (400.0, 300.0, 2.0), "b": (400.0, 300.0, 0.0)}
    wanted = request({"plain": 1, "train": 2}, {"plain": (10, 250, 0), "train": (10, 140, 1)}, room, workers=3)
    found = place(wanted).placement
    assert {slot.supervisor_id: sorted(wanted.components[e] for e in run) for slot, run in found.items()} in (
        {"b": ["plain"], "a": ["train"]}, {"b": ["plain"], "a": ["train", "train"]},
    )  # fmt: skip


def test_a_worker_stays_below_its_maximum_of_memory() -> None:
    wanted = request({"a": 10}, {"a": (1, 200, 0)}, {"x": (400, 9000, 0)}, slots=8)
    assert sorted(map(len, place(wanted).placement.values())) == [2, 2, 3, 3]
    assert place(replace(wanted, worker_max_mb=199.0)).missing


def test_workers_that_run_move_if_there_is_no_other_way() -> None:
    room = {"x": (100.0, 1000.0, 0.0), "y": (100.0, 1000.0, 0.0)}
    wanted = request({"a": 2, "b": 2}, {"a": (0, 400, 0), "b": (0, 600, 0)}, room, workers=4)
    a1, a2 = Slot("x", 0), Slot("x", 1)
    alive: dict[Slot, tuple[Executor, ...]] = {a1: ((1, 1),), a2: ((2, 2),)}
    found = place(replace(wanted, alive=alive))
    assert not found.missing, "a and b of each machine"
    check(wanted, found)


@pytest.mark.parametrize(
    ("counts", "needs", "room", "sentence"),
    [
        ({"a": 3}, (10, 100, 0), {}, "None of its 3 executors has a place: no supervisor announces a capacity."),
        (
            {"a": 1}, (10, 100, 2), {"x": (400, 900, 1.0), "y": (400, 900, 0.0)},
            "None of its 1 executors has a place: an executor of 'a' needs 2 gpu, and no supervisor has more than 1 "
            "gpu free, which is on 'x'.",
        ),
        (
            {"a": 1}, (10, 900, 0), {"x": (400, 2000, 0)},
            "None of its 1 executors has a place: an executor of 'a' needs 900 MB of memory, and "
            "topology.worker.max.heap.size.mb permits 768 in a worker.",
        ),
        (
            {"a": 9}, (50, 100, 0), {"x": (400, 2000, 0)},
            "None of its 9 executors has a place: they need 450% of a processor and 900 MB of memory, of which the "
            "supervisors lack 50% of a processor.",
        ),
        (
            {"a": 40}, (1, 100, 0), {"x": (400, 9000, 0)},
            "None of its 40 executors has a place: they need 6 free slots or more, and there are 4.",
        ),
        (
            {"a": 3}, (60, 100, 0), {"x": (100, 2000, 0), "y": (100, 2000, 0)},
            "None of its 3 executors has a place: they need 180% of a processor and 300 MB of memory, and the 200% "
            "of a processor and 4,000 MB of memory that supervisors have free are in pieces that are too small, or "
            "without a free slot.",
        ),
    ],
)  # fmt: skip
def test_a_shortage_names_what_is_missing_and_where(
    counts: dict[str, int], needs: Vector, room: dict[str, Vector], sentence: str
) -> None:
    wanted = request(counts, dict.fromkeys(counts, needs), room)
    assert shortage(wanted, place(wanted)) == sentence


def test_a_shortage_beside_workers_that_run_counts_what_they_use() -> None:
    wanted = request({"a": 2}, {"a": (60, 100, 0)}, {"x": (100, 2000, 0)})
    alive: dict[Slot, tuple[Executor, ...]] = {Slot("x", 0): ((1, 1),)}
    found = place(replace(wanted, alive=alive))
    assert found == Placed(alive, ((2, 2),))
    assert shortage(replace(wanted, alive=alive), found) == (
        "None of the 1 executors that do not run, of 2, has a place: an executor of 'a' needs 60% of a processor, and "
        "no supervisor has more than 40% of a processor free, which is on 'x'."
    )
