"""How long trees take decides how long verdicts and updates are gathered."""

from __future__ import annotations

import pytest

from tupletree.acker.linger import BUSY_PER_S, MAX_S, SHARE, WINDOW_S, Linger


def after_a_window(pending: int, rate_per_s: float) -> Linger:
    gathering = Linger()
    gathering.update(0, 1_000, 0.0)
    gathering.update(pending, 1_000 + round(rate_per_s * WINDOW_S), WINDOW_S)
    return gathering


@pytest.mark.parametrize(
    ("pending", "rate_per_s", "takes_s"),
    [(4_000, 160_000, 0.025), (12_000, 200_000, 0.06), (300, 100_000, 0.003)],
)
def test_it_is_a_share_of_the_time_that_trees_take(pending: int, rate_per_s: float, takes_s: float) -> None:
    assert after_a_window(pending, rate_per_s).pause_s == pytest.approx(SHARE * takes_s)


@pytest.mark.parametrize("rate_per_s", [0, 100, 19_000])
def test_nothing_is_gathered_where_few_trees_are_completed(rate_per_s: float) -> None:
    assert after_a_window(1_000_000, rate_per_s).pause_s == 0.0


def test_between_few_and_many_it_is_a_part_of_that() -> None:
    half_way = sum(BUSY_PER_S) / 2
    assert after_a_window(300, half_way).pause_s == pytest.approx(SHARE * 300 / half_way / 2)


def test_trees_that_wait_for_minutes_do_not_hold_the_others_up_for_longer_than_the_most() -> None:
    assert after_a_window(10_000_000, 50_000).pause_s == MAX_S


def test_a_look_within_the_window_and_one_after_the_ledgers_began_anew_gather_nothing() -> None:
    gathering = after_a_window(12_000, 200_000)
    gathering.update(0, 11_001, 1.5 * WINDOW_S)
    assert gathering.pause_s == pytest.approx(SHARE * 0.06)
    gathering.update(12_000, 50, 2.5 * WINDOW_S)
    assert gathering.pause_s == 0.0
