"""How long a supervisor waits before it tries again."""

from __future__ import annotations

from tupletree.supervisor.backoff import restart_delay_s, retry_delay_s


def test_the_first_restart_is_at_once_then_the_wait_doubles_to_thirty_seconds() -> None:
    assert [restart_delay_s(deaths) for deaths in range(1, 10)] == [0, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_retry_waits_from_the_first_failure_on() -> None:
    assert [retry_delay_s(failures) for failures in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]


def test_a_million_deaths_do_not_overflow() -> None:
    assert restart_delay_s(1_000_000) == retry_delay_s(1_000_000) == 30
