"""Autoscaling of a bolt under load curves: the lag stays bounded, and the changes few.

The model is fluid, in steps of ten seconds: a spout reads a source to which tuples come at the rate of the curve, and
hands on as much as the bolt executes; each thread of the bolt does one tuple a millisecond. A change stops
the spout for a pause, and the reports of workers are wrong by some percent.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tupletree.nimbus.leader.autoscale_settings import Bounds, Settings
from tupletree.nimbus.leader.autoscaling import Facts, outlook
from tupletree.nimbus.leader.load_history import LoadHistory, Reading, Thread

STEP_S = 10.0
RATE = 1000.0  # tuples a second that a thread executes
PAUSE_S = 10.0
TASKS = 48
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
SETTINGS = Settings({"count": Bounds(1, 12)}, max_workers=12, min_workers=1)


@dataclass
class Run:
    """The outcome of a simulated time."""

    changes: list[tuple[float, int]] = field(default_factory=list)  # time, executors
    worst_lag: float = 0.0
    last_lag: float = 0.0
    executor_s: float = 0.0

    @property
    def turns(self) -> int:
        """Number of times that the direction of the changes turns."""
        counts = [2, *(count for _, count in self.changes)]
        ups = [after > before for before, after in itertools.pairwise(counts)]
        return sum(one != other for one, other in itertools.pairwise(ups))


def simulate(curve: Callable[[float], float], seconds: float, *, is_apart: bool, noise: float = 0.05) -> Run:
    """Run a bolt that begins with two executors."""
    run, history, chance = Run(), LoadHistory(), random.Random(7)
    count, lag, now_s, paused_until_s, changed_s = 2, 0.0, 0.0, 0.0, -math.inf
    busy = dict.fromkeys(range(TASKS), 0.0)
    while now_s < seconds:
        now_s += STEP_S
        lag += STEP_S * curve(now_s)
        if now_s > paused_until_s:
            most = STEP_S * RATE / (math.ceil(TASKS / count) / TASKS)
            done = min(lag, most)
            lag -= done
            for task in busy:
                busy[task] += done / RATE / TASKS * (1 + noise * chance.uniform(-1, 1))
            size = math.ceil(TASKS / count)
            threads = {task: Thread(task // size, not is_apart) for task in busy}
            reading = Reading(now_s, dict(busy), threads, lags={"lines": round(lag)})
            history.add(reading, {"count": range(TASKS)}, count, SETTINGS.down_s)
            facts = Facts(
                {"count": count},
                {"count": TASKS},
                workers=1 if is_apart else count,
                running_workers=1 if is_apart else count,
                free_slots=12,
                own_threads={"count"} if is_apart else frozenset(),
                since_change_s=now_s - changed_s,
            )
            made = outlook(SETTINGS, facts, history.moments).change
            if made is not None:
                assert made.component == "count"
                assert now_s - changed_s >= SETTINGS.cooldown_s
                count, changed_s, paused_until_s = made.executors, now_s, now_s + PAUSE_S
                busy = dict.fromkeys(busy, 0.0)
                run.changes.append((now_s, count))
        run.worst_lag, run.last_lag = max(run.worst_lag, lag), lag
        run.executor_s += STEP_S * count
    return run


both = pytest.mark.parametrize("is_apart", [True, False], ids=["threads", "workers"])


@both
def test_a_step_is_followed_within_minutes_and_left_alone_then(is_apart: bool) -> None:
    run = simulate(lambda s: 800.0 if s < 1200 else 5000.0, 2 * HOUR_S, is_apart=is_apart)
    assert [count for _, count in run.changes if count > 2] == sorted(count for _, count in run.changes if count > 2)
    assert run.changes[-1][1] in range(7, 13)
    assert len(run.changes) <= 4
    assert run.changes[-1][0] < 1200 + 15 * 60
    assert run.worst_lag < 5000 * 8 * 60
    assert run.last_lag < 5000 * 4


@both
def test_a_ramp_is_followed_up_and_down(is_apart: bool) -> None:
    run = simulate(lambda s: 6000.0 * (1 - abs(s / (3 * HOUR_S) - 1)), 6 * HOUR_S, is_apart=is_apart)
    assert max(count for _, count in run.changes) >= 8
    assert run.changes[-1][1] <= 3
    assert run.turns <= 2
    assert len(run.changes) <= 14
    assert run.worst_lag < 6000 * 90


@both
def test_a_sawtooth_faster_than_ten_minutes_is_not_followed(is_apart: bool) -> None:
    run = simulate(lambda s: 1000.0 + 3000.0 * (s % 300) / 300, 6 * HOUR_S, is_apart=is_apart)
    assert len(run.changes) <= 4
    assert run.turns <= 1
    assert run.last_lag < 4000 * 60


@both
def test_a_day_costs_less_than_its_peak_all_day(is_apart: bool) -> None:
    run = simulate(lambda s: 3000.0 - 2600.0 * math.cos(2 * math.pi * s / DAY_S), DAY_S, is_apart=is_apart)
    assert run.turns <= 2
    assert len(run.changes) <= 14
    assert run.worst_lag < 6000 * 60
    assert run.executor_s < 0.75 * 10 * DAY_S


@both
def test_short_spikes_change_nothing(is_apart: bool) -> None:
    run = simulate(lambda s: 2500.0 if s % 1800 < 10 else 1200.0, 6 * HOUR_S, is_apart=is_apart)
    assert run.changes == []
    assert run.worst_lag < 3600 * 60


@both
@pytest.mark.parametrize("rate", [900.0, 1100.0, 1300.0, 1500.0])
def test_a_noisy_steady_load_is_left_alone(is_apart: bool, rate: float) -> None:
    chance = random.Random(3)
    run = simulate(lambda _: rate * chance.uniform(0.7, 1.3), 6 * HOUR_S, is_apart=is_apart, noise=0.2)
    assert run.turns == 0
    assert len(run.changes) <= 1
    assert run.last_lag < rate * 10


def test_a_load_beyond_the_maximum_does_not_flap() -> None:
    run = simulate(lambda _: 20_000.0, 2 * HOUR_S, is_apart=True)
    assert run.changes[-1][1] == 12
    assert len(run.changes) <= 4
