"""The rate of what leaves a worker decides how long it is gathered."""

from __future__ import annotations

import pytest

from tupletree.worker.network.linger import WINDOW_S, Linger


@pytest.mark.parametrize(("rate", "pause_s"), [(10_000, 0.0), (90_000, 0.0), (120_000, 0.001), (500_000, 0.005)])
def test_the_more_there_was_in_a_window_the_longer_the_pause(rate: int, pause_s: float) -> None:
    pace = Linger(0.0)
    pace.add(round(rate * WINDOW_S), WINDOW_S)
    assert pace.pause_s == pause_s
    pace.add(1, 2 * WINDOW_S)
    assert pace.pause_s == 0.0


def test_a_burst_changes_nothing_until_its_window_is_over() -> None:
    pace = Linger(0.0)
    pace.add(1_000_000, WINDOW_S / 100)
    assert pace.pause_s == 0.0
    pace.add(0, WINDOW_S)
    assert pace.pause_s == 0.005
