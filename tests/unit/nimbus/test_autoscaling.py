"""Decisions on numbers of executors and workers: when, how many, within which bounds, and why not."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.nimbus.leader.autoscale_settings import Bounds, Settings
from tupletree.nimbus.leader.autoscaling import Change, Facts, Outlook, outlook, without_room
from tupletree.nimbus.leader.load_history import Load, Moment

SETTINGS = Settings({"count": Bounds(1, 8)})
APART = Facts({"count": 2}, {"count": 240}, own_threads={"count"})
SHARING = Facts({"count": 2}, {"count": 16}, workers=2, running_workers=2, free_slots=9)
GROWING = dataclasses.replace(SETTINGS, max_workers=8)


def moments(seconds: int, demand: float, executors: int = 2, **changes: Any) -> list[Moment]:
    """Seconds of steady load, which is spread evenly."""
    busy = min(1.0, demand / executors)
    load = Load(demand, busy, busy)._replace(**changes)
    return [Moment(float(second), 1.0, {"count": load}, demand) for second in range(1, seconds + 1)]


def change(settings: Settings, facts: Facts, history: list[Moment]) -> Change:
    found = outlook(settings, facts, history)
    assert found.change is not None, found.sentence
    return found.change


def test_a_busy_component_gets_as_many_executors_as_leave_its_threads_busy_for_60_percent() -> None:
    assert change(SETTINGS, APART, moments(60, 1.7)).executors == 3
    assert change(SETTINGS, APART, moments(60, 2.0)).executors == 4
    found = outlook(SETTINGS, APART, moments(60, 1.8)).sentence
    assert found == "'count' gets 4 executors instead of 2: its busiest thread was busy for 90% of the last 60 s"


def test_nothing_is_judged_before_the_load_was_observed_for_long_enough() -> None:
    found = outlook(SETTINGS, APART, moments(30, 2.0))
    assert (found.change, found.sentence) == (
        None,
        "nothing is changed: its load was observed for 30 s of 60 s",
    )
    assert outlook(SETTINGS, APART, []).sentence.endswith("for 0 s of 60 s")
    assert outlook(SETTINGS, APART, moments(500, 0.1)).change is None


def test_a_component_with_too_little_work_for_ten_minutes_loses_at_most_half_of_its_executors() -> None:
    facts = dataclasses.replace(APART, executors={"count": 8})
    assert change(SETTINGS, facts, moments(600, 0.4, 8)).executors == 4
    assert change(SETTINGS, facts, moments(600, 2.0, 8)).executors == 4
    assert change(SETTINGS, facts, moments(600, 2.4, 8)).executors == 5
    found = outlook(SETTINGS, facts, moments(600, 0.4, 8)).sentence
    assert found == (
        "'count' gets 4 executors instead of 8: at no time of the last 600 s did its work fill half of 4 threads"
    )


def test_one_busy_minute_in_ten_keeps_the_executors() -> None:
    facts = dataclasses.replace(APART, executors={"count": 8})
    history = moments(600, 0.4, 8)
    history[200:260] = [dataclasses.replace(one, loads=moments(1, 4.0, 8)[0].loads) for one in history[200:260]]
    found = outlook(SETTINGS, facts, history)
    assert (found.change, found.sentence) == (None, "nothing is changed: the load is within the thresholds")


def test_a_congested_component_gets_more_unless_it_waits_for_the_one_behind_it() -> None:
    history = moments(60, 0.8, congested=1.0)
    assert change(SETTINGS, APART, history).reason == (
        "more tuples waited for it than it takes for 100% of the last 60 s"
    )
    behind = [dataclasses.replace(one, loads={**one.loads, "store": Load(1.0, 1.0, 1.0, 0.0, 1.0)}) for one in history]
    facts = dataclasses.replace(APART, consumers={"count": {"store"}})
    assert outlook(SETTINGS, facts, behind).change is None


def test_a_lag_that_grows_lowers_the_threshold_and_is_part_of_the_reason() -> None:
    assert outlook(SETTINGS, APART, moments(60, 1.4)).change is None
    history = [dataclasses.replace(one, lags={"lines": 1000 * int(one.at_s)}) for one in moments(60, 1.4)]
    assert change(SETTINGS, APART, history).reason == (
        "its busiest thread was busy for 70% of the last 60 s, and its sources are 53000 messages behind"
    )
    steady = [dataclasses.replace(one, lags={"lines": 1000}) for one in moments(60, 1.4)]
    assert outlook(SETTINGS, APART, steady).change is None


def test_no_executor_is_taken_while_a_lag_grows() -> None:
    facts = dataclasses.replace(APART, executors={"count": 8})
    history = [dataclasses.replace(one, lags={"lines": 1000 * int(one.at_s)}) for one in moments(600, 0.4, 8)]
    assert outlook(SETTINGS, facts, history).change is None


def test_executors_that_share_run_loops_get_workers_with_them_or_none() -> None:
    found = change(GROWING, SHARING, moments(60, 2.0))
    assert (found.executors, found.workers) == (4, 4)
    assert found.sentence.startswith("'count' gets 4 executors instead of 2 and the topology gets 4 workers instead of")
    fixed = outlook(SETTINGS, SHARING, moments(60, 2.0))
    assert fixed.held == fixed.sentence.removeprefix("nothing is changed: ") != ""
    assert fixed.change is None
    assert fixed.sentence == (
        "nothing is changed: 'count' needs more executors, as its busiest thread was busy for 100% of the last 60 s, "
        "and each of 2 workers runs it already: more workers would help, which topology.autoscale.max.workers does not "
        "permit"
    )


def test_work_of_others_on_the_same_run_loop_counts_if_the_component_has_the_larger_part() -> None:
    assert change(GROWING, SHARING, moments(60, 1.0, busiest=0.95, own=0.5, others=0.45)).executors == 3
    assert outlook(GROWING, SHARING, moments(60, 0.4, busiest=0.95, own=0.2, others=0.75)).change is None


def test_workers_are_bounded_by_free_slots_but_wanted_all_the_same() -> None:
    facts = dataclasses.replace(SHARING, free_slots=1)
    found = outlook(GROWING, facts, moments(60, 2.0))
    assert found.change is not None
    assert (found.change.executors, found.change.workers, found.wanted_workers) == (3, 3, 4)
    full = outlook(GROWING, dataclasses.replace(SHARING, free_slots=0), moments(60, 2.0))
    assert (full.change, full.wanted_workers) == (None, 4)
    assert full.sentence == (
        "nothing is changed: 'count' needs 4 executors in as many workers, as its busiest thread was busy for 100% of "
        "the last 60 s, but no slot is free"
    )
    elsewhere = dataclasses.replace(SHARING, free_slots=0, no_slot="no slot is free on the machines of its own")
    assert outlook(GROWING, elsewhere, moments(60, 2.0)).held.endswith(
        ", but no slot is free on the machines of its own"
    )


def test_workers_fall_with_the_executors_to_those_of_the_submission() -> None:
    settings = dataclasses.replace(GROWING, min_workers=2)
    facts = dataclasses.replace(SHARING, executors={"count": 8}, workers=8, running_workers=8)
    found = change(settings, facts, moments(600, 0.4, 8))
    assert (found.executors, found.workers) == (4, 4)
    facts = dataclasses.replace(facts, executors={"count": 1})
    found = change(settings, facts, moments(600, 0.1, 1))
    assert (found.component, found.workers) == ("", 2)
    assert found.sentence == (
        "the topology gets 2 workers instead of 8: at no time of the last 600 s did its work fill half of 2 workers"
    )


def test_numbers_that_somebody_has_set_outside_the_bounds_are_left_alone() -> None:
    facts = dataclasses.replace(APART, executors={"count": 9})
    [one] = outlook(SETTINGS, facts, moments(600, 9.0, 9)).scalings
    assert (one.wanted, one.reason) == (9, "9 executors are outside 1 to 8, as somebody has set them")
    facts = dataclasses.replace(SHARING, workers=9, running_workers=9)
    assert outlook(GROWING, facts, moments(600, 0.1)).wanted_workers == 9


def test_a_component_that_an_update_has_removed_is_named() -> None:
    [one] = outlook(Settings({"gone": Bounds(1, 2)}), APART, moments(60, 1.0)).scalings
    assert (one.wanted, one.reason) == (0, "the topology has no such component")


def test_more_executors_that_no_task_would_gain_by_are_not_started() -> None:
    facts = dataclasses.replace(APART, executors={"count": 3}, tasks={"count": 4})
    assert change(SETTINGS, facts, moments(60, 3.0, 3)).executors == 4
    facts = dataclasses.replace(APART, executors={"count": 3}, tasks={"count": 5})
    settings = Settings({"count": Bounds(1, 4)})
    assert outlook(settings, facts, moments(60, 3.0, 3)).sentence.endswith(
        "its 5 tasks give no executor less work if it has more of them"
    )
    facts = dataclasses.replace(APART, executors={"count": 8})
    assert outlook(SETTINGS, facts, moments(60, 8.0, 8)).sentence.endswith("and 8 is the most that it may have")


def test_the_cool_down_and_what_is_under_way_suspend_changes() -> None:
    facts = dataclasses.replace(APART, since_change_s=100.5)
    found = outlook(SETTINGS, facts, moments(60, 2.0))
    assert found.change is None
    assert found.sentence.startswith(
        "nothing is changed for another 80 s, the cool-down; then 'count' gets 4 executors"
    )
    facts = dataclasses.replace(APART, obstacle="it is being updated")
    assert outlook(SETTINGS, facts, moments(60, 2.0)).sentence == "nothing is changed: it is being updated"


def test_the_busier_of_two_components_is_scaled_first() -> None:
    settings = Settings({"count": Bounds(1, 8), "split": Bounds(1, 8)})
    facts = Facts({"count": 2, "split": 2}, {"count": 240, "split": 240}, own_threads={"count", "split"})
    history = [
        Moment(one.at_s, 1.0, {"count": Load(1.7, 0.85, 0.85), "split": Load(2.0, 1.0, 1.0)}) for one in moments(60, 0)
    ]
    found = outlook(settings, facts, history)
    assert found.change is not None and found.change.component == "split"
    assert {one.component: one.wanted for one in found.scalings} == {"count": 3, "split": 4}


COUNTS = st.integers(1, 12)
SHARES = st.floats(0.0, 1.0)


@st.composite
def drawn_cases(draw: st.DrawFn) -> tuple[Settings, Facts]:
    low, high = sorted((draw(COUNTS), draw(COUNTS)))
    executors, workers = draw(COUNTS), draw(COUNTS)
    settings = Settings({"count": Bounds(low, high)}, draw(st.none() | COUNTS), draw(COUNTS))
    is_apart = draw(st.booleans())
    facts = Facts(
        {"count": executors},
        {"count": draw(st.integers(executors, 24))},
        workers=workers,
        running_workers=draw(st.integers(0, workers)),
        free_slots=draw(st.integers(0, 6)),
        own_threads={"count"} if is_apart else frozenset(),
        since_change_s=draw(st.sampled_from([0.0, 100.0, math.inf])),
    )
    return settings, facts


@given(drawn_cases(), st.lists(st.tuples(SHARES, SHARES, st.booleans()), min_size=1, max_size=12))
def test_a_change_is_within_all_bounds(case: tuple[Settings, Facts], minutes: list[tuple[float, float, bool]]) -> None:
    settings, facts = case
    count, bounds = facts.executors["count"], settings.bounds["count"]
    history = [
        Moment(
            60.0 * index, 60.0, {"count": Load(share * count, share, share * part, share - share * part, is_full)}, 1
        )
        for index, (share, part, is_full) in enumerate(minutes, 1)
    ]
    found = outlook(settings, facts, history)
    [one] = found.scalings
    assert one.wanted == count or bounds.min <= one.wanted <= min(bounds.max, facts.tasks["count"])
    assert count / 2 <= one.wanted <= 2 * count
    if facts.since_change_s < settings.cooldown_s:
        assert found.change is None
    if found.change is None:
        assert found.sentence.startswith("nothing is changed")
        return
    made = found.change
    assert (made.executors, made.workers) != (made.executors_before, made.workers_before)
    if made.component:
        assert min(count, one.wanted) <= made.executors <= max(count, one.wanted)
    if settings.max_workers is None:
        assert made.workers == facts.workers
    else:
        assert made.workers <= max(facts.workers, settings.max_workers)
        assert made.workers >= min(facts.workers, settings.min_workers)
    assert made.workers <= max(facts.workers, facts.running_workers + facts.free_slots)


@given(drawn_cases(), SHARES, SHARES)
def test_more_load_never_calls_for_fewer_executors(case: tuple[Settings, Facts], one: float, other: float) -> None:
    settings, facts = case
    count = facts.executors["count"]
    low, high = sorted((one, other))
    wanted = [outlook(settings, facts, moments(600, share * count, count)).scalings[0].wanted for share in (low, high)]
    assert wanted[0] <= wanted[1]


@given(drawn_cases(), SHARES)
def test_a_change_is_not_taken_back_while_the_load_stays(case: tuple[Settings, Facts], share: float) -> None:
    settings, facts = case
    facts = dataclasses.replace(facts, since_change_s=math.inf, free_slots=12)
    first = facts.executors["count"]
    demand = share * first / (1.0 if "count" in facts.own_threads else max(1.0, first / facts.workers))
    directions = []
    for _ in range(20):
        count = facts.executors["count"]
        tasks = facts.tasks["count"]
        part = math.ceil(tasks / count) / tasks
        if "count" not in facts.own_threads:
            part = min(1.0, math.ceil(count / facts.workers) * part)
        load = Load(demand, min(1.0, demand * part), min(1.0, demand * part))
        history = [Moment(float(second), 1.0, {"count": load}, demand) for second in range(1, 601)]
        made = outlook(settings, facts, history).change
        if made is None:
            break
        if made.component:
            directions.append(made.executors > made.executors_before)
        executors = made.executors if made.component else count
        facts = dataclasses.replace(
            facts, executors={"count": executors}, workers=made.workers, running_workers=made.workers
        )
    else:
        pytest.fail(f"it goes on changing: {directions}")
    assert len(set(directions)) <= 1


def test_executors_that_share_one_worker_get_more_workers_before_more_executors() -> None:
    crowded = dataclasses.replace(SHARING, workers=1, running_workers=1, tasks={"count": 4})
    made = change(GROWING, crowded, moments(60, 0.9, 1))
    assert (made.component, made.workers_before, made.workers) == ("", 1, 2)
    assert made.sentence == (
        "the topology gets 2 workers instead of 1: 'count' runs in them, and its busiest thread was busy for 90% of "
        "the last 60 s"
    )
    made = change(GROWING, crowded, moments(60, 1.7, 1))  # two workers would not suffice
    assert (made.component, made.executors, made.workers) == ("count", 4, 4)
    held = outlook(GROWING, dataclasses.replace(crowded, free_slots=0), moments(60, 0.9, 1))
    assert held.held == (
        "'count' needs 2 executors in as many workers, as its busiest thread was busy for 90% of the last 60 s, but no "
        "slot is free"
    )


def test_a_change_without_room_is_held() -> None:
    change = Change("count", 2, 4, 1, 1, "it was busy")
    found = without_room(Outlook((), 1, 1, change, change.sentence), "it lacks 5 MB.")
    assert found.change is None and found.held in found.sentence
    assert found.sentence == (
        "nothing is changed: there is no room for this: 'count' gets 4 executors instead of 2: it was busy; "
        "it lacks 5 MB."
    )
    assert without_room(found, "more") == found
