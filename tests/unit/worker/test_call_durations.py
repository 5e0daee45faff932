"""For how long a call of user code has lasted."""

from __future__ import annotations

from tupletree.worker.execution.call_durations import CallDurations


def test_a_step_that_goes_on_from_look_to_look_is_told_with_its_tasks() -> None:
    calls = CallDurations()
    assert calls.observe([("a", 7, [1, 2]), ("b", 3, [5])], 10.0) == {}
    assert calls.observe([("a", 7, [1, 2]), ("b", 4, [5])], 11.0) == {1: 1.0, 2: 1.0}
    assert calls.observe([("a", 7, [1, 2]), ("b", 4, [5])], 15.0) == {1: 5.0, 2: 5.0, 5: 4.0}


def test_a_loop_that_is_in_no_step_or_in_another_begins_anew() -> None:
    calls = CallDurations()
    calls.observe([("a", 7, [1])], 0.0)
    assert calls.observe([("a", 7, [])], 5.0) == {}
    assert calls.observe([("a", 7, [1])], 6.0) == {}
    assert calls.observe([("a", 8, [1])], 9.0) == {}
