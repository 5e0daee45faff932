"""What counters stood at in the past, and what was counted in a window."""

from __future__ import annotations

import pytest

from tupletree.nimbus.statistics.windowed_counters import BUCKETS, WINDOWS_S, WindowedCounters


def counted(history: WindowedCounters, total: float, window_s: float, now_s: float) -> float:
    return history.in_window({"acked": total}, window_s, now_s)["acked"]


def steady(history: WindowedCounters, rate: float, until_s: int, step_s: int = 1) -> float:
    """Count evenly from second 0 on."""
    history.credit({"acked": 0}, 0.0, 0.0)
    for now_s in range(0, until_s + 1, step_s):
        history.add_sample({"acked": rate * now_s}, float(now_s))
    return rate * until_s


def test_a_window_that_is_longer_than_the_past_holds_all_of_it() -> None:
    history = WindowedCounters()
    total = steady(history, 7, 100)
    assert [counted(history, total, window_s, 100.0) for window_s in WINDOWS_S] == [700, 700, 700]


@pytest.mark.parametrize("window_s", WINDOWS_S)
def test_a_window_is_as_long_as_it_says(window_s: int) -> None:
    history = WindowedCounters()
    step_s = window_s // 600
    until_s = 3 * window_s + 7
    total = steady(history, 5, until_s, step_s)
    assert counted(history, total, window_s, float(until_s)) == pytest.approx(5 * window_s)


def test_what_ended_long_ago_leaves_the_short_windows_first() -> None:
    history = WindowedCounters()
    history.credit({"acked": 0}, 0.0, 0.0)
    for now_s in range(0, 4000, 5):
        history.add_sample({"acked": min(now_s, 100)}, float(now_s))
    assert [counted(history, 100, window_s, 3999.0) for window_s in WINDOWS_S] == [0, 100, 100]


def test_between_two_moments_counters_are_taken_to_have_risen_evenly() -> None:
    history = WindowedCounters()
    history.credit({"acked": 0}, 0.0, 0.0)
    history.add_sample({"acked": 0}, 0.0)
    history.add_sample({"acked": 1000}, 1000.0)
    assert counted(history, 1000, 600, 1000.0) == pytest.approx(600)
    assert counted(history, 1300, 600, 1100.0) == pytest.approx(1300 - 500)


def test_a_task_that_is_first_heard_of_late_counts_evenly_since_it_began() -> None:
    """A new leader knows no past: half of what a worker did in twenty minutes counts for the last ten."""
    history = WindowedCounters()
    history.credit({"acked": 1200}, -1200.0, 0.0)
    history.add_sample({"acked": 1200}, 0.0)
    assert counted(history, 1200, 600, 0.0) == pytest.approx(600)
    assert counted(history, 1200, 10_800, 0.0) == 1200


def test_what_joins_later_takes_its_share_of_the_past_with_it() -> None:
    history = WindowedCounters()
    history.credit({"acked": 600}, -600.0, 0.0)
    history.add_sample({"acked": 600}, 0.0)
    history.credit({"acked": 400}, -100.0, 0.0)  # another task, which began later
    assert counted(history, 1000, 600, 0.0) == pytest.approx(1000)
    history.add_sample({"acked": 1000}, 20.0)
    # between second -600 and 0 no moment is known: both together are taken to have counted evenly
    assert counted(history, 1000, 600, 20.0) == pytest.approx(1000 - 1000 * 20 / 600)


def test_counters_that_come_later_were_0_before() -> None:
    history = WindowedCounters()
    history.credit({"acked": 10}, 0.0, 0.0)
    history.add_sample({"acked": 10}, 0.0)
    history.add_sample({"acked": 20, "failed": 5}, 700.0)
    history.add_sample({"acked": 20, "failed": 8}, 1400.0)
    assert history.in_window({"acked": 20, "failed": 8}, 600, 1400.0) == pytest.approx(
        {"acked": 0, "failed": 3 * 600 / 700}
    )


def test_memory_is_bounded_and_what_stands_still_takes_two_rows() -> None:
    busy, still = WindowedCounters(), WindowedCounters()
    for now_s in range(0, 200_000, 10):
        busy.add_sample({"acked": now_s}, float(now_s))
        still.add_sample({"acked": 1}, float(now_s))
    rows = [ring._size() for ring in busy._rings]
    assert max(rows) <= BUCKETS + 2
    assert [ring._size() for ring in still._rings] == [2, 2, 2]
    assert counted(still, 1, 600, 200_000.0) == 0


def test_noting_often_changes_nothing() -> None:
    often, seldom = WindowedCounters(), WindowedCounters()
    for now_s in range(2000):
        often.add_sample({"acked": 3 * now_s}, float(now_s))
        if now_s % 20 == 0:
            seldom.add_sample({"acked": 3 * now_s}, float(now_s))
    assert counted(often, 6000, 600, 2000.0) == counted(seldom, 6000, 600, 2000.0)
