"""The rate of what leaves a worker, and how late its loop is, decide how long it is gathered."""

from __future__ import annotations

import pytest

from tupletree.worker.network.linger import LATE_SHARE, MAX_LATE_INTERVALS, WINDOW_S, Linger

INTERVAL_S = 0.005


@pytest.mark.parametrize(("rate", "pause_s"), [(10_000, 0.0), (90_000, 0.0), (120_000, 0.001), (500_000, 0.005)])
def test_the_more_there_was_in_a_window_the_longer_the_pause(rate: int, pause_s: float) -> None:
    linger = Linger(0.0, INTERVAL_S)
    linger.add(round(rate * WINDOW_S), 0.0, 1, WINDOW_S)
    assert linger.pause_s == pause_s
    linger.add(1, 0.0, 1, 2 * WINDOW_S)
    assert linger.pause_s == 0.0


def test_a_burst_changes_nothing_until_its_window_is_over() -> None:
    linger = Linger(0.0, INTERVAL_S)
    linger.add(1_000_000, 0.0, 1, WINDOW_S / 100)
    assert linger.pause_s == 0.0
    linger.add(0, 0.0, 1, WINDOW_S)
    assert linger.pause_s == 0.005


def test_the_pause_for_the_rate_is_no_longer_than_the_flush_interval() -> None:
    linger = Linger(0.0, 0.002)
    linger.add(1_000_000, 0.0, 1, WINDOW_S)
    assert linger.pause_s == 0.002


def after(late_s: float, peers: int, interval_s: float = INTERVAL_S) -> Linger:
    """A linger whose loop has been this late for a second."""
    linger = Linger(0.0, interval_s)
    for window in range(1, 51):
        linger.add(10, late_s, peers, window * WINDOW_S)
    return linger


def test_a_late_loop_pauses_longer_for_each_peer_but_the_first() -> None:
    assert [after(0.001, peers).pause_s for peers in (0, 1)] == [0.0, 0.0]
    for peers in (2, 4, 8):
        assert after(0.001, peers).pause_s == pytest.approx(LATE_SHARE * (peers - 1) * 0.001, rel=0.01)


def test_the_pause_of_a_late_loop_is_bounded_by_the_flush_interval() -> None:
    assert after(0.5, 32).pause_s == MAX_LATE_INTERVALS * INTERVAL_S
    assert after(0.5, 32, interval_s=0.001).pause_s == MAX_LATE_INTERVALS * 0.001


def test_the_pause_ends_when_the_loop_is_in_time_again() -> None:
    linger = after(0.01, 8)
    assert linger.pause_s > 0.05
    for window in range(51, 101):
        linger.add(10, 0.0, 8, window * WINDOW_S)
    assert linger.pause_s < 0.001
