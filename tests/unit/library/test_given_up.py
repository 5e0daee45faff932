"""The attempts at messages that come again from a checkpoint."""

from __future__ import annotations

import pytest

from tupletree import Backoff
from tupletree._given_up import MAX_KNOWN, Attempts
from tupletree._wire.fail_reasons import FailReason

REASON = FailReason("step", 3, "no customer")
FINAL = FailReason("step", 3, "no customer", retry=False)
RETRY = Backoff(first_s=1, factor=2, max_s=60, max_attempts=3)


def test_a_message_is_over_after_its_last_attempt() -> None:
    attempts = Attempts(RETRY)
    for at in range(3):
        assert attempts.over("a") is None
        attempts.failed("a", REASON, float(at))
    assert attempts.over("a") == (3, REASON)
    assert attempts.over("b") is None


def test_a_final_failure_is_the_last_attempt() -> None:
    attempts = Attempts(RETRY)
    attempts.failed("a", REASON, 0.0)
    attempts.failed("a", FINAL, 0.0)
    attempts.failed("b", FINAL, 0.0)
    assert (attempts.over("a"), attempts.over("b")) == ((2, FINAL), (1, FINAL))


def test_nothing_is_emitted_before_the_longest_pause_is_over_and_the_last_attempt_has_none() -> None:
    attempts = Attempts(RETRY)
    attempts.failed("a", REASON, 10.0)
    assert attempts.resume_s == 11.0
    attempts.failed("a", REASON, 20.0)
    assert attempts.resume_s == 22.0
    attempts.failed("b", REASON, 20.5)
    assert attempts.resume_s == 22.0
    attempts.failed("a", REASON, 30.0)
    assert attempts.resume_s == 22.0


def given_up(*keys: str) -> Attempts:
    attempts = Attempts(RETRY)
    for key in keys:
        attempts.failed(key, FINAL, 0.0)
    return attempts


def test_what_is_given_up_in_a_committed_checkpoint_is_forgotten() -> None:
    attempts = given_up("a", "b")
    attempts.came("a")
    attempts.begin_checkpoint()
    attempts.came("b")
    assert attempts.over("a") is not None  # the checkpoint is not known to be committed
    attempts.begin_checkpoint()
    assert attempts.over("a") is None
    assert attempts.over("b") is not None
    attempts.begin_checkpoint()
    assert not attempts.is_any_over


@pytest.mark.parametrize("is_begun", [False, True])
def test_what_was_given_up_since_the_checkpoint_that_is_gone_back_to_is_given_up_again(is_begun: bool) -> None:
    attempts = given_up("a")
    attempts.came("a")
    if is_begun:
        attempts.begin_checkpoint()
    attempts.go_back()
    for _ in range(3):
        attempts.begin_checkpoint()
        assert attempts.over("a") is not None


def test_the_attempts_of_messages_that_failed_long_ago_are_forgotten_first() -> None:
    attempts = Attempts(Backoff(first_s=0, max_attempts=2))
    for number in range(MAX_KNOWN):
        attempts.failed(number, REASON, 0.0)
    attempts.failed(0, REASON, 0.0)
    attempts.failed("new", REASON, 0.0)
    attempts.failed("newer", REASON, 0.0)
    attempts.failed(2, REASON, 0.0)
    attempts.failed(1, REASON, 0.0)
    assert attempts.over(0) is not None
    assert attempts.over(1) is None  # its attempt before was forgotten
    assert attempts.over(2) is not None
