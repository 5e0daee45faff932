"""The time of processing-time windows: a clock that meets the ends of windows at ticks."""

from __future__ import annotations

import pytest

from tupletree.windows.arrival_time import ArrivalTime

SLIDE = 1_000


@pytest.mark.parametrize(
    ("clock_us", "now_us"), [(1_000, 1_000), (1_010, 1_010), (990, 1_000), (501, 1_000), (500, 500), (1_499, 1_499)]
)
def test_a_tick_that_is_a_little_early_stands_at_the_end_of_the_window(clock_us: int, now_us: int) -> None:
    assert ArrivalTime(0, SLIDE).at_tick(clock_us, SLIDE) == now_us


def test_ticks_that_come_more_often_than_windows_end_only_windows_that_are_near() -> None:
    arrival = ArrivalTime(0, SLIDE)
    assert [arrival.at_tick(clock_us, 100) for clock_us in (890, 960)] == [890, 1_000]


def test_what_arrives_after_a_tick_is_of_the_next_window_whatever_the_clock_says() -> None:
    arrival = ArrivalTime(50_000, SLIDE)
    assert arrival.at_tick(50_900, SLIDE) == 1_000
    assert [arrival.at(clock_us) for clock_us in (50_950, 51_020, 51_010)] == [1_000, 1_020, 1_020]


def test_windows_that_end_with_tuples_need_no_ends() -> None:
    assert ArrivalTime(0, None).at_tick(990, 1_000) == 990
