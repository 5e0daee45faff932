"""When a source that has nothing to emit is asked again."""

from __future__ import annotations

import pytest

from tupletree.worker.execution.idle_spouts import WINDOW_S, WORTH_TUPLES, IdleWait

LENGTH_S = 0.001


def rest_at(tuples_per_s: float, length_s: float = LENGTH_S) -> tuple[IdleWait, float]:
    """The rest of a source that has emitted at this rate for two windows and ran dry just now, and the time."""
    rest, now_s = IdleWait(length_s), 100.0
    for _ in range(3):
        rest.begin_step(now_s)
        rest.ran_dry = True
        rest.end_step(now_s)
        now_s += WINDOW_S
        rest.emitted += round(tuples_per_s * WINDOW_S)
    return rest, now_s - WINDOW_S


@pytest.mark.parametrize(
    ("tuples_per_s", "rests"),
    [(0, False), (0.9 * WORTH_TUPLES / LENGTH_S, False), (1.1 * WORTH_TUPLES / LENGTH_S, True)],
)
def test_a_source_rests_where_it_emits_much_in_the_time_of_a_rest(tuples_per_s: float, rests: bool) -> None:
    rest, now_s = rest_at(tuples_per_s)
    for late_s, is_on in ((0.9 * LENGTH_S, rests), (1.1 * LENGTH_S, False)):
        rest.begin_step(now_s + late_s)
        assert rest.is_on == is_on


def test_a_step_within_a_rest_does_not_prolong_it() -> None:
    rest, now_s = rest_at(1e6)
    until_s = rest.until_s
    rest.begin_step(now_s + LENGTH_S / 2)
    rest.end_step(now_s + LENGTH_S / 2)
    assert rest.until_s == until_s == now_s + LENGTH_S


def test_a_source_with_more_to_emit_does_not_rest_and_a_rest_may_be_ended() -> None:
    rest, now_s = rest_at(1e6)
    rest.end()
    rest.begin_step(now_s)
    assert not rest.is_on
    rest.end_step(now_s)  # it did not run dry
    rest.begin_step(now_s)
    assert not rest.is_on


def test_a_length_of_0_is_no_rest() -> None:
    rest, now_s = rest_at(1e6, length_s=0.0)
    rest.begin_step(now_s)
    assert not rest.is_on
