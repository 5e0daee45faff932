"""When a task acts on a step, and what becomes of tuples meanwhile."""

from __future__ import annotations

import pytest

from tupletree._checkpoints.steps import Action, Step
from tupletree.worker.checkpoint.barriers import Arrival, Barriers, StepDecision

A, B = 5, 6


def aligned(generation=10):
    """Of two sources, initialised in a generation."""
    one = Barriers([A, B], is_aligned=True)
    initialise(one, generation)
    return one


def initialise(one, round_):
    step = Step(round_, Action.INITSTATE, 0)
    assert one.arrive(A, step, 0) is Arrival.EARLY
    assert one.arrive(B, step, 0) is Arrival.LAST
    one.acted(step)


def prepare(round_=20, txid=1):
    return Step(round_, Action.PREPARE, txid)


def test_a_task_acts_when_the_step_has_come_from_every_source():
    one = Barriers([A, B], is_aligned=False)
    step = Step(1, Action.INITSTATE, 0)
    assert one.arrive(B, step, 0) is Arrival.EARLY
    assert one.arrive(B, step, 0) is Arrival.AGAIN
    assert one.arrive(A, step, 0) is Arrival.LAST
    one.acted(step)
    assert one.arrive(A, step, 0) is Arrival.AGAIN, "it has been acted on"
    assert one.arrive(99, step, 0) is Arrival.OVER, "it is no source"


def test_an_earlier_round_is_over_when_a_later_one_has_begun():
    one = Barriers([A, B], is_aligned=False)
    assert one.arrive(A, prepare(1), 0) is Arrival.EARLY
    assert one.arrive(A, prepare(2), 0) is Arrival.EARLY
    assert one.arrive(B, prepare(1), 0) is Arrival.OVER
    assert one.arrive(B, prepare(2), 0) is Arrival.LAST


def test_by_default_tuples_are_held_until_the_state_is_initialised_and_run_from_then_on():
    one = Barriers([A], is_aligned=False)
    assert one.admit(A, 0, 3) is StepDecision.HOLD
    step = Step(1, Action.INITSTATE, 0)
    one.arrive(A, step, 0)
    one.acted(step)
    assert one.judge_held(A, 0) is StepDecision.RUN
    one.arrive(A, prepare(), 999)
    assert one.admit(A, 0, 3) is StepDecision.RUN, "nothing is aligned, nothing is counted"


def test_aligned_what_comes_behind_a_prepare_waits_for_those_of_the_other_sources():
    one = aligned()
    assert one.admit(A, 10, 2) is StepDecision.RUN
    assert one.arrive(A, prepare(), 2) is Arrival.EARLY
    assert one.admit(A, 10, 4) is StepDecision.HOLD
    assert one.admit(B, 10, 1) is StepDecision.RUN, "it was sent before B's PREPARE"
    assert one.judge_held(A, 10) is StepDecision.HOLD
    assert one.arrive(B, prepare(), 1) is Arrival.LAST
    assert one.admit(B, 10, 1) is StepDecision.HOLD, "the task has not acted yet"
    one.acted(prepare())
    assert one.judge_held(A, 10) is one.judge_held(B, 10) is StepDecision.RUN


def test_aligned_the_numbers_go_on_over_the_checkpoints_of_a_generation():
    one = aligned()
    one.admit(A, 10, 2)
    one.arrive(A, prepare(), 2)
    one.admit(A, 10, 4)
    one.arrive(B, prepare(), 0)
    one.acted(prepare())
    assert one.arrive(A, prepare(30, 2), 6) is Arrival.EARLY
    assert one.arrive(B, prepare(30, 2), 0) is Arrival.LAST


@pytest.mark.parametrize("received", [1, 3])
def test_aligned_a_checkpoint_is_refused_over_a_number_that_is_wrong(received):
    one = aligned()
    one.admit(A, 10, received)
    assert one.arrive(A, prepare(), 2) is Arrival.WRONG
    assert one.fault == f"task {A} sent 2 rows in this generation, but {received} have arrived"
    assert one.arrive(B, prepare(), 0) is Arrival.WRONG, "and stays so"
    assert one.admit(A, 10, 1) is StepDecision.RUN, "nothing waits for it"
    step = Step(21, Action.ROLLBACK, 1)
    assert one.arrive(A, step, 0) is Arrival.EARLY, "the next round begins anew"


def test_aligned_rows_that_are_given_up_show_in_the_number():
    one = aligned()
    one.admit(A, 10, 2)
    one.lost(A, 10, 2)
    assert one.arrive(A, prepare(), 2) is Arrival.WRONG


def test_aligned_nothing_is_executed_before_the_first_generation_begins():
    one = Barriers([A, B], is_aligned=True)
    assert one.admit(A, 0, 1) is StepDecision.DROP
    assert one.admit(A, 10, 1) is StepDecision.HOLD, "another task is there already"
    initialise(one, 10)
    assert one.judge_held(A, 10) is StepDecision.RUN
    assert one.arrive(A, prepare(), 1) is Arrival.EARLY, "it was counted when it came"


def test_aligned_an_older_generation_is_dropped_and_a_newer_one_held():
    one = aligned(10)
    one.arrive(A, Step(40, Action.INITSTATE, 0), 0)
    assert one.admit(B, 10, 1) is StepDecision.RUN, "taken back only when this task begins anew"
    assert one.admit(A, 40, 1) is StepDecision.HOLD
    one.arrive(B, Step(40, Action.INITSTATE, 0), 0)
    one.acted(Step(40, Action.INITSTATE, 0))
    assert one.admit(B, 10, 1) is StepDecision.DROP
    assert one.judge_held(A, 40) is StepDecision.RUN


def test_aligned_after_a_rollback_what_is_of_the_generation_is_dropped():
    one = aligned(10)
    step = Step(30, Action.ROLLBACK, 1)
    one.arrive(A, step, 0)
    one.arrive(B, step, 0)
    one.acted(step)
    assert one.admit(A, 10, 1) is StepDecision.DROP
    initialise(one, 40)
    assert one.admit(A, 40, 1) is StepDecision.RUN


def test_aligned_what_was_held_for_a_checkpoint_that_is_given_up_is_dropped():
    one = aligned(10)
    one.arrive(A, prepare(), 0)
    assert one.admit(A, 10, 1) is StepDecision.HOLD
    one.arrive(B, Step(30, Action.ROLLBACK, 1), 0)
    assert one.judge_held(A, 10) is StepDecision.DROP
