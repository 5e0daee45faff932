"""When a daemon that died is started again."""

from __future__ import annotations

from tupletree._devcluster.restarts import MAX_PAUSE_S, STEADY_S, RestartSchedule


def test_the_first_restart_is_at_once_and_pauses_double_up_to_a_limit() -> None:
    schedule, now, pauses = RestartSchedule(), 100.0, []
    for _ in range(10):
        schedule.started(now)
        pauses.append(schedule.died(now))
        now += pauses[-1]
        assert schedule.due(now)
    assert pauses[:4] == [0.0, 0.5, 1.0, 2.0]
    assert pauses[-1] == MAX_PAUSE_S


def test_one_that_ran_for_a_while_starts_anew() -> None:
    schedule = RestartSchedule()
    for now in (0.0, 1.0, 2.0):
        schedule.started(now)
        schedule.died(now)
    schedule.started(10.0)
    assert schedule.died(10.0 + STEADY_S) == 0.0


def test_a_death_counts_once() -> None:
    schedule = RestartSchedule()
    schedule.started(0.0)
    schedule.died(0.0)
    schedule.started(0.0)
    assert schedule.died(1.0) == 0.5
    assert not schedule.due(1.2)
    assert schedule.died(1.25) == 0.25
    assert schedule.due(1.5)


def test_a_running_daemon_is_never_due() -> None:
    schedule = RestartSchedule()
    assert not schedule.due(1e9)
    schedule.started(0.0)
    assert not schedule.due(1e9)
