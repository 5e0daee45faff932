"""The even scheduler: Storm's order and numbers, and what must hold for every cluster."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tupletree.nimbus.leader.scheduler import Request, Slot, even_sizes, interleaved, place, place_from_scratch
from tupletree.parallelism import executors_of

A, B, C = (tuple(Slot(name, port) for port in (1, 2, 3)) for name in "abc")


def executors(count: int) -> list[tuple[int, int]]:
    return [(task, task) for task in range(1, count + 1)]


def run(*tasks: int) -> tuple[tuple[int, int], ...]:
    return tuple((task, task) for task in tasks)


def test_ten_over_four_is_two_of_three_and_two_of_two() -> None:
    assert even_sizes(10, 4) == [3, 3, 2, 2]


def test_slots_are_taken_first_port_of_each_supervisor_first() -> None:
    assert interleaved([*B, *A]) == [A[0], B[0], A[1], B[1], A[2], B[2]]


def test_a_supervisor_with_more_free_slots_comes_first() -> None:
    assert interleaved([A[2], *B]) == [B[0], A[2], B[1], B[2]]


def test_few_workers_spread_over_supervisors_and_executors_are_dealt_in_turn() -> None:
    placed = place_from_scratch(executors(5), 2, [*A, *B])
    assert placed == {A[0]: run(1, 3, 5), B[0]: run(2, 4)}


def test_more_workers_than_executors_use_a_slot_an_executor() -> None:
    assert place_from_scratch(executors(2), 5, A) == {A[0]: run(1), A[1]: run(2)}


def test_without_slots_nothing_is_placed() -> None:
    assert place_from_scratch(executors(2), 2, []) == {}


def test_what_runs_stays_though_a_better_slot_appears() -> None:
    alive = {A[0]: run(1, 3), A[1]: run(2, 4)}
    assert place(Request(executors(4), 2, alive, {*A, *B})) == alive


def test_a_lost_worker_moves_and_the_others_stay() -> None:
    alive = {A[0]: run(1, 3)}
    assert place(Request(executors(4), 2, alive, {*A})) == {A[0]: run(1, 3), A[1]: run(2, 4)}


def test_without_another_slot_the_survivors_take_over() -> None:
    assert place(Request(executors(4), 2, {A[0]: run(1, 3)}, {A[0]})) == {A[0]: run(1, 2, 3, 4)}


def test_a_slot_that_appears_is_used_when_fewer_workers_run_than_wanted() -> None:
    alive = {A[0]: run(1, 2, 3, 4)}
    assert place(Request(executors(4), 2, alive, {A[0], B[0]})) == {A[0]: run(1, 3), B[0]: run(2, 4)}


def test_a_silent_worker_keeps_its_slot_only_if_there_is_no_other() -> None:
    alive, suspect = {A[0]: run(1, 3)}, {A[1]}
    assert place(Request(executors(4), 2, alive, {*A}, suspect))[A[2]] == run(2, 4)
    assert place(Request(executors(4), 2, alive, {A[0], A[1]}, suspect))[A[1]] == run(2, 4)


def test_another_machine_comes_before_the_one_where_a_worker_fell_silent() -> None:
    alive, suspect = {B[0]: run(1, 3)}, {A[0]}
    assert place(Request(executors(4), 2, alive, {*A, *B}, suspect)) == {B[0]: run(1, 3), B[1]: run(2, 4)}


def test_workers_of_an_absent_supervisor_stay_while_they_live() -> None:
    alive = {A[0]: run(1, 3), B[0]: run(2, 4)}
    assert place(Request(executors(4), 2, alive, {*A})) == alive
    # One of them dies: the other cannot be restarted where it is, so it keeps what it has.
    assert place(Request(executors(4), 2, {B[0]: run(2, 4)}, set())) == {B[0]: run(2, 4)}


def test_fewer_workers_wanted_than_run_gathers_the_executors() -> None:
    alive = {A[0]: run(1), A[1]: run(2), A[2]: run(3)}
    assert place(Request(executors(3), 1, alive, {*A})) == {A[0]: run(1, 2, 3)}


slots = st.builds(Slot, st.sampled_from("abcd"), st.integers(1, 4))


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A topology in any state: some executors run (in slots that may have lost their supervisor), others do not."""
    counts = draw(st.dictionaries(st.sampled_from(["s", "t", "u"]), st.integers(1, 6), min_size=1))
    tasks = {}
    first = 1
    for component, count in sorted(counts.items()):
        tasks[component] = range(first, first + count)
        first += count
    wanted = executors_of(tasks, {component: draw(st.integers(1, count)) for component, count in counts.items()})
    offered = draw(st.sets(slots, max_size=10))
    homes = draw(st.lists(slots, unique=True, max_size=6))
    alive: dict[Slot, tuple[tuple[int, int], ...]] = {}
    for executor in wanted:
        if homes and draw(st.booleans()):
            home = draw(st.sampled_from(homes))
            alive[home] = (*alive.get(home, ()), executor)
    suspect = draw(st.sets(st.sampled_from(sorted(offered)))) - alive.keys() if offered else set()
    return Request(wanted, draw(st.integers(1, 8)), alive, offered, suspect)


@given(requests())
def test_every_executor_is_placed_exactly_once_if_there_is_a_slot(request: Request) -> None:
    placed = [executor for run in place(request).values() for executor in run]
    assert len(placed) == len(set(placed))
    assert set(placed) <= set(request.executors)
    if request.offered:
        assert set(placed) == set(request.executors)


@given(requests())
def test_new_work_goes_to_offered_slots_only(request: Request) -> None:
    for slot, run in place(request).items():
        assert slot in request.offered or run == tuple(sorted(request.alive[slot]))


@given(requests())
def test_no_more_workers_than_wanted(request: Request) -> None:
    assert len(place(request)) <= max(request.workers, 1)


# A worker without its supervisor keeps most executors; the rest are too few for the slots that are left.
@example(
    Request(
        [(task, task) for task in range(1, 9)],
        4,
        {Slot("b", 1): ((1, 1), (2, 2), (4, 4), (5, 5), (6, 6), (7, 7))},
        [Slot("a", 1), Slot("a", 2), Slot("a", 3)],
        [Slot("a", 1)],
    )
)
@given(requests())
def test_the_outcome_is_stable(request: Request) -> None:
    after = place(request)
    assert place(request) == after
    assert place(Request(request.executors, request.workers, after, request.offered)) == after


@given(requests())
def test_nothing_moves_without_need(request: Request) -> None:
    """All run, in as many slots as there should be: nothing moves, however unevenly they run."""
    placed = {executor for run in request.alive.values() for executor in run}
    total = min(request.workers, len(request.executors), len({*request.alive, *request.offered}))
    if placed == set(request.executors) and len(request.alive) == total:
        assert place(request) == {slot: tuple(sorted(run)) for slot, run in request.alive.items()}


@given(requests())
def test_a_slot_of_the_right_size_keeps_its_worker(request: Request) -> None:
    """Where there is room, as many workers stay untouched as the even spread has places of their size."""
    if len(set(request.offered) - request.alive.keys()) < request.workers:
        return
    after = place(request)
    sizes = even_sizes(len(request.executors), min(request.workers, len(request.executors)))
    for size in set(sizes):
        fitting = [slot for slot, run in request.alive.items() if len(run) == size]
        stayed = [slot for slot in fitting if after.get(slot) == tuple(sorted(request.alive[slot]))]
        assert len(stayed) >= min(len(fitting), sizes.count(size))


@given(st.integers(1, 30), st.integers(1, 8), st.sets(slots, min_size=1))
def test_a_fresh_placement_is_even_and_spread(count: int, workers: int, offered: set[Slot]) -> None:
    placed = place_from_scratch(executors(count), workers, offered)
    sizes = sorted((len(run) for run in placed.values()), reverse=True)
    assert sizes == even_sizes(count, min(workers, count, len(offered)))
    used = [slot.supervisor_id for slot in placed]
    supervisors = {slot.supervisor_id for slot in offered}
    assert len(set(used)) == min(len(supervisors), len(placed))


def test_a_living_worker_without_a_supervisor_keeps_all_that_it_runs_or_nothing() -> None:
    alive = {Slot("gone", 1): ((1, 1), (2, 2), (3, 3))}
    assert place(Request([(1, 1), (2, 2), (3, 3)], 1, alive, [])) == alive
    assert place(Request([(1, 2), (3, 3)], 1, alive, [])) == {}
