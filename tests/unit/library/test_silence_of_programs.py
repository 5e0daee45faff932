"""How long a program in another language has been silent, as far as its worker was there to hear it."""

from __future__ import annotations

from tupletree.multilang.silence import MAX_STEP_S, Silence


def test_silence_is_the_time_since_the_program_was_heard() -> None:
    silence = Silence(100.0)
    assert silence.look(99.0, 101.0) == 1.0, "what was heard before it began does not count"
    assert silence.look(101.5, 102.0) == 0.5
    assert [silence.look(101.5, 102.0 + second) for second in range(1, 4)] == [1.5, 2.5, 3.5]
    assert silence.look(105.9, 106.0) == 106.0 - 105.9


def test_the_time_of_a_suspended_worker_is_no_silence() -> None:
    silence = Silence(100.0)
    assert silence.look(99.0, 101.0) == 1.0
    assert silence.look(99.0, 701.0) == 1.0 + MAX_STEP_S
    assert silence.look(701.5, 702.0) == 0.5
    assert silence.look(703.0, 1303.0) == MAX_STEP_S, "also if it was heard right before"
